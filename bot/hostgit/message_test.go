package hostgit

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"nod"
)

func TestMessagesAreMadeConventional(t *testing.T) {
	for _, c := range [][2]string{
		{"fix: a thing", "fix: a thing\n"},
		{"feat(api)!: break it\n\nBody.\n", "feat(api)!: break it\n\nBody.\n"},
		{"Fix : a thing", "fix: a thing\n"},
		{"FEAT(ui):x", "feat(ui): x\n"},
		{"\n\nfix: late  \nno blank line\n\n\n", "fix: late\n\nno blank line\n"},
		{"fix: keep\n\n  indented\n\tcode\n\nend  ", "fix: keep\n\n  indented\n\tcode\n\nend\n"},
		{"Revert \"feat: a\"\n\nThis reverts it.", "revert: feat: a\n\nThis reverts it.\n"},
		{"fix: 日本語", "fix: 日本語\n"},
	} {
		got, wrong := lint(c[0])
		if wrong != "" || got != c[1] {
			t.Errorf("lint(%q) = %q, %q, want %q", c[0], got, wrong, c[1])
		}
	}
	for _, c := range [][2]string{
		{" \n\t\n", "has no message"},
		{"add a thing", `"add a thing" does not begin with a type`},
		{"note: a thing", `"note", which is no known type`},
		{"fix(: a thing", "does not begin with a type"},
		{"fix:", "does not begin with a type"},
		{"日本語", "does not begin with a type"},
	} {
		if got, wrong := lint(c[0]); got != "" || !strings.Contains(wrong, c[1]) {
			t.Errorf("lint(%q) = %q, %q, want %q", c[0], got, wrong, c[1])
		}
	}
}

func TestLintIsStableAndLosesNoWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.StringMatching(`(Fix|feat|x)?(\(a\))?!?:? ?[a-zA-Z:() \n]{0,40}`).Draw(t, "message")
		once, wrong := lint(in)
		if wrong != "" {
			return
		}
		subject, _ := split(once)
		if !conventional.MatchString(subject) {
			t.Fatalf("%q is not conventional", subject)
		}
		twice, wrong := lint(once)
		if wrong != "" || twice != once {
			t.Fatalf("again: %q, %q, was %q", twice, wrong, once)
		}
		squeeze := func(s string) string { return strings.ToLower(strings.Join(strings.Fields(s), "")) }
		if !strings.HasSuffix(squeeze(once), squeeze(in)) {
			t.Fatalf("%q became %q", in, once)
		}
	})
}

func TestTrailersJoinTheLastParagraphOfTrailers(t *testing.T) {
	add := []string{"Nod-Task: t1", "Reviewed: yes"}
	for _, c := range [][2]string{
		{"fix: x\n", "fix: x\n\nNod-Task: t1\nReviewed: yes\n"},
		{"fix: x\n\nBody.\n", "fix: x\n\nBody.\n\nNod-Task: t1\nReviewed: yes\n"},
		{"fix: x\n\nBody.\n\nCo-authored-by: a <b>\n", "fix: x\n\nBody.\n\nCo-authored-by: a <b>\nNod-Task: t1\nReviewed: yes\n"},
		{"fix: x\n\nNod-Task: t1\n", "fix: x\n\nNod-Task: t1\nReviewed: yes\n"},
		{"fix: x\n\nNod-Task: t1\nis not a trailer\n", "fix: x\n\nNod-Task: t1\nis not a trailer\n\nNod-Task: t1\nReviewed: yes\n"},
	} {
		got, err := withTrailers(c[0], add)
		if err != nil || got != c[1] {
			t.Errorf("withTrailers(%q) = %q, %v, want %q", c[0], got, err, c[1])
		}
	}
	for _, bad := range []string{"", "no colon", "Key:", "Key: two\nlines", "Key: bell\a", "-Key: x"} {
		_, err := withTrailers("fix: x\n", []string{bad})
		wantCode(t, err, nod.Invalid)
	}
}
