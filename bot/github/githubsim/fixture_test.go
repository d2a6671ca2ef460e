package githubsim_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gh "github.com/google/go-github/v66/github"
	"golang.org/x/crypto/ssh"

	"nod/bot/github/githubsim"
	"nod/bot/github/openapitest"
)

// clock is a settable clock.
type clock struct{ at chan time.Time }

func newClock() *clock {
	c := &clock{make(chan time.Time, 1)}
	c.at <- time.Now()
	return c
}

func (c *clock) now() time.Time { t := <-c.at; c.at <- t; return t }

func (c *clock) advance(d time.Duration) { c.at <- (<-c.at).Add(d) }

type world struct {
	*testing.T
	sim   *githubsim.Server
	base  string
	clock *clock
}

const full = "ada/web"

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldIn(t, t.TempDir())
}

func newWorldIn(t *testing.T, dir string) *world {
	t.Helper()
	w := &world{T: t, clock: newClock()}
	var err error
	w.sim, err = githubsim.New(githubsim.Config{Dir: dir, Now: w.clock.now, WebUser: "ada"})
	w.ok(err)
	t.Cleanup(func() { w.ok(w.sim.Close()) })
	w.base, err = w.sim.Start(t.Context())
	w.ok(err)
	for _, login := range []string{"ada", "wil", "out"} {
		_, err := w.sim.CreateUser(login)
		w.ok(err)
	}
	w.ok(w.sim.CreateRepo(full, map[string]string{"README.md": "# web\n", "run.sh": "#!/bin/sh\n", "dir/ä \"q\" 日本.txt": "x"}))
	w.ok(w.sim.SetPermission(full, "wil", "write"))
	return w
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// asUser is a go-github client with a person's token.
func (w *world) asUser(login string) *gh.Client {
	w.Helper()
	token, err := w.sim.UserToken(login)
	w.ok(err)
	return w.withToken(token.Reveal())
}

func (w *world) withToken(token string) *gh.Client {
	w.Helper()
	transport := openapitest.Watch(w, &http.Transport{DisableKeepAlives: true}, w.base)
	c := gh.NewClient(&http.Client{Timeout: 2 * time.Minute, Transport: transport}).WithAuthToken(token)
	var err error
	c.BaseURL, err = c.BaseURL.Parse(w.base + "/")
	w.ok(err)
	return c
}

// asApp is a go-github client with an installation token.
func (w *world) asApp(perms map[string]string) *gh.Client {
	w.Helper()
	return w.withToken(w.installationToken(perms))
}

// git runs the real git as a person would, with nothing of this machine's settings.
func (w *world) git(dir string, args ...string) (string, error) {
	w.Helper()
	who := []string{"-c", "user.name=Wil", "-c", "user.email=wil@example.test"}
	cmd := exec.CommandContext(w.Context(), "git", append(who, args...)...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_TERMINAL_PROMPT=0",
		"LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (w *world) mustGit(dir string, args ...string) string {
	w.Helper()
	out, err := w.git(dir, args...)
	if err != nil {
		w.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return out
}

// clone clones the repository with token ("" for none).
func (w *world) clone(token string) string {
	w.Helper()
	dir := filepath.Join(w.TempDir(), "clone")
	w.mustGit(".", "clone", "-q", w.remote(token), dir)
	return dir
}

func (w *world) remote(token string) string {
	if token == "" {
		return w.base + "/" + full + ".git"
	}
	return strings.Replace(w.base, "http://", "http://x-access-token:"+token+"@", 1) + "/" + full + ".git"
}

func (w *world) write(dir, name, text string) {
	w.Helper()
	w.ok(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
}

// sshKey makes a key pair: the path of the private key, and the public one in
// authorized_keys form.
func (w *world) sshKey() (path, public string) {
	w.Helper()
	pub, private, err := ed25519.GenerateKey(rand.Reader)
	w.ok(err)
	block, err := ssh.MarshalPrivateKey(private, "")
	w.ok(err)
	path = filepath.Join(w.TempDir(), "key")
	w.ok(os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	key, err := ssh.NewPublicKey(pub)
	w.ok(err)
	return path, string(ssh.MarshalAuthorizedKey(key))
}

// received is one webhook as its target saw it.
type received struct {
	event, guid string
	header      http.Header
	body        []byte
	parsed      any
}

// hookTarget takes webhooks and checks them with go-github, the way a server would.
type hookTarget struct {
	url    string
	got    chan received
	answer chan int // statuses to answer with, 202 when empty
}

func (w *world) hookTarget() *hookTarget {
	w.Helper()
	h := &hookTarget{got: make(chan received, 1000), answer: make(chan int, 100)}
	secret := []byte(w.sim.App().WebhookSecret.Reveal())
	srv := &http.Server{ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			w.Error(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(raw))
		body, err := gh.ValidatePayload(r, secret)
		if err != nil {
			w.Errorf("signature: %v", err)
		}
		parsed, err := gh.ParseWebHook(gh.WebHookType(r), body)
		if err != nil {
			w.Errorf("%s: %v", gh.WebHookType(r), err)
		}
		h.got <- received{gh.WebHookType(r), gh.DeliveryID(r), r.Header, body, parsed}
		select {
		case code := <-h.answer:
			rw.WriteHeader(code)
		default:
			rw.WriteHeader(http.StatusAccepted)
		}
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	w.ok(err)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	w.Cleanup(func() {
		w.ok(srv.Close())
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			w.Error(err)
		}
	})
	h.url = "http://" + l.Addr().String() + "/webhooks/github"
	return h
}

// flush waits for the webhooks so far and returns them.
func (w *world) flush(h *hookTarget) []received {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 2*time.Minute)
	defer cancel()
	w.ok(w.sim.Flush(ctx))
	var out []received
	for {
		select {
		case r := <-h.got:
			out = append(out, r)
		default:
			return out
		}
	}
}

func events(all []received) string {
	var names []string
	for _, r := range all {
		name := r.event
		if a, ok := r.parsed.(interface{ GetAction() string }); ok && a.GetAction() != "" {
			name += "." + a.GetAction()
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}
