package hostgit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nod"
	"nod/runtime/runtimetest"
)

var testNow = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

const testToken = "ghs_testtokenthatmustnotleak0123456789"

// fixture is a repository served over real smart HTTP, and a Git beside it.
type fixture struct {
	t      testing.TB
	git    *Git
	config Config
	task   nod.Task
	origin string // the bare repository behind the server
	url    string
	token  atomic.Value
	home   string
	agent  string // the clone of the agent, after seed
	hook   atomic.Pointer[hook]
}

// hook answers a request in the server's place when it returns true.
type hook func(w http.ResponseWriter, r *http.Request) bool

func (f *fixture) serve(h hook) { f.hook.Store(&h) }

func newFixture(t testing.TB, change ...func(*Config)) *fixture {
	t.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		runtimetest.Missing(t, "git")
	}
	f := &fixture{t: t, home: t.TempDir(), origin: filepath.Join(t.TempDir(), "o", "r.git")}
	f.token.Store(testToken)
	f.plain("", "init", "--quiet", "--bare", "--initial-branch=main", f.origin)
	f.plain(f.origin, "config", "http.receivepack", "true")
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(f.plain("", "--exec-path")), "git-http-backend"),
		Env:  []string{"GIT_PROJECT_ROOT=" + filepath.Dir(filepath.Dir(f.origin)), "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=test", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + f.home},
		// The server's git is not what is tested: its noise is dropped.
		Stderr: &bytes.Buffer{},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h := f.hook.Load(); h != nil && (*h)(w, r) {
			return
		}
		if _, token, _ := r.BasicAuth(); token != f.token.Load() {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		if p := r.Header.Get("Git-Protocol"); p != "" {
			b := *backend
			b.Env = append(b.Env[:len(b.Env):len(b.Env)], "GIT_PROTOCOL="+p)
			b.ServeHTTP(w, r)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	f.url = server.URL + "/o/r.git"
	f.task = nod.Task{ID: "t0123456789abcdef", Repo: nod.Repo{Host: "localhost", Owner: "o", Name: "r"}, Issue: 7, BaseRef: "main", Branch: "nod/7-fix"}
	key := filepath.Join(f.home, "signing")
	if _, err := GenerateSigningKey(key); err != nil {
		t.Fatal(err)
	}
	f.config = Config{
		Dir: filepath.Join(t.TempDir(), "git"), GitPath: git, Author: Identity{"nod[bot]", "nod@example.invalid"}, SigningKey: key,
		Remote: func(context.Context, nod.Task, bool) (string, nod.Secret, error) {
			return f.url, nod.NewSecret(testToken), nil
		},
		Now: func() time.Time { return testNow },
	}
	for _, c := range change {
		c(&f.config)
	}
	f.git = f.open()
	work := filepath.Join(t.TempDir(), "first")
	f.plain("", "init", "--quiet", "--initial-branch=main", work)
	f.write(work, "README.md", "hello\n")
	f.write(work, "lib/a.txt", lines(20, ""))
	f.commit(work, "feat: begin")
	f.plain(work, "push", "--quiet", f.origin, "main")
	return f
}

func (f *fixture) open() *Git {
	f.t.Helper()
	g, err := New(f.config)
	if err != nil {
		f.t.Fatal(err)
	}
	g.pauses = []time.Duration{time.Millisecond}
	return g
}

func lines(n int, changed string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d%s\n", i, changed)
	}
	return b.String()
}

// try runs git as an agent or a maintainer would, with the repository's own configuration.
func (f *fixture) try(dir, stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.WaitDelay = 10 * time.Second
	cmd.Dir = dir
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.home, "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=agent", "GIT_AUTHOR_EMAIL=agent@example.invalid", "GIT_AUTHOR_DATE=1770000000 +0130",
		"GIT_COMMITTER_NAME=agent", "GIT_COMMITTER_EMAIL=agent@example.invalid", "GIT_COMMITTER_DATE=1770000000 +0130"}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("git %q: %w: %s", args, err, errs.String())
	}
	return out.String(), nil
}

