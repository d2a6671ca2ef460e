package githubsim_test

import (
	"net/http"
	"strings"
	"testing"

	gh "github.com/google/go-github/v66/github"

	"nod/bot/github/githubsim"
)

func TestWebhooksAreSignedAndInOrder(t *testing.T) {
	w := newWorld(t)
	h := w.hookTarget()
	w.sim.SetWebhook(h.url)
	w.sim.Ping()
	n, err := w.sim.CreateIssue("out", full, "t", "b")
	w.ok(err)
	w.ok(w.sim.Label("wil", full, n, "nod"))
	_, err = w.sim.Comment("out", full, n, "/nod status")
	w.ok(err)
	w.ok(w.sim.Unlabel("wil", full, n, "nod"))
	text := "x"
	sha, err := w.sim.Commit("wil", full, "fix", "fix: x\n", map[string]*string{"x": &text})
	w.ok(err)
	c := w.asApp(map[string]string{"pull_requests": "write", "contents": "read"})
	pull, _, err := c.PullRequests.Create(t.Context(), "ada", "web", &gh.NewPullRequest{Title: gh.String("fix: x"), Head: gh.String("fix"), Base: gh.String("main")})
	w.ok(err)
	_, err = w.sim.Commit("wil", full, "fix", "fix: y\n", map[string]*string{"y": &text})
	w.ok(err)
	w.ok(w.sim.MergePull("ada", full, pull.GetNumber()))
	w.ok(w.sim.CloseIssue("ada", full, n))
	_, err = w.sim.Reinstall("ada")
	w.ok(err)
	all := w.flush(h)
	want := "ping issues.opened issues.labeled issue_comment.created issues.unlabeled push pull_request.opened push pull_request.synchronize " +
		"push pull_request.closed issues.closed installation.deleted installation.created"
	if got := events(all); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	labeled := all[2].parsed.(*gh.IssuesEvent)
	if labeled.GetLabel().GetName() != "nod" || labeled.GetSender().GetLogin() != "wil" || labeled.GetIssue().GetNumber() != n || labeled.GetInstallation().GetID() == 0 ||
		labeled.GetRepo().GetFullName() != full || labeled.GetSender().GetType() != "User" {
		t.Errorf("got %s", all[2].body)
	}
	opened := all[6].parsed.(*gh.PullRequestEvent)
	if opened.GetSender().GetType() != "Bot" || opened.GetPullRequest().GetHead().GetSHA() != sha {
		t.Errorf("got %s", all[6].body)
	}
	closed := all[10].parsed.(*gh.PullRequestEvent)
	if !closed.GetPullRequest().GetMerged() || closed.GetPullRequest().GetMergeCommitSHA() == "" {
		t.Errorf("got %s", all[10].body)
	}
	seen := map[string]bool{}
	for _, r := range all {
		if seen[r.guid] || r.header.Get("X-GitHub-Hook-Installation-Target-Type") != "integration" {
			t.Errorf("GUID %q, headers %v", r.guid, r.header)
		}
		seen[r.guid] = true
	}
}

func TestFailedDeliveryStaysInTheListAndIsRedelivered(t *testing.T) {
	w := newWorld(t)
	h := w.hookTarget()
	w.sim.SetWebhook(h.url)
	h.answer <- http.StatusBadGateway
	_, err := w.sim.CreateIssue("out", full, "one", "")
	w.ok(err)
	w.flush(h)
	w.sim.SetWebhook("http://127.0.0.1:1/closed")
	_, err = w.sim.CreateIssue("out", full, "two", "")
	w.ok(err)
	w.flush(h)
	w.sim.SetWebhook(h.url)
	_, err = w.sim.CreateIssue("out", full, "three", "")
	w.ok(err)
	w.flush(h)
	app := w.withToken(w.jwt(nil))
	var list []*gh.HookDelivery
	opts := &gh.ListCursorOptions{PerPage: 1}
	for {
		some, res, err := app.Apps.ListHookDeliveries(t.Context(), opts)
		w.ok(err)
		list = append(list, some...)
		if opts.Cursor = res.Cursor; opts.Cursor == "" {
			break
		}
	}
	if len(list) != 3 || list[0].GetStatus() != "OK" || list[1].GetStatusCode() != 0 || list[2].GetStatusCode() != http.StatusBadGateway {
		t.Fatalf("got %v", list)
	}
	whole, _, err := app.Apps.GetHookDelivery(t.Context(), list[1].GetID())
	w.ok(err)
	if !strings.Contains(string(*whole.Request.RawPayload), `"two"`) || whole.Request.Headers["X-GitHub-Delivery"] != list[1].GetGUID() {
		t.Errorf("got %+v", whole)
	}
	if _, res, err := app.Apps.RedeliverHookDelivery(t.Context(), list[1].GetID()); res.StatusCode != http.StatusAccepted {
		t.Fatal(err)
	}
	again := w.flush(h)
	if len(again) != 1 || again[0].guid != list[1].GetGUID() {
		t.Errorf("got %s", events(again))
	}
	all := w.sim.Deliveries()
	if last := all[len(all)-1]; !last.Redelivery || !last.OK() {
		t.Errorf("got %+v", last)
	}
}

func TestFaultsCutAtTheSaidPlace(t *testing.T) {
	w := newWorld(t)
	c := w.asUser("ada")
	create := func() error {
		_, _, err := c.Issues.Create(t.Context(), "ada", "web", &gh.IssueRequest{Title: gh.String("t")})
		return err
	}
	for cut, done := range map[githubsim.Cut]int{githubsim.CutBefore: 0, githubsim.CutAfter: 1, githubsim.CutMiddle: 1} {
		before, err := w.sim.CreateIssue("ada", full, "mark", "")
		w.ok(err)
		w.sim.Inject(githubsim.Fault{Method: "POST", Path: "/issues", Cut: cut})
		if create() == nil {
			t.Errorf("%s: no error", cut)
		}
		after, err := w.sim.CreateIssue("ada", full, "mark", "")
		w.ok(err)
		if after-before-1 != done {
			t.Errorf("%s: %d issues were made, want %d", cut, after-before-1, done)
		}
	}
	w.sim.Inject(githubsim.Fault{Path: "/issues", Status: 503, Times: 2})
	for i := range 3 {
		if got := statusOf(create()); (got == 503) != (i < 2) {
			t.Errorf("request %d: %d", i, got)
		}
	}
	log := w.sim.Requests()
	if last := log[len(log)-1]; last.Method != "POST" || last.Path != "/repos/ada/web/issues" || last.Status != 201 || last.As != "user" {
		t.Errorf("got %+v", last)
	}
}
