package github_test

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"testing"

	"nod"
	"nod/bot/github"
	"nod/bot/github/githubsim"
	"nod/bot/github/openapitest"
)

// loopback is the transport of every test: it reaches this machine only.
type loopback struct{ next http.RoundTripper }

func (l loopback) RoundTrip(r *http.Request) (*http.Response, error) {
	if ip := net.ParseIP(r.URL.Hostname()); ip == nil || !ip.IsLoopback() {
		return nil, errors.New("a test tried to leave this machine")
	}
	return l.next.RoundTrip(r)
}

func closedWorld(t testing.TB) http.RoundTripper {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return loopback{tr}
}

const (
	full    = "ada/web"
	trigger = "nod"
)

// world is a simulated GitHub with a repository, an issue, and a Client.
type world struct {
	*testing.T
	sim    *githubsim.Server
	base   string
	client *github.Client
	task   nod.Task
	users  map[string]githubsim.User
}

func (w *world) repo() nod.Repo { return w.task.Repo }

// newWorld has ada (owner of the repository), wil (write), tri (triage) and out.
func newWorld(t *testing.T, change ...func(*github.Config)) *world {
	t.Helper()
	w := &world{T: t, users: map[string]githubsim.User{}}
	var err error
	w.sim, err = githubsim.New(githubsim.Config{Dir: t.TempDir()})
	w.ok(err)
	t.Cleanup(func() { w.ok(w.sim.Close()) })
	w.base, err = w.sim.Start(t.Context())
	w.ok(err)
	for _, login := range []string{"ada", "wil", "tri", "out"} {
		w.users[login], err = w.sim.CreateUser(login)
		w.ok(err)
	}
	w.ok(w.sim.CreateRepo(full, map[string]string{"README.md": "# web\n"}))
	w.ok(w.sim.SetPermission(full, "wil", "write"))
	w.ok(w.sim.SetPermission(full, "tri", "triage"))
	n, err := w.sim.CreateIssue("out", full, "Total is wrong", "It ignores the coupon.")
	w.ok(err)
	in, err := w.sim.Installation(full)
	w.ok(err)
	w.task = nod.Task{ID: "t0123456789abcdef", Repo: nod.Repo{Host: "github.com", Owner: "ada", Name: "web"}, Installation: in,
		Issue: n, Branch: "nod/1-total", BaseRef: "main"}
	app := w.sim.App()
	c := github.Config{APIURL: w.base + "/api/v3/", WebURL: w.base, AppID: app.ID, PrivateKey: app.PEM,
		Owners: []int64{w.users["ada"].ID}, TriggerLabel: trigger, TierLife: -1, HTTP: openapitest.Watch(t, closedWorld(t), w.base)}
	for _, f := range change {
		f(&c)
	}
	w.client, err = github.New(c)
	w.ok(err)
	return w
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) wantCode(err error, code nod.Code) {
	w.Helper()
	if err == nil || nod.CodeOf(err) != code {
		w.Fatalf("got error %v with code %s, want code %s", err, nod.CodeOf(err), code)
	}
}

func (w *world) effect(kind nod.EffectKind, intent any) nod.Effect {
	w.Helper()
	raw, err := json.Marshal(intent)
	w.ok(err)
	return nod.Effect{ID: 1, Key: "key-1", Task: w.task.ID, Repo: w.repo().Key(), Kind: kind, Intent: raw}
}

func (w *world) view(n int) githubsim.IssueView {
	w.Helper()
	v, err := w.sim.View(full, n)
	w.ok(err)
	return v
}

// actor is how a webhook would name login.
func (w *world) actor(login string) nod.Actor {
	return nod.Actor{Kind: nod.ActorGitHub, Host: "github.com", ID: w.users[login].ID, Login: login}
}

// branch puts a commit on the task's branch and returns it.
func (w *world) branch() string {
	w.Helper()
	text := "fixed\n"
	sha, err := w.sim.Commit("wil", full, w.task.Branch, "fix: total\n\nWith the coupon.\n", map[string]*string{"fix.txt": &text})
	w.ok(err)
	return sha
}

// count returns how many requests had this method and path.
func (w *world) count(method, path string) int {
	n := 0
	for _, r := range w.sim.Requests() {
		if r.Method == method && r.Path == path {
			n++
		}
	}
	return n
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}
