package nod

import (
	"fmt"
	"html"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Span is a piece of untrusted text, or one character of it that a reader would
// not have seen.
type Span struct {
	Text   string // the characters themselves; empty when Mark is set
	Mark   string // what to show instead of an invisible character
	Name   string // what that character is, in words
	Hidden bool   // Text is not shown where it was written (see HiddenOnGitHub)
	raw    string // the bytes that Mark stands for
}

// Bytes returns what s was made of.
func (s Span) Bytes() string {
	if s.Mark != "" {
		return s.raw
	}
	return s.Text
}

// Visible splits s so that whatever cannot be seen, or makes a browser show
// other text than there is, is named instead of printed: control, direction and
// zero-width characters, blanks that are not the space, characters that draw
// nothing, and bytes that are not UTF-8. Newline and tab stay as they are. The
// spans hold all of s, in order.
func Visible(s string) []Span {
	var spans []Span
	start := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		mark, name := unseen(r, s[i:i+n])
		if mark == "" {
			i += n
			continue
		}
		if i > start {
			spans = append(spans, Span{Text: s[start:i]})
		}
		spans = append(spans, Span{Mark: mark, Name: name, raw: s[i : i+n]})
		i += n
		start = i
	}
	if start < len(s) {
		spans = append(spans, Span{Text: s[start:]})
	}
	return spans
}

// c0 names the control characters that people know by name.
var c0 = [...]string{"NUL", "SOH", "STX", "ETX", "EOT", "ENQ", "ACK", "BEL", "BS", "TAB", "LF", "VT", "FF", "CR", "SO", "SI",
	"DLE", "DC1", "DC2", "DC3", "DC4", "NAK", "SYN", "ETB", "CAN", "EM", "SUB", "ESC", "FS", "GS", "RS", "US"}

// unseen returns how to show r when it cannot be seen, else "".
func unseen(r rune, raw string) (mark, name string) {
	code := fmt.Sprintf("U+%04X", r)
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		return fmt.Sprintf(`\x%02X`, raw[0]), "a byte that is not UTF-8"
	case r == '\n' || r == '\t' || r == ' ':
		return "", ""
	case r < 0x20:
		return c0[r], "control character " + code
	case r == 0x7f:
		return "DEL", "control character " + code
	case r < 0x7f:
		return "", ""
	case unicode.Is(unicode.Bidi_Control, r):
		return code, "changes the direction of the text"
	case r >= 0xE0000 && r <= 0xE007F:
		return code, "tag character, draws nothing"
	case unicode.Is(unicode.Variation_Selector, r):
		return code, "variation selector, draws nothing"
	case unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r), r == 0x2800:
		return code, "draws nothing"
	case unicode.Is(unicode.Zs, r):
		return code, "a blank that is not the space"
	case unicode.In(r, unicode.Zl, unicode.Zp):
		return code, "a line break that is not the newline"
	case unicode.Is(unicode.Cf, r):
		return code, "format character, draws nothing"
	case !unicode.IsPrint(r):
		return code, "not a printable character"
	}
	return "", ""
}

// HiddenOnGitHub marks in text, a Markdown body, the passages that GitHub does
// not show to people although an agent reads them: HTML comments, HTML tags, what a
// <details> folds away, link definitions that nothing links to, the text in place of
// an image, the title of a link, the target of one whose text names another host, and
// entities that spell a character nobody sees. It errs on the side of marking.
func HiddenOnGitHub(text string) []Span {
	var spans []Span
	shown := func(s string, hidden bool) {
		for _, v := range Visible(s) {
			v.Hidden = hidden
			spans = append(spans, v)
		}
	}
	start := 0
	for i := 0; i < len(text); {
		n := hiddenAt(text, i)
		if n == 0 {
			i++
			continue
		}
		shown(text[start:i], false)
		shown(text[i:i+n], true)
		i += n
		start = i
	}
	shown(text[start:], false)
	return spans
}