func (f *fixture) plain(dir string, args ...string) string {
	f.t.Helper()
	out, err := f.try(dir, "", args...)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

func (f *fixture) write(dir, name, text string) {
	f.t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) commit(dir, message string) string {
	f.t.Helper()
	f.plain(dir, "add", "-A")
	f.plain(dir, "commit", "--quiet", "--allow-empty", "--allow-empty-message", "-m", message)
	return strings.TrimSpace(f.plain(dir, "rev-parse", "HEAD"))
}

// onMain puts a commit on the remote's main from outside.
func (f *fixture) onMain(name, text string) string {
	f.t.Helper()
	return f.onBranch("main", name, text)
}

func (f *fixture) onBranch(branch, name, text string) string {
	f.t.Helper()
	dir := filepath.Join(f.t.TempDir(), "w")
	f.plain("", "clone", "--quiet", "--branch", branch, f.origin, dir)
	f.write(dir, name, text)
	sha := f.commit(dir, "feat: from elsewhere")
	f.plain(dir, "push", "--quiet", f.origin, branch)
	return sha
}

// seed makes the agent's clone.
func (f *fixture) seed() string {
	f.t.Helper()
	f.agent = filepath.Join(f.t.TempDir(), "workspace")
	sha, err := f.git.Seed(f.t.Context(), f.task, "main", f.agent)
	if err != nil {
		f.t.Fatal(err)
	}
	return sha
}

// bundle is what the environment streams out.
func (f *fixture) bundle(base string) []byte {
	f.t.Helper()
	return []byte(f.plain(f.agent, "bundle", "create", "--quiet", "-", base+"..HEAD"))
}

func (f *fixture) importAll(base string) string {
	f.t.Helper()
	head, err := f.git.Import(f.t.Context(), f.task, bytes.NewReader(f.bundle(base)))
	if err != nil {
		f.t.Fatal(err)
	}
	return head
}

func (f *fixture) prepare(head string) nod.Prepared {
	f.t.Helper()
	p, err := f.git.Prepare(f.t.Context(), nod.PrepareSpec{Task: f.task, Head: head, BaseRef: "main"})
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

func (f *fixture) effect(sha, old string) nod.Effect {
	f.t.Helper()
	intent, err := json.Marshal(nod.PushBranch{Branch: f.task.Branch, SHA: sha, Old: old})
	if err != nil {
		f.t.Fatal(err)
	}
	return nod.Effect{ID: 1, Kind: nod.EffectPush, Task: f.task.ID, Intent: intent}
}

func (f *fixture) push(sha, old string) {
	f.t.Helper()
	out, err := f.git.Pusher().Perform(f.t.Context(), f.task, f.effect(sha, old))
	if err != nil {
		f.t.Fatal(err)
	}
	if want := `{"sha":"` + sha + `"}`; string(out) != want {
		f.t.Fatalf("outcome %s, want %s", out, want)
	}
}

// remoteBranch is where a branch is on the server, or "".
func (f *fixture) remoteBranch(name string) string {
	f.t.Helper()
	return strings.TrimSpace(f.plain(f.origin, "for-each-ref", "--format=%(objectname)", "refs/heads/"+name))
}

// mirrorDir is the only mirror of the fixture.
func (f *fixture) mirrorDir() string {
	f.t.Helper()
	m, err := filepath.Glob(filepath.Join(f.config.Dir, "mirrors", "*.git"))
	if err != nil || len(m) != 1 {
		f.t.Fatalf("mirrors: %v, %v", m, err)
	}
	return m[0]
}

func (f *fixture) mirrorRefs() string {
	f.t.Helper()
	return f.plain(f.mirrorDir(), "for-each-ref")
}

func wantCode(t testing.TB, err error, code nod.Code, words ...string) {
	t.Helper()
	if err == nil || nod.CodeOf(err) != code {
		t.Fatalf("error %v (code %s), want code %s", err, nod.CodeOf(err), code)
	}
	for _, w := range words {
		if !strings.Contains(nod.PublicMessage(err), w) {
			t.Errorf("message %q does not say %q", nod.PublicMessage(err), w)
		}
	}
}
