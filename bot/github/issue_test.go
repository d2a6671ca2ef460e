package github_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nod"
	"nod/bot/github/githubsim"
)

func TestIssueIsReadWhole(t *testing.T) {
	w := newWorld(t)
	w.ok(w.sim.Label("wil", full, w.task.Issue, "bug"))
	_, err := w.sim.Comment("tri", full, w.task.Issue, "Same here.")
	w.ok(err)
	got, err := w.client.Issue(t.Context(), w.task.Installation, w.repo(), w.task.Issue)
	w.ok(err)
	if got.Title != "Total is wrong" || got.Body != "It ignores the coupon." || !got.Open || got.Pull || got.Author != w.actor("out") {
		t.Errorf("got %+v", got)
	}
	if len(got.Comments) != 1 || got.Comments[0].Author.Actor != w.actor("tri") || got.Comments[0].Body != "Same here." {
		t.Errorf("got comments %+v", got.Comments)
	}
	if diff := cmp.Diff([]string{"bug"}, got.Labels); diff != "" {
		t.Error(diff)
	}
	if got.Labeller != (nod.Actor{}) {
		t.Errorf("nobody set the trigger label, got %+v", got.Labeller)
	}
	_, err = w.client.Issue(t.Context(), w.task.Installation, w.repo(), 99)
	w.wantCode(err, nod.NotFound)
}

func TestLabellerIsWhoSetTheTriggerLast(t *testing.T) {
	w := newWorld(t)
	w.ok(w.sim.Label("tri", full, w.task.Issue, "NOD")) // case is folded
	for i := range 130 {                                // more than a page of events
		w.ok(w.sim.Label("out", full, w.task.Issue, fmt.Sprintf("l%d", i)))
	}
	read := func() nod.Actor {
		got, err := w.client.Issue(t.Context(), w.task.Installation, w.repo(), w.task.Issue)
		w.ok(err)
		return got.Labeller
	}
	if got := read(); got != w.actor("tri") {
		t.Errorf("got %+v, want tri", got)
	}
	w.ok(w.sim.Unlabel("tri", full, w.task.Issue, "nod"))
	if got := read(); got != (nod.Actor{}) {
		t.Errorf("the label is gone, got %+v", got)
	}
	w.ok(w.sim.Label("wil", full, w.task.Issue, "nod"))
	if got := read(); got != w.actor("wil") {
		t.Errorf("got %+v, want wil", got)
	}
}

func TestCommentsKeepTheFirstAndTheNewest(t *testing.T) {
	w := newWorld(t)
	for i := range 640 {
		_, err := w.sim.Comment("out", full, w.task.Issue, fmt.Sprint(i))
		w.ok(err)
	}
	got, err := w.client.Issue(t.Context(), w.task.Installation, w.repo(), w.task.Issue)
	w.ok(err)
	if n := len(got.Comments); n != 440 || got.Comments[0].Body != "0" || got.Comments[n-1].Body != "639" {
		t.Errorf("got %d comments from %q to %q", n, got.Comments[0].Body, got.Comments[n-1].Body)
	}
}

func TestLabelledListsOpenIssuesOverPages(t *testing.T) {
	w := newWorld(t)
	for i := range 120 {
		n, err := w.sim.CreateIssue("out", full, fmt.Sprint("issue ", i), "")
		w.ok(err)
		w.ok(w.sim.Label("wil", full, n, trigger))
		if i == 0 {
			w.ok(w.sim.CloseIssue("wil", full, n))
		}
	}
	got, err := w.client.Labelled(t.Context(), w.repo(), trigger)
	w.ok(err)
	if len(got) != 119 || got[0].Installation != w.task.Installation {
		t.Errorf("got %d issues, want 119", len(got))
	}
	got, err = w.client.Labelled(t.Context(), w.repo(), "other")
	w.ok(err)
	if len(got) != 0 {
		t.Errorf("got %d issues, want none", len(got))
	}
}

func TestDefaultBranch(t *testing.T) {
	w := newWorld(t)
	got, err := w.client.DefaultBranch(t.Context(), w.task.Installation, w.repo())
	w.ok(err)
	if got != "main" {
		t.Errorf("got %q", got)
	}
	other := w.repo()
	other.Host = "git.example"
	_, err = w.client.DefaultBranch(t.Context(), w.task.Installation, other)
	w.wantCode(err, nod.Invalid)
	other = w.repo()
	other.Name = ".."
	_, err = w.client.DefaultBranch(t.Context(), w.task.Installation, other)
	w.wantCode(err, nod.Invalid)
	w.sim.Inject(githubsim.Fault{Path: "/repos/ada/web", Cut: githubsim.CutMiddle})
	_, err = w.client.DefaultBranch(t.Context(), w.task.Installation, w.repo())
	w.wantCode(err, nod.Unavailable)
}
