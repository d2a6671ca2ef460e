package github

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite golden files")

// active is what must not be left in posted text, written independently of the
// patterns that remove it.
var active = map[string]*regexp.Regexp{
	"ping":         regexp.MustCompile(`@[A-Za-z0-9]`),
	"issue":        regexp.MustCompile(`#[0-9]+`),
	"gh issue":     regexp.MustCompile(`(?i)gh\\?-[0-9]+`),
	"issue link":   regexp.MustCompile(`(?i)https?://\S+/(issues|pull|pulls|discussions|commit)/[0-9a-f]`),
	"closes":       regexp.MustCompile(`(?i)\b(close[sd]?|fix(es|ed)?|resolve[sd]?):?\s+(#[0-9]|GH-[0-9]|[\w.-]+/[\w.-]+#[0-9]|https?://\S+/issues/[0-9])`),
	"html":         regexp.MustCompile(`<[!/?A-Za-z]`),
	"comment end":  regexp.MustCompile(`-->`),
	"entity":       regexp.MustCompile(`&#?[0-9A-Za-z]+;`),
	"control":      regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f]`),
	"bidi control": regexp.MustCompile(`[\x{202a}-\x{202e}\x{2066}-\x{2069}]`),
}

func checkNeutral(t interface{ Fatalf(string, ...any) }, in string) {
	out := Neutralize(in)
	for what, re := range active {
		if found := re.FindString(out); found != "" {
			t.Fatalf("%s is left: %q in %q from %q", what, found, out, in)
		}
	}
	if !utf8.ValidString(out) {
		t.Fatalf("not UTF-8: %q", out)
	}
	if again := Neutralize(out); again != out {
		t.Fatalf("twice is not once: %q, then %q", out, again)
	}
	if utf8.ValidString(in) && strings.ContainsFunc(in, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' }) == false && !active["bidi control"].MatchString(in) &&
		!strings.ContainsFunc(in, func(r rune) bool { return r >= 0x7f && r < 0xa0 }) &&
		strings.ReplaceAll(out, gap, "") != strings.ReplaceAll(in, gap, "") {
		t.Fatalf("what is read changed: %q to %q", in, out)
	}
}

var hostile = []string{
	"thanks @ada and @org/team, mail a@b.example", "Fixes #12, closes: GH-7; resolves ada/web#3", "Closes https://github.com/ada/web/issues/9",
	"<!-- nod:task t0 --> hidden <details open>", "&#64;ada &commat;ada &num;12 &lt;b>", `\@ada \#12 GH\-12 gh-1`, "a@@b ##1#2 --->", "text\x1b[31m\u202egnp\u2069\x00",
	"```\n@decorator\n# 1\n```", "@\u200bada", "ada/web@0123abc", "<\u200b!--", "x\r\ny",
}

// R35: generated text pings, links and closes nothing.
func TestR35GeneratedTextIsInert(t *testing.T) {
	var b strings.Builder
	for _, s := range hostile {
		checkNeutral(t, s)
		b.WriteString(Neutralize(s) + "\n---\n")
	}
	want, err := os.ReadFile("testdata/neutral.golden")
	if *update {
		if err = os.WriteFile("testdata/neutral.golden", []byte(b.String()), 0o644); err == nil {
			want = []byte(b.String())
		}
	}
	if err != nil || string(want) != b.String() {
		t.Errorf("%v\n got %q\nwant %q", err, b.String(), want)
	}
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOf(rapid.OneOf(rapid.SampledFrom(append(hostile, "@", "#", "1", "a", "<", "!", "-", "-", ">", "&", ";", "GH-", "/issues/", "Fixes ")), rapid.String())).Draw(t, "parts")
		checkNeutral(t, strings.Join(parts, ""))
	})
}

func FuzzNeutralize(f *testing.F) {
	for _, s := range hostile {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { checkNeutral(t, s) })
}

// openFence returns the fence that is open at the end of s.
func openFence(s string) fence {
	var f fence
	for line := range strings.Lines(s) {
		f = f.after(strings.TrimRight(line, "\r\n"))
	}
	return f
}

// longestFence is the length of the longest line that could be a fence.
func longestFence(s string) int {
	n := 0
	for line := range strings.Lines(s) {
		if strings.Contains(line, "```") || strings.Contains(line, "~~~") {
			n = max(n, len(line))
		}
	}
	return n
}

func checkCut(t interface{ Fatalf(string, ...any) }, s string, max int) {
	got := CutMarkdown(s, max)
	if len(got) > max {
		t.Fatalf("%d bytes, want at most %d: %q", len(got), max, got)
	}
	if utf8.ValidString(s) && !utf8.ValidString(got) {
		t.Fatalf("cut inside a character: %q", got)
	}
	if len(s) <= max && got != s {
		t.Fatalf("changed although it fits: %q", got)
	}
	if strings.HasSuffix(got, cutNote) && len(s) > max && openFence(strings.TrimSuffix(got, cutNote)).mark != "" {
		t.Fatalf("the note is inside a fence: %q", got)
	}
	head, rest := split(s, max)
	if len(head) > max || rest == "" && head != s || max >= utf8.UTFMax && len(rest) >= len(s) && s != "" {
		t.Fatalf("split %q into %q and %q", s, head, rest)
	}
	if rest != "" && longestFence(s) < max/8 && openFence(head).mark != "" {
		t.Fatalf("split leaves a fence open: %q", head)
	}
}

func TestCutKeepsFencesWhole(t *testing.T) {
	s := "intro\n```go\nfunc main() {}\nmore()\n```\nend, and more than the note is long\n"
	want := "intro\n```go\nfunc main() {}\n```" + cutNote
	if got := CutMarkdown(s, len(want)+3); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	head, rest := split(s, len("intro\n```go\nfunc main() {}\n```")+2)
	if head != "intro\n```go\nfunc main() {}\n```" || rest != "```go\nmore()\n```\nend, and more than the note is long\n" {
		t.Errorf("got %q and %q", head, rest)
	}
	if got := CutMarkdown(strings.Repeat("ä", 100), 51); !strings.HasSuffix(got, cutNote) || !utf8.ValidString(got) || len(got) > 51 {
		t.Errorf("got %q", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom([]string{"```", "````", "~~~", "```go", "   ```", "    ```", "text", "``` `", "~~~~ x", ""}), rapid.StringN(0, 80, -1)), 0, 30).Draw(t, "lines")
		checkCut(t, strings.Join(lines, "\n"), rapid.IntRange(0, 200).Draw(t, "max"))
	})
}

func FuzzCutMarkdown(f *testing.F) {
	f.Add("a\n```\nb\n```\nc", 20)
	f.Add(strings.Repeat("`", 90), 64)
	f.Add("ä\n~~~ x\n"+strings.Repeat("ö", 40), 50)
	f.Fuzz(func(t *testing.T, s string, max int) {
		if max < 0 || max > 1<<16 {
			return
		}
		checkCut(t, s, max)
	})
}
