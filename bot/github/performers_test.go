package github_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nod"
	"nod/bot/github"
	"nod/bot/github/githubsim"
)

const marker = "<!-- nod:task t0123456789abcdef -->"

func (w *world) statusComment(body string) nod.Effect {
	return w.effect(nod.EffectStatusComment, nod.StatusComment{Issue: w.task.Issue, Marker: marker, Body: body})
}

func (w *world) perform(p interface {
	Perform(ctx contextType, t nod.Task, e nod.Effect) (json.RawMessage, error)
}, e nod.Effect, into any) {
	w.Helper()
	raw, err := p.Perform(w.Context(), w.task, e)
	w.ok(err)
	w.ok(json.Unmarshal(raw, into))
}

func TestStatusCommentIsOneCommentForever(t *testing.T) {
	w := newWorld(t)
	// A stranger plants the marker first; it must not be taken for nod's own.
	_, err := w.sim.Comment("out", full, w.task.Issue, marker+"\nI am the bot.")
	w.ok(err)
	p := w.client.StatusComments()
	var first, second, third nod.CommentOutcome
	w.perform(p, w.statusComment("starting"), &first)
	w.perform(p, w.statusComment("running"), &second) // the id is not known to the task yet
	w.task.CommentID = first.ID
	w.perform(p, w.statusComment("done"), &third)
	if first != second || second != third {
		t.Errorf("got comments %v %v %v, want one", first, second, third)
	}
	got := w.view(w.task.Issue).Comments
	if len(got) != 2 || got[1].Author != "nod-demo[bot]" || got[1].Body != marker+"\ndone" || got[0].Body != marker+"\nI am the bot." {
		t.Errorf("got %+v", got)
	}
	edits := w.count("PATCH", fmt.Sprintf("/repos/%s/issues/comments/%d", full, first.ID))
	w.perform(p, w.statusComment("done"), &third)
	if again := w.count("PATCH", fmt.Sprintf("/repos/%s/issues/comments/%d", full, first.ID)); again != edits {
		t.Error("the same text was written again")
	}
}

func TestDeletedStatusCommentIsWrittenOnceMore(t *testing.T) {
	w := newWorld(t)
	p := w.client.StatusComments()
	var first, second nod.CommentOutcome
	w.perform(p, w.statusComment("starting"), &first)
	w.task.CommentID = first.ID
	w.ok(w.sim.DeleteComment("ada", full, w.task.Issue, first.ID))
	w.perform(p, w.statusComment("running"), &second)
	if got := w.view(w.task.Issue).Comments; len(got) != 1 || got[0].ID != second.ID || second.ID == first.ID {
		t.Errorf("got %+v", got)
	}
	// Deleted between the look and the edit.
	w.task.CommentID = second.ID
	w.sim.Inject(githubsim.Fault{Method: "PATCH", Path: "/issues/comments/", Status: http.StatusNotFound})
	w.perform(p, w.statusComment("later"), &second)
	if got := w.view(w.task.Issue).Comments; len(got) != 2 || got[1].Body != marker+"\nlater" {
		t.Errorf("got %+v", got)
	}
}

// Invariant 8: the answer is lost after the comment was written; looking first finds it.
func TestLostAnswerIsFoundByLookup(t *testing.T) {
	w := newWorld(t)
	p := w.client.StatusComments()
	e := w.statusComment("starting")
	if got, err := p.Lookup(t.Context(), w.task, e); err != nil || got != nil {
		t.Fatalf("before: got %s, %v", got, err)
	}
	w.sim.Inject(githubsim.Fault{Method: "POST", Path: "/comments", Cut: githubsim.CutAfter})
	_, err := p.Perform(t.Context(), w.task, e)
	w.wantCode(err, nod.Unavailable)
	got, err := p.Lookup(t.Context(), w.task, e)
	w.ok(err)
	var out nod.CommentOutcome
	w.ok(json.Unmarshal(got, &out))
	if v := w.view(w.task.Issue).Comments; len(v) != 1 || v[0].ID != out.ID {
		t.Errorf("got %+v, outcome %+v", v, out)
	}
	if got, err := p.Lookup(t.Context(), w.task, w.statusComment("something else")); err != nil || got != nil {
		t.Errorf("another text: got %s, %v", got, err)
	}
}

// R22: a body over the limit is cut at a sensible place and posted.
func TestR22LongCommentIsCutNotRefused(t *testing.T) {
	w := newWorld(t)
	var out nod.CommentOutcome
	w.perform(w.client.StatusComments(), w.statusComment("```\n"+strings.Repeat("wörds and more\n", 9000)), &out)
	got := w.view(w.task.Issue).Comments[0].Body
	if len(got) > github.MaxBody || !strings.HasSuffix(got, "```\n\n… (cut)\n") {
		t.Errorf("got %d bytes ending in %q", len(got), got[len(got)-40:])
	}
}

