package github_test

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"nod"
	"nod/bot/github/openapitest"
)

// TestEveryExchangeFollowsGitHubsDescription walks a task's whole life on GitHub.
// Each request and each answer on the way is judged by newWorld's transport, as in
// every other test of this package.
func TestEveryExchangeFollowsGitHubsDescription(t *testing.T) {
	all := openapitest.Descriptions(t)
	w := newWorld(t)
	ctx := t.Context()
	w.sim.SetWebhook("http://127.0.0.1:1/hook") // nobody is there, and the list says so
	w.ok(w.sim.Label("wil", full, w.task.Issue, trigger))
	_, err := w.sim.Comment("tri", full, w.task.Issue, "/nod status")
	w.ok(err)
	_, err = w.client.Installation(ctx, w.repo())
	w.ok(err)
	issue, err := w.client.Issue(ctx, w.task.Installation, w.repo(), w.task.Issue)
	w.ok(err)
	if issue.Labeller.Login != "wil" {
		t.Errorf("labelled by %+v", issue.Labeller)
	}
	_, err = w.client.Labelled(ctx, w.repo(), trigger)
	w.ok(err)
	_, err = w.client.DefaultBranch(ctx, w.task.Installation, w.repo())
	w.ok(err)
	for _, login := range []string{"ada", "wil", "tri", "out"} {
		w.client.Standing(ctx, w.task.Installation, w.repo(), w.actor(login))
	}
	var comment nod.CommentOutcome
	w.perform(w.client.StatusComments(), w.statusComment("starting"), &comment)
	w.task.CommentID = comment.ID
	w.perform(w.client.StatusComments(), w.statusComment("running"), &comment)
	var labels struct{}
	w.perform(w.client.SwapLabels(), w.effect(nod.EffectSwapLabel, nod.SwapLabel{Issue: w.task.Issue, Add: "nod:working", Remove: []string{trigger}}), &labels)
	sha := w.branch()
	var pull nod.PullRequest
	w.perform(w.client.OpenPulls(), w.effect(nod.EffectOpenPR, nod.OpenPullRequest{Title: "fix: total", Body: "text", Head: w.task.Branch, Base: "main", SHA: sha, Draft: true}), &pull)
	_, err = w.client.Delivered(ctx, w.task, nod.Revision{SHA: sha, Branch: w.task.Branch, BaseRef: "main", PullRequest: pull})
	w.ok(err)
	w.ok(w.sim.MergePull("ada", full, pull.Number))
	_, err = w.client.Delivered(ctx, w.task, nod.Revision{SHA: sha, Branch: w.task.Branch, BaseRef: "main", PullRequest: pull})
	w.ok(err)
	w.ok(w.sim.Flush(ctx))
	deliveries, err := w.client.HookDeliveries(ctx, time.Time{}, 1000)
	w.ok(err)
	_, err = w.client.HookDelivery(ctx, deliveries[0].ID)
	w.ok(err)
	w.ok(w.client.RevokeTokens(ctx))
	for _, d := range all {
		used := d.Used()
		for _, op := range []string{"POST /app/installations/{installation_id}/access_tokens", "PATCH /repos/{owner}/{repo}/issues/comments/{comment_id}",
			"GET /repos/{owner}/{repo}/pulls/{pull_number}/commits", "GET /app/hook/deliveries/{delivery_id}", "DELETE /installation/token"} {
			if !slices.Contains(used, op) {
				t.Errorf("%s was not exercised", op)
			}
		}
	}
}

// TestUndeclaredExchangesAreFound: the check itself refuses what it must.
func TestUndeclaredExchangesAreFound(t *testing.T) {
	for _, d := range openapitest.Descriptions(t) {
		for _, path := range []string{"/repos/ada/web/issues-comments/1", "/repos/ada/web/issues/1/labels?colour=red"} {
			req, res := exchange(t, "GET", path, 200)
			if err := d.Check(req, nil, res, []byte("[]")); err == nil {
				t.Errorf("%s passes", path)
			}
		}
		req, res := exchange(t, "GET", "/repos/ada/web/issues/1/labels", 200)
		if err := d.Check(req, nil, res, []byte(`[]`)); err != nil {
			t.Errorf("an empty list of labels is refused: %v", err)
		}
		if err := d.Check(req, nil, res, []byte(`[{"id":"one"}]`)); err == nil {
			t.Error("a label without a name passes")
		}
	}
}

func exchange(t *testing.T, method, path string, status int) (*http.Request, *http.Response) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://127.0.0.1"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return req, &http.Response{StatusCode: status, Request: req, Header: http.Header{"Content-Type": {"application/json; charset=utf-8"}}}
}