// hiddenAt returns the length of the hidden passage that starts at text[i], or 0.
func hiddenAt(text string, i int) int {
	rest := text[i:]
	switch {
	case strings.HasPrefix(rest, "<!--"):
		if end := strings.Index(rest[4:], "-->"); end >= 0 {
			return 4 + end + 3
		}
		return len(rest) // never closed: hidden to the end
	case len(rest) > 8 && strings.EqualFold(rest[:8], "<details"):
		if end := indexFold(rest, "</details>"); end >= 0 {
			return end + len("</details>")
		}
		return len(rest)
	case rest[0] == '&':
		return hiddenEntity(rest)
	case strings.HasPrefix(rest, "!["):
		return linkLength(rest[1:], 1)
	case strings.HasPrefix(rest, "]("):
		return hiddenTarget(text[:i], rest)
	case rest[0] == '<' && len(rest) > 1 && (rest[1] == '/' || rest[1] == '!' || rest[1] == '?' || rest[1] < 0x80 && unicode.IsLetter(rune(rest[1]))):
		// An autolink is shown; a tag is not.
		if end := strings.IndexByte(rest, '>'); end > 0 && !strings.Contains(rest[:end], "://") || end > 0 && strings.ContainsAny(rest[:end], " \n\t") {
			return end + 1
		}
	case rest[0] == '[' && (i == 0 || text[i-1] == '\n'):
		line, _, _ := strings.Cut(rest, "\n")
		if end := strings.Index(line, "]:"); end > 0 && !strings.HasPrefix(line, "[^") {
			return len(line)
		}
	}
	return 0
}

// indexFold is strings.Index without regard to the case of ASCII letters. Lowering the
// whole text first would move the places in it: some letters have another length then.
func indexFold(s, ascii string) int {
	for i := 0; i+len(ascii) <= len(s); i++ {
		if s[i] == ascii[0] && strings.EqualFold(s[i:i+len(ascii)], ascii) {
			return i
		}
	}
	return -1
}

// hiddenEntity returns the length of an entity that spells a character nobody sees.
func hiddenEntity(rest string) int {
	end := strings.IndexByte(rest[:min(len(rest), 40)], ';')
	if end < 0 {
		return 0
	}
	for _, r := range html.UnescapeString(rest[:end+1]) {
		if mark, _ := unseen(r, string(r)); mark != "" {
			return end + 1
		}
	}
	return 0
}

// linkLength returns the length of "[text](target)", or "[text][name]", that begins
// rest, and extra more; 0 when that is not what it is.
func linkLength(rest string, extra int) int {
	end := strings.Index(rest, "](")
	if name := strings.Index(rest, "]["); name >= 0 && (end < 0 || name < end) {
		if stop := strings.IndexByte(rest[name+2:], ']'); stop >= 0 {
			return extra + name + 2 + stop + 1
		}
	}
	if end < 0 || strings.Contains(rest[:end], "\n\n") {
		return 0
	}
	if stop := strings.IndexByte(rest[end:], ')'); stop >= 0 {
		return extra + end + stop + 1
	}
	return 0
}

// maxLinkText is how many bytes at the end of a link's text are looked at.
const maxLinkText = 300

var hostInText = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\b[a-z0-9-]+(\.[a-z0-9-]+)*\.[a-z]{2,}\b`)
})

// hiddenTarget returns the length of the "](target)" that begins rest when a reader
// of the text before it would be misled: the text names another host, or the target
// has a title, which is words that nobody sees.
func hiddenTarget(before, rest string) int {
	stop := strings.IndexByte(rest, ')')
	from := strings.LastIndexByte(before, '[')
	if stop < 0 || from < 0 || strings.Contains(rest[:stop], "\n\n") {
		return 0
	}
	target := strings.TrimSpace(rest[2:stop])
	if strings.ContainsAny(target, " \t\n") {
		return stop + 1
	}
	named := hostInText().FindString(before[max(from+1, len(before)-maxLinkText):])
	u, err := url.Parse(strings.Trim(target, "<>"))
	if named != "" && (err != nil || u.Host != "" && !strings.EqualFold(u.Hostname(), named)) {
		return stop + 1
	}
	return 0
}