func TestSwapLabelSetsOneAndRemovesOthers(t *testing.T) {
	w := newWorld(t)
	w.ok(w.sim.Label("wil", full, w.task.Issue, "Nod"))
	w.ok(w.sim.Label("wil", full, w.task.Issue, "bug"))
	p := w.client.SwapLabels()
	e := w.effect(nod.EffectSwapLabel, nod.SwapLabel{Issue: w.task.Issue, Add: "nod: in/progress 50%", Remove: []string{"nod", "nod:done"}})
	if got, err := p.Lookup(t.Context(), w.task, e); err != nil || got != nil {
		t.Fatalf("before: got %s, %v", got, err)
	}
	for range 2 { // doing it again changes nothing
		var out github.LabelOutcome
		w.perform(p, e, &out)
		if diff := cmp.Diff([]string{"bug", "nod: in/progress 50%"}, out.Labels); diff != "" {
			t.Error(diff)
		}
	}
	if diff := cmp.Diff([]string{"bug", "nod: in/progress 50%"}, w.view(w.task.Issue).Labels); diff != "" {
		t.Error(diff)
	}
	if got, err := p.Lookup(t.Context(), w.task, e); err != nil || got == nil {
		t.Errorf("after: got %s, %v", got, err)
	}
	var out github.LabelOutcome
	w.perform(p, w.effect(nod.EffectSwapLabel, nod.SwapLabel{Issue: w.task.Issue, Remove: []string{"nod: in/progress 50%"}}), &out)
	if diff := cmp.Diff([]string{"bug"}, out.Labels); diff != "" {
		t.Error(diff)
	}
}

func (w *world) openPR(sha, body string) nod.Effect {
	return w.effect(nod.EffectOpenPR, nod.OpenPullRequest{Title: "fix: total\nwith the coupon", Body: body, Head: w.task.Branch, Base: "main", SHA: sha, Draft: true})
}

func TestPullRequestIsOpenedOnce(t *testing.T) {
	w := newWorld(t)
	sha := w.branch()
	p := w.client.OpenPulls()
	e := w.openPR(sha, "text")
	if got, err := p.Lookup(t.Context(), w.task, e); err != nil || got != nil {
		t.Fatalf("before: got %s, %v", got, err)
	}
	var first, second, found nod.PullRequest
	w.perform(p, e, &first)
	w.perform(p, e, &second)
	want := nod.PullRequest{Number: 2, URL: w.base + "/ada/web/pull/2", HeadRef: w.task.Branch, HeadSHA: sha, BaseRef: "main", State: "open", Draft: true}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Error(diff)
	}
	if got := w.view(2); got.Title != "fix: total with the coupon" || got.Author != "nod-demo[bot]" {
		t.Errorf("got %+v", got)
	}
	raw, err := p.Lookup(t.Context(), w.task, e)
	w.ok(err)
	w.ok(json.Unmarshal(raw, &found))
	if found.Number != 2 {
		t.Errorf("got %+v", found)
	}
	pulls, err := w.sim.Pulls(full)
	w.ok(err)
	if len(pulls) != 1 {
		t.Errorf("got %d pull requests", len(pulls))
	}
}

func TestPullRequestNeedsTheBranchAtTheApprovedCommit(t *testing.T) {
	w := newWorld(t)
	sha := w.branch()
	text := "more\n"
	_, err := w.sim.Commit("out", full, w.task.Branch, "chore: sneak in\n", map[string]*string{"evil.txt": &text})
	w.ok(err)
	_, err = w.client.OpenPulls().Perform(t.Context(), w.task, w.openPR(sha, "text"))
	w.wantCode(err, nod.Conflict)
	pulls, err := w.sim.Pulls(full)
	w.ok(err)
	if len(pulls) != 0 {
		t.Errorf("got %+v", pulls)
	}
	e := w.effect(nod.EffectOpenPR, nod.OpenPullRequest{Title: "x", Head: "nod/none", Base: "main", SHA: sha})
	_, err = w.client.OpenPulls().Perform(t.Context(), w.task, e)
	w.wantCode(err, nod.Conflict)
}

