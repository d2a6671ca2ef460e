package githubsim

import (
	"html/template"
	"regexp"
	"strconv"
	"strings"
)

// markdown renders the little of GitHub's Markdown that issues and nod's own comments
// are made of: paragraphs, headings, lists, quotes, tables, rules, code, emphasis,
// web links and #numbers. What it does not know stays text. Every character of body
// is escaped; the only addresses are http, https and what ref gives for a number.
func markdown(body string, ref func(number int) (path string)) template.HTML {
	m := &markdownWriter{ref: ref}
	lines := strings.Split(strings.ReplaceAll(body, "\r\n", "\n"), "\n")
	for len(lines) > 0 {
		lines = m.block(lines)
	}
	m.flush()
	return template.HTML(m.out.String())
}

type markdownWriter struct {
	ref  func(int) string
	out  strings.Builder
	para []string // lines of the open paragraph
}

var (
	hidden    = regexp.MustCompile(`^ {0,3}<!--.*?-->`)
	ruler     = regexp.MustCompile(`^ {0,3}(?:-{3,}|\*{3,}|_{3,})\s*$`)
	heading   = regexp.MustCompile(`^#{1,6} +(.+)$`)
	item      = regexp.MustCompile(`^(?:[-*]|\d+\.) +(.+)$`)
	tableRule = regexp.MustCompile(`^\|(?:\s*:?-+:?\s*\|)+\s*$`)
)

// block takes one block, or one line of a paragraph, from lines and returns the rest.
func (m *markdownWriter) block(lines []string) []string {
	line := lines[0]
	switch {
	case strings.HasPrefix(line, "```"):
		m.flush()
		rest := lines[1:]
		n := 0
		for n < len(rest) && !strings.HasPrefix(rest[n], "```") {
			n++
		}
		m.element("pre", strings.Join(rest[:n], "\n"), false)
		return rest[min(n+1, len(rest)):]
	case hidden.MatchString(line):
		m.flush()
		lines[0] = hidden.ReplaceAllString(line, "")
		if strings.TrimSpace(lines[0]) == "" {
			return lines[1:]
		}
		return lines
	case strings.HasPrefix(strings.TrimLeft(line, " "), "<!--"):
		m.flush()
		for n, l := range lines { // it hides everything up to its end, or all
			if _, after, ok := strings.Cut(l, "-->"); ok {
				lines[n] = after
				return lines[n:]
			}
		}
		return nil
	case strings.TrimSpace(line) == "":
		m.flush()
	case ruler.MatchString(line):
		m.flush()
		m.out.WriteString("<hr>")
	case heading.MatchString(line):
		m.flush()
		m.element("h3", heading.FindStringSubmatch(line)[1], true)
	case strings.HasPrefix(line, ">"):
		return m.run("blockquote", "", lines, func(l string) (string, bool) { return strings.CutPrefix(l, ">") })
	case item.MatchString(line):
		return m.run("ul", "li", lines, func(l string) (string, bool) {
			found := item.FindStringSubmatch(l)
			if found == nil {
				return "", false
			}
			return found[1], true
		})
	case strings.HasPrefix(line, "|") && len(lines) > 1 && tableRule.MatchString(lines[1]):
		return m.table(lines)
	default:
		m.para = append(m.para, line)
	}
	return lines[1:]
}

func (m *markdownWriter) flush() {
	if len(m.para) > 0 {
		m.element("p", strings.Join(m.para, "\n"), true)
		m.para = nil
	}
}

func (m *markdownWriter) element(name, text string, marked bool) {
	m.out.WriteString("<" + name + ">")
	if marked {
		m.inline(text)
	} else {
		template.HTMLEscape(&m.out, []byte(text))
	}
	m.out.WriteString("</" + name + ">")
}

// run writes the lines that take accepts as one element, each in an element of its
// own when one is named.
func (m *markdownWriter) run(outer, inner string, lines []string, take func(string) (string, bool)) []string {
	m.flush()
	m.out.WriteString("<" + outer + ">")
	n := 0
	for ; n < len(lines); n++ {
		text, ok := take(lines[n])
		if !ok {
			break
		}
		switch {
		case inner != "":
			m.element(inner, text, true)
		case n > 0:
			m.out.WriteString("<br>")
			fallthrough
		default:
			m.inline(text)
		}
	}
	m.out.WriteString("</" + outer + ">")
	return lines[n:]
}

// table writes the table that lines begin with; a head without words is left out.
func (m *markdownWriter) table(lines []string) []string {
	m.flush()
	m.out.WriteString("<table>")
	n := 0
	for ; n < len(lines) && strings.HasPrefix(lines[n], "|"); n++ {
		cells := strings.Split(strings.Trim(strings.TrimSpace(lines[n]), "|"), "|")
		if n == 1 || n == 0 && strings.TrimSpace(strings.Join(cells, "")) == "" {
			continue
		}
		m.out.WriteString("<tr>")
		for _, c := range cells {
			m.element("td", strings.TrimSpace(c), true)
		}
		m.out.WriteString("</tr>")
	}
	m.out.WriteString("</table>")
	return lines[n:]
}

// inlines are, in this order, code, a web link, strong, emphasis, a number, what is
// hidden, and the end of a line.
var inlines = regexp.MustCompile("`([^`]+)`" + `|\[([^\[\]]+)\]\((https?://[^()\s"<>]+)\)|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|\B#(\d{1,9})\b|(?s:<!--.*?-->)|\n`)

func (m *markdownWriter) inline(s string) {
	for s != "" {
		at := inlines.FindStringSubmatchIndex(s)
		if at == nil {
			break
		}
		template.HTMLEscape(&m.out, []byte(s[:at[0]]))
		group := func(n int) string {
			if at[2*n] < 0 {
				return ""
			}
			return s[at[2*n]:at[2*n+1]]
		}
		switch {
		case at[2] >= 0:
			m.element("code", group(1), false)
		case at[4] >= 0:
			m.link(group(3), group(2))
		case at[8] >= 0:
			m.element("b", group(4), true)
		case at[10] >= 0:
			m.element("em", group(5), true)
		case at[12] >= 0:
			m.number(s[at[0]:at[1]], group(6))
		case s[at[0]] == '\n':
			m.out.WriteString("<br>")
		}
		s = s[at[1]:]
	}
	template.HTMLEscape(&m.out, []byte(s))
}

func (m *markdownWriter) link(to, text string) {
	m.out.WriteString(`<a rel="noreferrer" href="` + template.HTMLEscapeString(to) + `">`)
	m.inline(text)
	m.out.WriteString("</a>")
}

func (m *markdownWriter) number(text, digits string) {
	n, err := strconv.Atoi(digits)
	if path := m.ref(n); err == nil && path != "" {
		m.out.WriteString(`<a href="` + template.HTMLEscapeString(path) + `">` + template.HTMLEscapeString(text) + `</a>`)
		return
	}
	template.HTMLEscape(&m.out, []byte(text))
}
