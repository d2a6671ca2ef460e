package answer

import (
	"strings"
	"unicode/utf8"
)

// pageBudget is about how many bytes of HTML the untrusted part of one page may
// take. What does not fit goes to the next page; nothing is cut away.
const pageBudget = 20 << 10

// chunk is the longest piece of text that is kept together, in bytes.
const chunk = 2 << 10

func spanCost(s span) int {
	if s.Mark != "" {
		return 40 + len(s.Mark) + len(s.Name)
	}
	n := len(s.Text)
	for _, c := range []string{"<", ">", "&", "'", `"`, "+"} {
		n += 4 * strings.Count(s.Text, c)
	}
	return n
}

// split cuts spans where they get longer than size, between characters.
func split(spans []span, size int) []span {
	var out []span
	for _, s := range spans {
		for s.Mark == "" && len(s.Text) > size {
			n := size
			for n > 0 && !utf8.RuneStart(s.Text[n]) {
				n--
			}
			head := s
			head.Text, s.Text = s.Text[:n], s.Text[n:]
			out = append(out, head)
		}
		out = append(out, s)
	}
	return out
}

// pageBlocks distributes blocks over pages. There is always one page.
func pageBlocks(blocks []block) [][]block {
	pages, left := [][]block{nil}, pageBudget
	for _, b := range blocks {
		part := block{Label: b.Label, Prose: b.Prose, Short: b.Short}
		put := func() { pages[len(pages)-1] = append(pages[len(pages)-1], part) }
		left -= 60 + len(b.Label)
		for _, s := range split(b.Spans, chunk) {
			cost := spanCost(s)
			if cost > left && (len(part.Spans) > 0 || len(pages[len(pages)-1]) > 0) {
				if len(part.Spans) > 0 {
					put()
				}
				pages, left = append(pages, nil), pageBudget
				part = block{Label: strings.TrimSpace(b.Label + " (continued)"), Prose: b.Prose}
			}
			part.Spans = append(part.Spans, s)
			left -= cost
		}
		put()
	}
	return pages
}

// shownRow is one row of a diff as a page shows it. A line that is too long for one
// row goes on in the next, without a number.
type shownRow struct {
	Class string
	Line  int
	Spans []span
}

// shownFile is one file of a diff, or as much of it as fits a page.
type shownFile struct {
	fileDiff
	Continued bool
	Open      bool
	Rows      []shownRow
}

// rowGroup is a run of rows that are changed, or of rows that are not. On a wide
// screen what went stands beside what came, within one group.
type rowGroup struct {
	Changed bool
	Rows    []shownRow
}

// Groups are the rows of f, in order.
func (f shownFile) Groups() (groups []rowGroup) {
	for _, r := range f.Rows {
		changed := r.Class == "a" || r.Class == "d"
		if n := len(groups); n == 0 || groups[n-1].Changed != changed {
			groups = append(groups, rowGroup{Changed: changed})
		}
		last := &groups[len(groups)-1]
		last.Rows = append(last.Rows, r)
	}
	return groups
}

var rowClass = map[byte]string{'+': "a", '-': "d", '@': "h", 'h': "h", 'n': "h", '?': "h"}

// pageDiff distributes the files of a diff over pages. There is always one page.
func pageDiff(files []fileDiff) [][]shownFile {
	pages, left := [][]shownFile{nil}, pageBudget
	for _, f := range files {
		open := len(f.Rows) < 400 && (len(f.Flags) == 0 || !strings.HasPrefix(f.Flags[0], "lock file"))
		part := shownFile{fileDiff: f, Open: open}
		part.fileDiff.Rows = nil
		put := func() { pages[len(pages)-1] = append(pages[len(pages)-1], part) }
		left -= 300 + 2*len(f.Path()) + 2*len(f.Old)
		for i, r := range f.Rows {
			if r.told() || i == len(f.Rows)-1 && r.Text == "" {
				continue // the file's head says it; or what follows the last newline
			}
			spans := split(visible(r.Text), chunk)
			if len(spans) == 0 {
				spans = []span{{}} // an empty line is a line
			}
			for j, s := range spans {
				cost := spanCost(s)
				last := len(part.Rows) - 1
				if j > 0 && last >= 0 && cost <= left {
					part.Rows[last].Spans = append(part.Rows[last].Spans, s)
					left -= cost
					continue
				}
				cost += 50
				if cost > left && (len(part.Rows) > 0 || len(pages[len(pages)-1]) > 0) {
					if len(part.Rows) > 0 {
						put()
					}
					pages, left = append(pages, nil), pageBudget
					part = shownFile{fileDiff: part.fileDiff, Continued: len(part.Rows) > 0 || part.Continued, Open: open}
				}
				row := shownRow{Class: rowClass[r.Kind], Spans: []span{s}}
				if j == 0 {
					row.Line = r.Line
				}
				part.Rows = append(part.Rows, row)
				left -= cost
			}
		}
		put()
	}
	return pages
}

// pager is where the reader is.
type pager struct {
	Page, Pages int
	Path        string
}

func (p pager) Many() bool { return p.Pages > 1 }
func (p pager) Last() bool { return p.Page >= p.Pages }
func (p pager) Next() int  { return p.Page + 1 }
func (p pager) Prev() int  { return p.Page - 1 }
