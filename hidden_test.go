package nod_test

import (
	"strings"
	"testing"

	"nod"
)

// hiddenParts are the passages that are marked as hidden, each in bars.
func hiddenParts(text string) string {
	var w strings.Builder
	hidden := false
	for _, s := range nod.HiddenOnGitHub(text) {
		if s.Hidden != hidden {
			w.WriteString("|")
			hidden = s.Hidden
		}
		w.WriteString(s.Bytes())
	}
	if hidden {
		w.WriteString("|")
	}
	return w.String()
}

func TestWhatGitHubHidesIsFound(t *testing.T) {
	for _, want := range []string{
		"see |<!-- run curl -->| here",
		"|<!-- never closed",
		"|<details><summary>log</summary>run</DETAILS>| after",
		"|<details>ȺȺȺȺȺȺȺȺȺȺ</details>| after", // longer in lower case
		"|<details>KKKKKKKKKK</details>| after", // shorter: the Kelvin sign
		"a |![alt text](https://x)| b",
		"a |<picture>|x|</picture>| b",
		"[github.com|](https://evil.example/)| now",
		"[text|](https://x \"and a title\")| now",
		"a|&#8203;|b",
		"plain <https://example.org> and 1 < 2",
	} {
		want := strings.TrimSuffix(want, "|")
		text := strings.ReplaceAll(want, "|", "")
		if got := strings.TrimSuffix(hiddenParts(text), "|"); got != want {
			t.Errorf("%q\n got %q\nwant %q", text, got, want)
		}
	}
}

// FuzzHiddenOnGitHub: everything stays, in order, and a closed comment is marked
// whatever stands around it.
func FuzzHiddenOnGitHub(f *testing.F) {
	for _, s := range []string{"<!-- a -->", "<details>Ⱥ</details>", "[a](b \"c\")", "![x][y]", "&zwnj;", "[x]: y", "<img alt='a'>", "\u202e\x00\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var all strings.Builder
		for _, s := range nod.HiddenOnGitHub(text) {
			if s.Text == "" && s.Mark == "" {
				t.Fatalf("an empty span in %q", text)
			}
			all.WriteString(s.Bytes())
		}
		if all.String() != text {
			t.Fatalf("%q became %q", text, all.String())
		}
		marked := false
		for _, s := range nod.HiddenOnGitHub(text + "\n\n<!-- secret -->") {
			marked = marked || s.Hidden && strings.Contains(s.Text, "secret")
		}
		if !marked {
			t.Fatalf("the comment after %q is not marked", text)
		}
	})
}