// R22: the pull request exists, and nothing of the text is lost.
func TestR22LongPullRequestBodyGoesOnInComments(t *testing.T) {
	w := newWorld(t)
	sha := w.branch()
	var lines []string
	for i := range 9000 {
		lines = append(lines, fmt.Sprintf("line %d of the report", i))
	}
	body := "Report\n\n```text\n" + strings.Join(lines, "\n") + "\n```\nThe end.\n"
	p := w.client.OpenPulls()
	e := w.openPR(sha, body)
	w.sim.Inject(githubsim.Fault{Method: "POST", Path: "/comments", Cut: githubsim.CutAfter})
	_, err := p.Perform(t.Context(), w.task, e)
	w.wantCode(err, nod.Unavailable) // the first comment was written, but nobody heard
	if got, err := p.Lookup(t.Context(), w.task, e); err != nil || got != nil {
		t.Fatalf("half done: got %s, %v", got, err)
	}
	var out nod.PullRequest
	w.perform(p, e, &out)
	got := w.view(out.Number)
	all := got.Body
	for _, c := range got.Comments {
		if len(c.Body) > github.MaxBody || strings.Count(c.Body, "```")%2 != 0 {
			t.Errorf("comment of %d bytes with %d fences", len(c.Body), strings.Count(c.Body, "```"))
		}
		all += c.Body
	}
	for _, l := range append(lines, "The end.") {
		if strings.Count(all, l+"\n") != 1 {
			t.Fatalf("%q is there %d times", l, strings.Count(all, l+"\n"))
		}
	}
	if got, err := p.Lookup(t.Context(), w.task, e); err != nil || got == nil {
		t.Errorf("after: got %s, %v", got, err)
	}
}

func TestEffectOfAnotherKindIsRefused(t *testing.T) {
	w := newWorld(t)
	e := w.openPR("0", "x")
	_, err := w.client.StatusComments().Perform(t.Context(), w.task, e)
	w.wantCode(err, nod.Invalid)
	_, err = w.client.SwapLabels().Lookup(t.Context(), w.task, e)
	w.wantCode(err, nod.Invalid)
	bad := w.effect(nod.EffectStatusComment, nod.StatusComment{Issue: 1, Marker: "visible", Body: "x"})
	_, err = w.client.StatusComments().Perform(t.Context(), w.task, bad)
	w.wantCode(err, nod.Invalid)
}

func TestAnswersBecomeCodes(t *testing.T) {
	w := newWorld(t)
	w.ok(w.sim.Label("wil", full, w.task.Issue, "bug"))
	limit := fmt.Sprint(time.Now().Add(90 * time.Second).Unix())
	for _, c := range []struct {
		name  string
		fault githubsim.Fault
		code  nod.Code
		least time.Duration
	}{
		{"5xx", githubsim.Fault{Status: 502}, nod.Unavailable, 0},
		{"cut", githubsim.Fault{Cut: githubsim.CutMiddle}, nod.Unavailable, 0},
		{"retry after", githubsim.Fault{Status: 403, Header: map[string]string{"Retry-After": "7"}}, nod.RateLimited, 7 * time.Second},
		{"429", githubsim.Fault{Status: 429, Header: map[string]string{"Retry-After": "9"}}, nod.RateLimited, 9 * time.Second},
		{"secondary", githubsim.Fault{Status: 403, Body: `{"message":"You have exceeded a secondary rate limit. Please wait.","documentation_url":"https://docs.github.com/x"}`},
			nod.RateLimited, time.Minute},
		{"primary", githubsim.Fault{Status: 403, Header: map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Limit": "5000", "X-RateLimit-Reset": limit}},
			nod.RateLimited, 60 * time.Second},
		{"403", githubsim.Fault{Status: 403}, nod.Forbidden, 0},
		{"404", githubsim.Fault{Status: 404}, nod.NotFound, 0},
		{"410", githubsim.Fault{Status: 410}, nod.NotFound, 0},
		{"422", githubsim.Fault{Status: 422, Body: `{"message":"Validation Failed","errors":[{"message":"hello @ada"}]}`}, nod.Invalid, 0},
		{"401 twice", githubsim.Fault{Status: 401, Times: 2}, nod.Unauthenticated, 0},
		{"not json", githubsim.Fault{Status: 200, Body: `<html>`}, nod.Unavailable, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			fresh := newClientOf(t, w) // rate limits are remembered by a client
			c.fault.Path = "/labels"
			w.sim.Inject(c.fault)
			e := w.effect(nod.EffectSwapLabel, nod.SwapLabel{Issue: w.task.Issue, Add: "x"})
			_, err := fresh.SwapLabels().Perform(t.Context(), w.task, e)
			if nod.CodeOf(err) != c.code {
				t.Fatalf("got %v (%s), want %s", err, nod.CodeOf(err), c.code)
			}
			after, ok := github.RetryAfter(err)
			if ok != (c.code == nod.RateLimited) || after < c.least || after > 2*time.Minute {
				t.Errorf("retry after %v, %v", after, ok)
			}
			if strings.Contains(nod.PublicMessage(err), "@ada") {
				t.Errorf("the message pings: %q", nod.PublicMessage(err))
			}
		})
	}
}
