package github_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"nod"
	"nod/bot/github"
	"nod/bot/github/githubsim"
)

type contextType = context.Context

func newClientOf(t *testing.T, w *world, change ...func(*github.Config)) *github.Client {
	t.Helper()
	app := w.sim.App()
	c := github.Config{APIURL: w.base, WebURL: w.base, AppID: app.ID, PrivateKey: app.PEM, TriggerLabel: trigger, HTTP: closedWorld(t)}
	for _, f := range change {
		f(&c)
	}
	client, err := github.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func (w *world) mints() int {
	return w.count("POST", fmt.Sprintf("/app/installations/%d/access_tokens", w.task.Installation))
}

func (w *world) get(token nod.Secret, method, path string) int {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), method, w.base+path, nil)
	w.ok(err)
	req.Header.Set("Authorization", "Bearer "+token.Reveal())
	res, err := http.DefaultTransport.RoundTrip(req)
	w.ok(err)
	w.ok(res.Body.Close())
	return res.StatusCode
}

func TestTokenReachesOneRepositoryWithItsPermissionsOnly(t *testing.T) {
	w := newWorld(t)
	w.ok(w.sim.CreateRepo("ada/secret", map[string]string{"a": "b"}))
	w.ok(w.sim.SetPrivate("ada/secret", true))
	token, err := w.client.InstallationToken(t.Context(), w.task.Installation, w.repo(), map[string]string{"issues": "read"})
	w.ok(err)
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/repos/ada/web/issues/1", 200}, {"GET", "/repos/ada/web", 200}, {"POST", "/repos/ada/web/issues/1/comments", 403},
		{"GET", "/repos/ada/web/branches", 403}, {"GET", "/repos/ada/secret", 404}, {"GET", "/app", 401},
	} {
		if got := w.get(token, c.method, c.path); got != c.want {
			t.Errorf("%s %s: got %d, want %d", c.method, c.path, got, c.want)
		}
	}
	if s := fmt.Sprintf("%v %+v %s", token, token, token); strings.Contains(s, "ghs_") {
		t.Errorf("the token prints: %s", s)
	}
	_, err = w.client.InstallationToken(t.Context(), w.task.Installation, w.repo(), map[string]string{"everything": "write"})
	w.wantCode(err, nod.Invalid)
	_, err = w.client.InstallationToken(t.Context(), w.task.Installation, nod.Repo{Host: "github.com", Owner: "ada", Name: "none"}, map[string]string{"issues": "read"})
	w.wantCode(err, nod.Forbidden)
}

