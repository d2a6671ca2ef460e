package answer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"nod"
	"nod/notify/answer"
	"nod/notify/answer/answertest"
)

// world is the page over a fake store, served on loopback, with a clock that only
// moves when told.
type world struct {
	t      *testing.T
	store  *fakeStore
	server *answer.Server
	url    string
	log    *lockedBuffer
	mu     sync.Mutex
	clock  time.Time
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var epoch = time.Date(2026, 3, 14, 9, 26, 0, 0, time.UTC)

func newWorld(t *testing.T) *world {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, clock: epoch, log: &lockedBuffer{}}
	w.store = newFakeStore(w.now)
	w.url = fmt.Sprintf("http://localhost:%d", listener.Addr().(*net.TCPAddr).Port)
	w.server, err = answer.New(answer.Config{Decisions: w.store, Witness: w.store, MaxStreams: 32, Streams: w.store, Passkeys: w.store, Sessions: w.store, Acts: w.store,
		PublicURL: w.url, Now: w.now, Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(w.server)
	if err := srv.Listener.Close(); err != nil {
		t.Fatal(err)
	}
	srv.Listener = listener
	srv.Start()
	t.Cleanup(func() {
		w.server.Close()
		srv.Close()
	})
	return w
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock = w.clock.Add(d)
}

// dial makes every connection a loopback one, whatever localhost means here.
var dial = &http.Transport{DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", port))
}}

func (w *world) client() *answertest.Client {
	w.t.Helper()
	c, err := answertest.NewClient(w.url, dial)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// invite makes an enrolment and returns its link.
func (w *world) invite(name string) string {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	token := fmt.Sprintf("token-%s-%d", strings.ReplaceAll(name, " ", ""), len(w.store.enrolments))
	e := nod.Enrolment{TokenDigest: nod.Digest([]byte(token)), Name: name, ExpiresAt: w.now().Add(15 * time.Minute)}
	w.store.enrolments[e.TokenDigest] = e
	return w.url + "/enrol/" + token
}

// owner is a client that is enrolled and signed in.
func (w *world) owner() *answertest.Client {
	w.t.Helper()
	c := w.client()
	w.must(c.Enrol(w.t.Context(), w.invite("ada's phone")))
	w.must(c.SignIn(w.t.Context()))
	return c
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) wantCode(err error, want nod.Code) {
	w.t.Helper()
	if err == nil || nod.CodeOf(err) != want {
		w.t.Fatalf("got error %v, want one with code %s", err, want)
	}
}

// do sends one request and returns the response with its body read.
func (w *world) do(method, path string, header http.Header, body string) (*http.Response, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	w.must(err)
	for k, v := range header {
		r.Header[k] = v
	}
	if h := header.Get("Host"); h != "" {
		r.Host = h
	}
	client := http.Client{Transport: dial, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	w.must(err)
	defer resp.Body.Close()
	var b strings.Builder
	buf := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			break
		}
	}
	return resp, b.String()
}

// task adds a running task with one run.
func (w *world) task(id, title string) nod.Task {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	t := nod.Task{ID: id, Repo: nod.Repo{Host: "github.com", Owner: "acme", Name: "web"}, Issue: 412, Title: title, State: nod.TaskAwaitingGuidance,
		Agent: "claude", BaseRef: "main", Branch: "nod/412-" + id, CreatedAt: w.now(), UpdatedAt: w.now()}
	w.store.cases[id] = nod.Case{Task: t, Run: &nod.Run{ID: "r1-" + id, Task: id, Number: 2, Agent: "claude", State: nod.RunRunning},
		Environment: &nod.Environment{ID: "e1", Attestation: nod.Attestation{Isolation: "namespaces", UID: 1000, GID: 1000, Capabilities: "0000000000000000",
			NoNewPrivs: true, Seccomp: true, Interfaces: []string{"lo"}, RootReadOnly: true, EgressRefused: true, DirectRefused: true}}}
	return t
}

// another adds a task with an id of its own.
func (w *world) another() nod.Task {
	_, cases := w.store.sizes()
	return w.task(fmt.Sprintf("t%016x", cases+1), "Cart total ignores the coupon")
}

// ask adds an open decision and keeps its whole input as a blob.
func (w *world) ask(d nod.Decision, input string) nod.Decision {
	w.t.Helper()
	if d.ID == "" {
		decisions, _ := w.store.sizes()
		d.ID = fmt.Sprintf("d%032x", decisions+1)
	}
	if d.Task == "" {
		d.Task = w.another().ID
	}
	if d.Kind != nod.Review {
		d.SetInput(input)
	}
	if d.Cause == nod.CauseTool || d.Cause == nod.CausePlan || d.Cause == nod.CauseAgentQuestion {
		d.Run = "r1-" + d.Task
	}
	d.State, d.Version, d.CreatedAt, d.UpdatedAt = nod.DecisionOpen, 1, w.now(), w.now()
	if d.Kind == nod.Approval && d.Deadline.IsZero() {
		d.Deadline = w.now().Add(nod.ApprovalDeadline)
	}
	w.must(d.Valid())
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.store.blobs[nod.Digest([]byte(input))] = []byte(input)
	w.store.decisions[d.ID] = d
	return d
}

func (w *world) askBash(command string) nod.Decision {
	w.t.Helper()
	input, err := json.Marshal(map[string]string{"command": command, "description": "Add the test runner the issue asks for, then run the cart tests"})
	w.must(err)
	return w.ask(nod.Decision{Kind: nod.Approval, Cause: nod.CauseTool, Blocking: true, Subject: "Bash"}, string(input))
}

const headSHA = "77be210c5e0d4a5b8c9d0e1f2a3b4c5d6e7f8091"

// askReview adds a prepared revision with diff and asks whether to push it.
func (w *world) askReview(diff string, commits ...nod.Commit) nod.Decision {
	w.t.Helper()
	task := w.another()
	if len(commits) == 0 {
		commits = []nod.Commit{
			{SHA: "a41f09c5e0d4a5b8c9d0e1f2a3b4c5d6e7f80911", Subject: "fix(cart): apply coupon before tax", Message: "fix(cart): apply coupon before tax\n\nThe tax was computed on the full sum."},
			{SHA: headSHA, Subject: "test(cart): coupon and rounding cases", Message: "test(cart): coupon and rounding cases"},
		}
	}
	w.store.mu.Lock()
	c := w.store.cases[task.ID]
	c.Revision = &nod.Revision{SHA: headSHA, Task: task.ID, State: nod.RevisionPrepared, BaseRef: "main", BaseSHA: "0123456789abcdef0123456789abcdef01234567",
		Branch: task.Branch, Commits: commits, Files: make([]nod.FileChange, strings.Count("\n"+diff, "\ndiff --git ")), DiffDigest: nod.Digest([]byte(diff)),
		Check: nod.CheckReceipt{SHA: headSHA, Command: []string{"npm", "test"}, Duration: 41 * time.Second, Tail: "Tests 12 passed (12)\n"}}
	w.store.cases[task.ID] = c
	w.store.blobs[nod.Digest([]byte(diff))] = []byte(diff)
	w.store.mu.Unlock()
	return w.ask(nod.Decision{Kind: nod.Review, Cause: nod.CauseReadyToPush, Blocking: true, Subject: "nod/412", CommitSHA: headSHA, Task: task.ID}, diff)
}

// decision reads a decision back from the store.
func (w *world) decision(id string) nod.Decision {
	w.t.Helper()
	d, err := w.store.Decision(w.t.Context(), id)
	w.must(err)
	return d
}
