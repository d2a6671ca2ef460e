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
		{"add a thing", "chore: add a thing\n"},
		{"note: a thing", "chore: note: a thing\n"},
		{"\n\nfix: late  \nno blank line\n\n\n", "fix: late\n\nno blank line\n"},
		{"fix: keep\n\n  indented\n\tcode\n\nend  ", "fix: keep\n\n  indented\n\tcode\n\nend\n"},
		{"日本語", "chore: 日本語\n"},
	} {
		got, err := lint(c[0])
		if err != nil || got != c[1] {
			t.Errorf("lint(%q) = %q, %v, want %q", c[0], got, err, c[1])
		}
	}
	_, err := lint(" \n\t\n")
	wantCode(t, err, nod.Invalid)
}

func TestLintIsStableAndLosesNoWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.StringMatching(`(Fix|feat|x)?(\(a\))?!?:? ?[a-zA-Z:() \n]{0,40}`).Draw(t, "message")
		once, err := lint(in)
		if err != nil {
			return
		}
		subject, _ := split(once)
		if !conventional.MatchString(subject) {
			t.Fatalf("%q is not conventional", subject)
		}
		twice, err := lint(once)
		if err != nil || twice != once {
			t.Fatalf("again: %q, %v, was %q", twice, err, once)
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