func TestTokensAreReusedPerRepositoryAndPermissions(t *testing.T) {
	w := newWorld(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := w.client.DefaultBranch(t.Context(), w.task.Installation, w.repo()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if got := w.mints(); got != 1 {
		t.Errorf("%d tokens were minted for one use, want 1", got)
	}
	_, err := w.client.Issue(t.Context(), w.task.Installation, w.repo(), w.task.Issue)
	w.ok(err)
	if got := w.mints(); got != 2 {
		t.Errorf("%d tokens were minted for two uses, want 2", got)
	}
}

// R19: a token that died early is minted again, once, and the call succeeds.
func TestR19DeadTokenIsReplacedOnce(t *testing.T) {
	w := newWorld(t)
	p := w.client.StatusComments()
	var out nod.CommentOutcome
	w.perform(p, w.statusComment("one"), &out)
	w.sim.ExpireTokens()
	w.perform(p, w.statusComment("two"), &out) // with a body, which is sent again
	if got := w.view(w.task.Issue).Comments; len(got) != 1 || !strings.HasSuffix(got[0].Body, "two") {
		t.Errorf("got %+v", got)
	}
	before := w.mints()
	w.sim.Inject(githubsim.Fault{Path: "/repos/ada/web", Status: 401, Times: 9})
	_, err := w.client.DefaultBranch(t.Context(), w.task.Installation, w.repo())
	w.wantCode(err, nod.Unauthenticated)
	if got := w.mints() - before; got > 2 {
		t.Errorf("%d tokens were minted for one call", got)
	}
}

// R19: reinstalling the App changes the installation's id.
func TestR19InstallationIDIsFoundAgain(t *testing.T) {
	w := newWorld(t)
	_, err := w.client.DefaultBranch(t.Context(), w.task.Installation, w.repo())
	w.ok(err)
	now, err := w.sim.Reinstall("ada")
	w.ok(err)
	for range 2 {
		_, err = w.client.Issue(t.Context(), w.task.Installation, w.repo(), w.task.Issue)
		w.ok(err)
	}
	if got, err := w.client.Installation(t.Context(), w.repo()); err != nil || got != now {
		t.Errorf("got %d, %v, want %d", got, err, now)
	}
	w.ok(w.sim.Uninstall("ada"))
	_, err = w.client.DefaultBranch(t.Context(), w.task.Installation, w.repo())
	w.wantCode(err, nod.NotFound)
}

// R18: a permission granted later is used without a restart, and one that is missing
// is named.
func TestR18PermissionGrantedLaterIsUsed(t *testing.T) {
	w := newWorld(t)
	w.ok(w.sim.Grant("ada", map[string]string{"metadata": "read"}))
	_, err := w.client.Issue(t.Context(), w.task.Installation, w.repo(), w.task.Issue)
	w.wantCode(err, nod.Forbidden)
	w.ok(w.sim.Grant("ada", map[string]string{"metadata": "read", "issues": "read"}))
	_, err = w.client.Issue(t.Context(), w.task.Installation, w.repo(), w.task.Issue)
	w.ok(err)
	w.sim.Inject(githubsim.Fault{Path: "/issues/1", Status: 403, Body: `{"message":"Resource not accessible by integration"}`})
	_, err = w.client.Issue(t.Context(), w.task.Installation, w.repo(), w.task.Issue)
	w.ok(err)
}

func TestRevokedTokensAreDead(t *testing.T) {
	w := newWorld(t)
	perms := map[string]string{"metadata": "read"}
	token, err := w.client.InstallationToken(t.Context(), w.task.Installation, w.repo(), perms)
	w.ok(err)
	if got := w.get(token, "GET", "/repos/ada/web"); got != 200 {
		t.Fatalf("before: %d", got)
	}
	_, git, err := w.client.Remote(t.Context(), w.task, true)
	w.ok(err)
	w.ok(w.client.RevokeTokens(t.Context()))
	if got := w.get(git, "GET", "/repos/ada/web"); got != 401 {
		t.Errorf("the token for git: %d", got)
	}
	if got := w.get(token, "GET", "/repos/ada/web"); got != 401 {
		t.Errorf("after: %d", got)
	}
	w.ok(w.client.RevokeTokens(t.Context()))
	next, err := w.client.InstallationToken(t.Context(), w.task.Installation, w.repo(), perms)
	w.ok(err)
	if next.Reveal() == token.Reveal() {
		t.Error("the revoked token was handed out again")
	}
}

func TestBotIdentityIsReadOnce(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		got, err := w.client.BotIdentity(t.Context())
		w.ok(err)
		app := w.sim.App()
		want := github.Identity{Slug: app.Slug, Login: "nod-demo[bot]", ID: app.BotID, Email: fmt.Sprintf("%d+nod-demo[bot]@users.noreply.github.com", app.BotID)}
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if n := w.count("GET", "/app"); n != 1 {
		t.Errorf("GET /app was asked %d times", n)
	}
}

// Invariant 9: a token goes to the configured host and nowhere else, and into no log.
func TestTokenNeverLeavesForAnotherHost(t *testing.T) {
	var log strings.Builder
	w := newWorld(t, func(c *github.Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	seen := make(chan string, 10)
	other := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Get("Authorization") })}
	base := serve(t, other)
	w.sim.Inject(githubsim.Fault{Path: "/repos/ada/web", Status: 302, Header: map[string]string{"Location": base + "/repos/ada/web"}})
	_, err := w.client.DefaultBranch(t.Context(), w.task.Installation, w.repo())
	w.wantCode(err, nod.Forbidden)
	select {
	case got := <-seen:
		t.Errorf("another host was asked with %q", got)
	default:
	}
	w.sim.ExpireTokens()
	_, err = w.client.DefaultBranch(t.Context(), w.task.Installation, w.repo())
	w.ok(err)
	if strings.Contains(log.String(), "ghs_") || !strings.Contains(log.String(), "token refused") {
		t.Errorf("log:\n%s", log.String())
	}
}

func TestConfigIsChecked(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]github.Config{
		"plain http elsewhere": {APIURL: "http://github.example/", AppID: 1, PrivateKey: w.sim.App().PEM},
		"credentials in URL":   {APIURL: "https://a:b@github.example/", AppID: 1, PrivateKey: w.sim.App().PEM},
		"no app":               {PrivateKey: w.sim.App().PEM},
		"no key":               {AppID: 1},
		"not a key":            {AppID: 1, PrivateKey: nod.NewSecret("hello")},
	} {
		_, err := github.New(c)
		if nod.CodeOf(err) != nod.Invalid {
			t.Errorf("%s: got %v", name, err)
		}
	}
	got := w.client.CloneURL(w.repo())
	if got != w.base+"/ada/web.git" {
		t.Errorf("got %s", got)
	}
}

func TestGuardCapsAnswers(t *testing.T) {
	w := newWorld(t)
	w.sim.Inject(githubsim.Fault{Path: "/repos/ada/web", Status: 200, Body: `{"default_branch":"` + strings.Repeat("x", 33<<20) + `"}`})
	_, err := w.client.DefaultBranch(t.Context(), w.task.Installation, w.repo())
	w.wantCode(err, nod.TooLarge)
}

func serve(t *testing.T, s *http.Server) string {
	t.Helper()
	s.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	l := listen(t)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-done; err != http.ErrServerClosed {
			t.Error(err)
		}
	})
	return "http://" + l.Addr().String()
}
