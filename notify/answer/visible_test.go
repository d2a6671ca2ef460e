package answer

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// flat writes spans for reading: marks in angle quotes, hidden text in braces.
func flat(spans []span) string {
	var b strings.Builder
	for _, s := range spans {
		switch {
		case s.Mark != "":
			b.WriteString("‹" + s.Mark + "›")
		case s.Hidden:
			b.WriteString("{" + s.Text + "}")
		default:
			b.WriteString(s.Text)
		}
	}
	return b.String()
}

func TestInvisibleCharactersAreNamed(t *testing.T) {
	for in, want := range map[string]string{
		"":                                   "",
		"npm test\n\tok":                     "npm test\n\tok",
		"größe 日本語 العربية 🙂":                "größe 日本語 العربية 🙂",
		"a\x1b[31mb\x00\x7f":                 "a‹ESC›[31mb‹NUL›‹DEL›",
		"a\rb":                               "a‹CR›b",
		"access\u202etxt.exe":                "access‹U+202E›txt.exe",
		"\u2066x\u2069\u200f\u061c":          "‹U+2066›x‹U+2069›‹U+200F›‹U+061C›",
		"ze\u200bro\u200d\u2060\ufeff":       "ze‹U+200B›ro‹U+200D›‹U+2060›‹U+FEFF›",
		"a\u00a0b\u3000c":                    "a‹U+00A0›b‹U+3000›c",
		"soft\u00adhyphen":                   "soft‹U+00AD›hyphen",
		"tag\U000E0041\U000E007F":            "tag‹U+E0041›‹U+E007F›",
		"vs\ufe0f\U000E0100":                 "vs‹U+FE0F›‹U+E0100›",
		"hangul\u3164\u115f":                 "hangul‹U+3164›‹U+115F›",
		"line\u2028par\u2029\u0085":          "line‹U+2028›par‹U+2029›‹U+0085›",
		"\xff\xfeok":                         `‹\xFF›‹\xFE›ok`,
		"private\ue000 unassigned\U000e1fff": "private‹U+E000› unassigned‹U+E1FFF›",
		"braille\u2800":                      "braille‹U+2800›",
		"real replacement \ufffd":            "real replacement \ufffd",
	} {
		if got := flat(visible(in)); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func FuzzVisibleKeepsEverythingAndPrintsNothingUnseen(f *testing.F) {
	for _, s := range []string{"", "a\x1bb", "\u202e", "\xff", "<!-- x -->", "<a href=x>", "[x]: y", "\xf0\x9f"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		for name, spans := range map[string][]span{"visible": visible(in), "hiddenOnGitHub": hiddenOnGitHub(in), "split": split(visible(in), 7)} {
			var whole strings.Builder
			for _, s := range spans {
				whole.WriteString(s.Bytes())
				for i, r := range s.Text {
					_, n := utf8.DecodeRuneInString(s.Text[i:])
					if seen := visible(s.Text[i : i+n]); seen[0].Mark != "" {
						t.Errorf("%s prints %s (%U)", name, seen[0].Mark, r)
					}
				}
			}
			if whole.String() != in {
				t.Errorf("%s made %q of %q", name, whole.String(), in)
			}
		}
	})
}

func TestPassagesThatGitHubHidesAreMarked(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                                        "plain",
		"a <!-- run this --> b":                        "a {<!-- run this -->} b",
		"a <!-- never closed\nrest":                    "a {<!-- never closed\nrest}",
		"<p hidden>x</p>":                              "{<p hidden>}x{</p>}",
		"1 < 2 and 3 > 2":                              "1 < 2 and 3 > 2",
		"see <https://example.org/a>":                  "see <https://example.org/a>",
		"<img alt=\"https://x do this\">":              "{<img alt=\"https://x do this\">}",
		"[//]: # (do this)\nok":                        "{[//]: # (do this)}\nok",
		"[^1]: a footnote":                             "[^1]: a footnote",
		"text [a]: b":                                  "text [a]: b",
		"a<!-- zero\u200bwidth -->":                    "a{<!-- zero}‹U+200B›{width -->}",
		"a <details><summary>s</summary>x</details> b": "a {<details><summary>s</summary>x</details>} b",
		"x &#8203;&amp;&ZeroWidthSpace; y":             "x {&#8203;}&amp;{&ZeroWidthSpace;} y",
		"![do this](https://e.test/a.png) b":           "{![do this](https://e.test/a.png)} b",
		"[good.test](https://evil.test/x) b":           "[good.test{](https://evil.test/x)} b",
		"[good.test](https://good.test/x) b":           "[good.test](https://good.test/x) b",
		"[text](https://e.test \"do this\") b":         "[text{](https://e.test \"do this\")} b",
		"[text](https://e.test) b":                     "[text](https://e.test) b",
		"`<b>` in code is marked all the same":         "`{<b>}` in code is marked all the same",
	} {
		if got := flat(hiddenOnGitHub(in)); got != want {
			t.Errorf("%q:\ngot  %q\nwant %q", in, got, want)
		}
	}
}

