package github

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// gap is a zero-width space. Put between the characters that GitHub looks for, it
// ends their meaning and changes nothing that a reader sees.
const gap = "\u200b"

// breaks are the places where plain text gets a meaning on GitHub. The gap goes
// between the two groups. Code is not spared: where Markdown sees code is not where
// every reader of it does, and a gap in code can be seen by a tool, a ping cannot be
// taken back.
var breaks = []*regexp.Regexp{
	regexp.MustCompile(`(&)(#?[0-9A-Za-z]+;)`),                                        // entities, which would spell the others
	regexp.MustCompile(`(@)([0-9A-Za-z])`),                                            // @user, @org/team, owner/repo@sha
	regexp.MustCompile(`(#)([0-9])`),                                                  // #12, owner/repo#12, Fixes #12
	regexp.MustCompile(`(?i)(GH\\?-)([0-9])`),                                         // GH-12
	regexp.MustCompile(`(?i)(/(?:issues|pulls?|discussions|commits?)/)([0-9A-Za-z])`), // links that cross-reference
	regexp.MustCompile(`(<)([!/?A-Za-z])`),                                            // tags, hidden comments
	regexp.MustCompile(`(--)(>)`),                                                     // the end of a hidden comment
}

// Neutralize makes generated or untrusted text safe to post: it pings nobody, links
// and closes no issue, holds no HTML and so no hidden comment, and shows its control
// characters and text-direction overrides as "\ufffd". What is read stays the same.
// Doing it twice changes nothing more.
func Neutralize(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r == '\r':
			return -1
		case unicode.IsControl(r), r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069', r == utf8.RuneError:
			return utf8.RuneError
		}
		return r
	}, s)
	for _, b := range breaks {
		s = b.ReplaceAllString(s, "${1}"+gap+"${2}")
	}
	return s
}

// cutNote ends a text that was cut.
const cutNote = "\n\n… (cut)\n"

// CutMarkdown returns s when it has at most max bytes, and else as much of its
// beginning as fits with a note that it was cut. It cuts between lines where that is
// sensible, never inside a character, and closes a code fence that it cut through.
func CutMarkdown(s string, max int) string {
	if len(s) <= max {
		return s
	}
	at, open := cutAt(s, max-len(cutNote))
	if at == 0 {
		return runeCut(s, max)
	}
	return s[:at] + open.closing(s[:at]) + cutNote
}

// split returns the beginning of s in at most max bytes, and what is left. A code
// fence that is cut through is closed in the first and opened again in the second.
func split(s string, max int) (head, rest string) {
	if len(s) <= max {
		return s, ""
	}
	at, open := cutAt(s, max)
	rest = s[at:]
	if open.mark != "" && len(open.line) < max/4 {
		rest = open.line + "\n" + rest
	}
	if len(rest) >= len(s) { // nothing sensible fits, or only the fence itself
		head = runeCut(s, max)
		return head, s[len(head):]
	}
	return s[:at] + open.closing(s[:at]), rest
}

// fence is an open code fence: its marker and the line that opened it.
type fence struct{ mark, line string }

// closing closes f after text.
func (f fence) closing(text string) string {
	if f.mark == "" {
		return ""
	}
	if strings.HasSuffix(text, "\n") {
		return f.mark
	}
	return "\n" + f.mark
}

// after returns the fence that is open after line, by CommonMark's rules.
func (f fence) after(line string) fence {
	mark, info := fenceOf(line)
	switch {
	case f.mark == "" && mark != "":
		return fence{mark, line}
	case f.mark != "" && mark != "" && mark[0] == f.mark[0] && len(mark) >= len(f.mark) && strings.TrimSpace(info) == "":
		return fence{}
	}
	return f
}

// fenceOf returns a line's run of at least three backticks or tildes, and what
// follows it.
func fenceOf(line string) (mark, info string) {
	text := strings.TrimLeft(line, " ")
	if len(line)-len(text) > 3 || text == "" || text[0] != '`' && text[0] != '~' {
		return "", ""
	}
	info = strings.TrimLeft(text, text[:1])
	mark = text[:len(text)-len(info)]
	if len(mark) < 3 || mark[0] == '`' && strings.Contains(info, "`") {
		return "", ""
	}
	return mark, info
}

// cutAt finds where to cut s so that the part before it and what closes its fence
// have at most max bytes; 0 when nothing sensible fits.
func cutAt(s string, max int) (int, fence) {
	best, bestOpen := 0, fence{}
	pos, open := 0, fence{}
	for line := range strings.Lines(s) {
		end := pos + len(line)
		next := open.after(strings.TrimRight(line, "\r\n"))
		if end+len(next.closing("\n")) > max {
			// A line that is very long is cut itself, unless it is a fence.
			room := max - pos - len(open.closing(""))
			if part := runeCut(line, room); best < max/2 && next == open && open.after(part) == open && part != "" {
				return pos + len(part), open
			}
			return best, bestOpen
		}
		pos, open = end, next
		best, bestOpen = pos, open
	}
	return best, bestOpen
}

// runeCut returns the beginning of s in at most max bytes, between characters.
func runeCut(s string, max int) string {
	if len(s) <= max {
		return s
	}
	if max <= 0 {
		return ""
	}
	for at := max; at >= 0 && at > max-utf8.UTFMax; at-- {
		if utf8.RuneStart(s[at]) {
			return s[:at]
		}
	}
	return s[:max] // not UTF-8
}
