package answer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// span is a piece of untrusted text, or one character of it that a reader would
// not have seen.
type span struct {
	Text   string // the characters themselves; empty when Mark is set
	Mark   string // what to show instead of an invisible character
	Name   string // what that character is, in words
	Hidden bool   // Text is not shown where it was written (see hiddenOnGitHub)
	raw    string // the bytes that Mark stands for
}

// bytes returns what s was made of.
func (s span) bytes() string {
	if s.Mark != "" {
		return s.raw
	}
	return s.Text
}

// visible splits s so that whatever cannot be seen, or makes a browser show
// other text than there is, is named instead of printed: control, direction and
// zero-width characters, blanks that are not the space, characters that draw
// nothing, and bytes that are not UTF-8. Newline and tab stay as they are. The
// spans hold all of s, in order.
func visible(s string) []span {
	var spans []span
	start := 0
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		mark, name := unseen(r, s[i:i+n])
		if mark == "" {
			i += n
			continue
		}
		if i > start {
			spans = append(spans, span{Text: s[start:i]})
		}
		spans = append(spans, span{Mark: mark, Name: name, raw: s[i : i+n]})
		i += n
		start = i
	}
	if start < len(s) {
		spans = append(spans, span{Text: s[start:]})
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

// marked counts the characters that spans name instead of printing.
func marked(spans []span) (n int) {
	for _, s := range spans {
		if s.Mark != "" {
			n++
		}
	}
	return n
}

// mixedScripts returns the first word that mixes Latin letters with Cyrillic or
// Greek ones, which look alike, or "".
func mixedScripts(s string) string {
	for _, word := range strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		var latin, other bool
		for _, r := range word {
			latin = latin || unicode.Is(unicode.Latin, r)
			other = other || unicode.In(r, unicode.Cyrillic, unicode.Greek)
		}
		if latin && other {
			return word
		}
	}
	return ""
}

// hiddenOnGitHub marks in text, a Markdown body, the passages that GitHub does
// not show to people although an agent reads them: HTML comments, HTML tags and
// link definitions that nothing links to. It errs on the side of marking.
func hiddenOnGitHub(text string) []span {
	var spans []span
	shown := func(s string, hidden bool) {
		for _, v := range visible(s) {
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