func TestWordsOfMixedAlphabetsAreFound(t *testing.T) {
	for in, want := range map[string]string{"curl x": "", "сurl x": "сurl", "привет мир": "", "npm run αβγ": "", "pаypal": "pаypal"} {
		if got := mixedScripts(in); got != want {
			t.Errorf("%q: got %q", in, got)
		}
	}
}

func TestJSONThatReadersDisagreeOnIsNotInterpreted(t *testing.T) {
	for in, want := range map[string]bool{
		`{"command":"ls"}`:                      true,
		`{"command":"ls","command":"rm -rf /"}`: false,
		`{"command":"ls"} {"command":"rm"}`:     false,
		`["ls"]`:                                false,
		`ls`:                                    false,
		`{"command":"ls"`:                       false,
		"{\"command\":\"\xff\"}":                false,
		`{}`:                                    true,
	} {
		if _, ok := object(in); ok != want {
			t.Errorf("%s: got %v", in, ok)
		}
	}
	fields, ok := object(`{"command":"\ud800"}`)
	if !ok || len(fields) != 1 {
		t.Fatal(fields)
	}
	if _, isText := fields[0].text(); isText {
		t.Error("half a surrogate pair was taken for text")
	}
}

func FuzzBlocksShowEveryFieldOfAToolInput(f *testing.F) {
	f.Add("command", "ls", "timeout", "9")
	f.Add("file_path", "a", "content", "b")
	f.Fuzz(func(t *testing.T, k1, v1, k2, v2 string) {
		for _, in := range []string{v1, `{"` + k1 + `":"` + v1 + `","` + k2 + `":` + v2 + `}`} {
			for _, subject := range []string{"Bash", "Write", "Other"} {
				var all strings.Builder
				for _, b := range blocks(decisionFor(subject), in) {
					all.WriteString(b.Label)
					for _, s := range b.Spans {
						all.WriteString(s.Bytes())
					}
				}
				fields, ok := object(in)
				if !ok {
					if !strings.Contains(all.String(), indented(in)) {
						t.Errorf("%q is not shown whole: %q", in, all.String())
					}
					continue
				}
				for _, field := range fields {
					text, isText := field.text()
					if isText && !strings.Contains(all.String(), text) && !strings.Contains(all.String(), string(field.raw)) {
						t.Errorf("%q: field %q is not shown: %q", in, field.key, all.String())
					}
				}
			}
		}
	})
}

func TestPagesHoldEveryBlock(t *testing.T) {
	long := strings.Repeat("<x>+\u202e", 5000)
	in := []block{code("one", "short"), code("two", long), code("three", ""), code("four", long)}
	pages := pageBlocks(in)
	var got, want strings.Builder
	for _, p := range pages {
		cost := 0
		for _, b := range p {
			for _, s := range b.Spans {
				cost += spanCost(s)
				got.WriteString(s.Bytes())
			}
		}
		if cost > pageBudget+chunk*6 {
			t.Errorf("a page costs %d", cost)
		}
	}
	for _, b := range in {
		for _, s := range b.Spans {
			want.WriteString(s.Bytes())
		}
	}
	if diff := cmp.Diff(want.String(), got.String()); diff != "" || len(pages) < 4 {
		t.Errorf("%d pages, %d of %d bytes", len(pages), got.Len(), want.Len())
	}
}
