package answer

import (
	"strings"
	"unicode"

	"nod"
)

// What a reader would not see is found in the vocabulary, because the agent's prompt
// marks the same things.
type span = nod.Span

func visible(s string) []span { return nod.Visible(s) }

func hiddenOnGitHub(text string) []span { return nod.HiddenOnGitHub(text) }

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
