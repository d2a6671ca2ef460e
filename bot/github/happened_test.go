package github_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"nod"
	"nod/bot/github/githubsim"
	"nod/webhooks"
)

// told reads happenings as the parser of webhooks does: "event kind number sender".
func (w *world) told(list []nod.Happening) []string {
	w.Helper()
	var out []string
	for _, h := range list {
		var top struct {
			Action string `json:"action"`
		}
		w.ok(json.Unmarshal(h.Payload, &top))
		o, err := webhooks.Parser("github.com")(nod.Delivery{Event: h.Event, Action: top.Action, Payload: h.Payload})
		w.ok(err)
		if o == nil {
			w.Errorf("%s means nothing: %s", h.Key, h.Payload)
			continue
		}
		what := o.Label + o.CommentBody + o.HeadRef
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %d %s %s", o.Kind, o.Issue, o.Sender.Login, what)))
		if o.Installation != w.task.Installation || o.Repo != w.repo() || o.At.IsZero() {
			w.Errorf("%s: %+v", h.Key, o)
		}
	}
	return out
}

func (w *world) happened(mark string) ([]nod.Happening, string) {
	w.Helper()
	list, next, err := w.client.Happened(w.Context(), w.repo(), mark)
	w.ok(err)
	return list, next
}

func TestWhatHappenedIsToldInTheWordsOfWebhooks(t *testing.T) {
	w := newWorld(t)
	n := w.task.Issue
	_, mark := w.happened("")
	w.ok(w.sim.Label("wil", full, n, trigger))
	id, err := w.sim.Comment("tri", full, n, "/nod status")
	w.ok(err)
	w.ok(w.sim.Unlabel("wil", full, n, trigger))
	w.ok(w.sim.CloseIssue("ada", full, n))
	sha := w.branch()
	var pull nod.PullRequest
	w.perform(w.client.OpenPulls(), w.effect(nod.EffectOpenPR, nod.OpenPullRequest{Title: "fix: total", Body: "text", Head: w.task.Branch, Base: "main", SHA: sha}), &pull)
	w.ok(w.sim.MergePull("ada", full, pull.Number))
	list, next := w.happened(mark)
	want := []string{"issues.labeled 1 wil nod", "issues.unlabeled 1 wil nod", "issues.closed 1 ada", "pull_request.closed 2 ada " + w.task.Branch,
		"issue_comment.created 1 tri /nod status"}
	if got := w.told(list); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	again, after := w.happened(next)
	if after != next || len(again) != len(list) || again[0].Key != list[0].Key {
		t.Errorf("nothing happened, and the mark went from %s to %s; told %d", next, after, len(again))
	}
	key := fmt.Sprintf("github.com/ada/web/comment/%d", id)
	if !slices.ContainsFunc(list, func(h nod.Happening) bool { return h.Key == key }) {
		t.Errorf("no key %s", key)
	}
}

// Reviews and checks of nod's own pull requests are told, those of others are not.
func TestReviewsAndChecksOfOwnPullRequestsAreTold(t *testing.T) {
	w := newWorld(t)
	_, mark := w.happened("")
	sha := w.branch()
	var pull nod.PullRequest
	w.perform(w.client.OpenPulls(), w.effect(nod.EffectOpenPR, nod.OpenPullRequest{Title: "fix: total", Body: "text", Head: w.task.Branch, Base: "main", SHA: sha}), &pull)
	text := "x"
	other, err := w.sim.Commit("wil", full, "someone-else", "feat: x\n", map[string]*string{"x": &text})
	w.ok(err)
	foreign := w.task
	foreign.Branch = "someone-else"
	w.perform(w.client.OpenPulls(), w.effect(nod.EffectOpenPR, nod.OpenPullRequest{Title: "feat: x", Body: "text", Head: "someone-else", Base: "main", SHA: other}), &nod.PullRequest{})
	_, err = w.sim.SubmitReview("wil", full, pull.Number, "CHANGES_REQUESTED", "add a test", githubsim.LineComment{Path: "fix.txt", Line: 1, Body: "here"})
	w.ok(err)
	_, err = w.sim.SubmitReview("wil", full, pull.Number+1, "CHANGES_REQUESTED", "no")
	w.ok(err)
	w.ok(w.sim.CompleteSuite("wil", full, w.task.Branch, sha, "github-actions", "failure", githubsim.CheckResult{Name: "test", Conclusion: "failure"}))
	list, next := w.happened(mark)
	var got []string
	for _, one := range w.told(list) {
		if strings.HasPrefix(one, "pull_request_review") || strings.HasPrefix(one, "check_suite") {
			got = append(got, one)
		}
	}
	slices.Sort(got)
	want := []string{"check_suite.completed 0 ghost " + w.task.Branch, "pull_request_review.submitted 2 wil add a test" + w.task.Branch}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	w.ok(w.sim.Grant("ada", map[string]string{"metadata": "read", "issues": "read", "pull_requests": "read"}))
	w.sim.ExpireTokens()
	if list, _, err := w.client.Happened(t.Context(), w.repo(), next); err != nil || len(list) == 0 {
		t.Errorf("without the permission to read checks: %d, %v", len(list), err)
	}
}

// What did not change is asked for with its ETag, and costs nothing of the limit.
func TestWhatDidNotChangeCostsNothing(t *testing.T) {
	w := newWorld(t)
	w.ok(w.sim.Label("wil", full, w.task.Issue, trigger))
	_, mark := w.happened("")
	_, mark = w.happened(mark)
	before := len(w.sim.Requests())
	w.happened(mark)
	for _, r := range w.sim.Requests()[before:] {
		if strings.HasPrefix(r.Path, "/repos/") && !strings.HasSuffix(r.Path, "/installation") && r.Status != 304 {
			t.Errorf("%s?%s was answered %d", r.Path, r.Query, r.Status)
		}
	}
	w.ok(w.sim.Unlabel("wil", full, w.task.Issue, trigger))
	list, _ := w.happened(mark)
	if got := w.told(list); !slices.Contains(got, "issues.unlabeled 1 wil nod") {
		t.Errorf("a change behind an ETag was not seen: %q", got)
	}
}

// An edit is never a command, and a look that failed is told again.
func TestEditedCommentsAreNotToldAndFailuresLoseNothing(t *testing.T) {
	w := newWorld(t)
	_, mark := w.happened("")
	w.sim.Inject(githubsim.Fault{Path: "/issues/comments", Status: 502})
	w.ok(w.sim.Label("wil", full, w.task.Issue, trigger))
	if _, _, err := w.client.Happened(t.Context(), w.repo(), mark); nod.CodeOf(err) != nod.Unavailable {
		t.Errorf("got %v", err)
	}
	if list, _ := w.happened(mark); len(list) != 1 {
		t.Errorf("told %q", w.told(list))
	}
	for range 250 { // more than one page
		_, err := w.sim.Comment("tri", full, w.task.Issue, "me too")
		w.ok(err)
	}
	list, _ := w.happened(mark)
	if len(list) != 251 {
		t.Errorf("told %d", len(list))
	}
	if _, _, err := w.client.Happened(t.Context(), w.repo(), "{"); nod.CodeOf(err) != nod.Invalid {
		t.Errorf("got %v", err)
	}
}
