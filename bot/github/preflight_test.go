package github_test

import (
	"strings"
	"testing"

	"nod"
)

func (w *world) preflight(sign nod.SignMode) string {
	w.Helper()
	problems, err := w.client.Preflight(w.Context(), w.task, sign)
	w.ok(err)
	return strings.Join(problems, "\n")
}

func TestPreflightNamesWhatIsMissing(t *testing.T) {
	w := newWorld(t)
	if got := w.preflight(nod.SignGitHub); got != "" {
		t.Errorf("a good repository has %q", got)
	}
	w.ok(w.sim.SetRules(full, "nod/", "required_signatures", "deletion", "non_fast_forward"))
	if got := w.preflight(nod.SignGitHub); got != "" {
		t.Errorf("signed by GitHub, signatures are %q", got)
	}
	if got := w.preflight(nod.SignSSH); !strings.Contains(got, "verified signatures on nod/1-total") {
		t.Errorf("with its own key, signatures are %q", got)
	}
	w.ok(w.sim.SetRules(full, "main", "creation", "pull_request"))
	if got := w.preflight(nod.SignGitHub); got != "" {
		t.Errorf("rules of another branch are %q", got)
	}
	w.ok(w.sim.SetRules(full, "", "creation", "pull_request"))
	if got := w.preflight(nod.SignGitHub); !strings.Contains(got, "may not be created") || !strings.Contains(got, "pull request of their own") {
		t.Errorf("rules are %q", got)
	}
	w.ok(w.sim.SetRules(full, ""))
	w.ok(w.sim.Grant("ada", map[string]string{"metadata": "read", "contents": "read", "pull_requests": "write", "issues": "write"}))
	got := w.preflight(nod.SignGitHub)
	if !strings.Contains(got, "lacks the permission contents: write") || !strings.Contains(got, "/settings/installations/") || strings.Contains(got, "issues") {
		t.Errorf("permissions are %q", got)
	}
	w.ok(w.sim.Suspend("ada", true))
	if got := w.preflight(nod.SignGitHub); !strings.Contains(got, "suspended") {
		t.Errorf("suspended is %q", got)
	}
	w.ok(w.sim.Uninstall("ada"))
	if got := w.preflight(nod.SignGitHub); !strings.Contains(got, "not installed") {
		t.Errorf("uninstalled is %q", got)
	}
}

func TestPullRequestHasItsLabelsAndReviewers(t *testing.T) {
	w := newWorld(t)
	sha := w.branch()
	in := nod.OpenPullRequest{Title: "fix: total", Head: w.task.Branch, Base: "main", SHA: sha, Labels: []string{"bot", "nod"}, Reviewers: []string{"wil", "nobody-here"}}
	e := w.effect(nod.EffectOpenPR, in)
	if out, err := w.client.OpenPulls().Lookup(t.Context(), w.task, e); err != nil || out != nil {
		t.Errorf("there is a pull request already: %s, %v", out, err)
	}
	for range 2 { // GitHub refuses the one reviewer; the pull request is there all the same
		_, err := w.client.OpenPulls().Perform(t.Context(), w.task, e)
		w.ok(err)
	}
	if out, err := w.client.OpenPulls().Lookup(t.Context(), w.task, e); err != nil || out != nil {
		t.Errorf("a pull request without one of its reviewers is taken as done: %s, %v", out, err)
	}
	in.Reviewers = []string{"WIL"}
	e = w.effect(nod.EffectOpenPR, in)
	out, err := w.client.OpenPulls().Lookup(t.Context(), w.task, e)
	if err != nil || out == nil {
		t.Errorf("the pull request is not found: %v", err)
	}
	n := len(w.sim.Requests())
	_, err = w.client.OpenPulls().Perform(t.Context(), w.task, e)
	w.ok(err)
	for _, r := range w.sim.Requests()[n:] {
		if r.Method != "GET" && !strings.Contains(r.Path, "access_tokens") {
			t.Errorf("a third time: %s %s", r.Method, r.Path)
		}
	}
	pulls, err := w.sim.Pulls(full)
	if err != nil || len(pulls) != 1 {
		t.Errorf("%d pull requests, %v", len(pulls), err)
	}
	if v := w.view(pulls[0].Number); strings.Join(v.Labels, " ") != "bot nod" {
		t.Errorf("labels %v", v.Labels)
	}
}
