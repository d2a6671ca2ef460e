package answer_test

import (
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"nod"
	"nod/notify/answer"
	"nod/notify/answer/answertest"
	"nod/store"
)

// real is the page over the real store, served on loopback.
type real struct {
	*testing.T
	*store.Store
	page *answer.Server
	url  string
	n    int
}

func verifySigned(d nod.Decision, a nod.Answer, as nod.Assertion) error {
	a.Assertion = &as
	return answer.VerifyAssertion(d, a)
}

func newReal(t *testing.T) *real {
	t.Helper()
	w := &real{T: t}
	var err error
	w.Store, err = store.Open(t.Context(), store.Config{Path: filepath.Join(t.TempDir(), "nod.db"), VerifyAssertion: verifySigned, VerifyAct: answer.VerifyAct})
	w.must(err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	w.must(err)
	w.url = fmt.Sprintf("http://localhost:%d", listener.Addr().(*net.TCPAddr).Port)
	w.page, err = answer.New(answer.Config{Decisions: w.Store, Witness: w.Store, Streams: w.Store, Passkeys: w.Store, Sessions: w.Store, Acts: w.Store,
		PublicURL: w.url, Log: slog.New(slog.DiscardHandler)})
	w.must(err)
	srv := httptest.NewUnstartedServer(w.page)
	w.must(srv.Listener.Close())
	srv.Listener = listener
	srv.Start()
	t.Cleanup(func() {
		w.page.Close()
		srv.Close()
		w.must(w.Store.Close())
	})
	return w
}

func (w *real) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *real) id(prefix string) string {
	w.n++
	return fmt.Sprintf("%s%032x", prefix, w.n)
}

func (w *real) client() *answertest.Client {
	w.Helper()
	c, err := answertest.NewClient(w.url, dial)
	w.must(err)
	return c
}

// approver is a client that is enrolled and signed in.
func (w *real) approver(name string, repos ...string) *answertest.Client {
	w.Helper()
	token := w.id("token")
	w.must(w.CreateEnrolment(w.Context(), nod.Enrolment{TokenDigest: nod.Digest([]byte(token)), Name: name, Repos: repos, ExpiresAt: time.Now().Add(time.Minute)}))
	c := w.client()
	w.must(c.Enrol(w.Context(), w.url+"/enrol/"+token))
	w.must(c.SignIn(w.Context()))
	return c
}

func (w *real) apply(c nod.Change) {
	w.Helper()
	c.By = nod.Supervisor()
	w.must(w.Apply(w.Context(), &c))
}

// task stores a queued task of an issue of its own.
func (w *real) task() *nod.Task {
	w.Helper()
	w.n++
	t := &nod.Task{ID: fmt.Sprintf("t%016x", w.n), Repo: nod.Repo{Host: "github.com", Owner: "acme", Name: "web"}, Issue: w.n,
		Title: "Cart total ignores the coupon", State: nod.TaskQueued, Agent: "claude", BaseRef: "main", Branch: fmt.Sprintf("nod/%d", w.n)}
	w.apply(nod.Change{Tasks: []*nod.Task{t}})
	return t
}

// ask stores an open decision about input.
func (w *real) ask(task string, d nod.Decision, input string) nod.Decision {
	w.Helper()
	d.ID, d.Task, d.State = w.id("d"), task, nod.DecisionOpen
	d.SetInput(input)
	if d.Kind == nod.Approval && d.Deadline.IsZero() {
		d.Deadline = time.Now().Add(nod.ApprovalDeadline)
	}
	w.apply(nod.Change{Decisions: []*nod.Decision{&d}, Blobs: [][]byte{[]byte(input)}})
	return d
}

func (w *real) askBash(task, command string) nod.Decision {
	w.Helper()
	return w.ask(task, nod.Decision{Kind: nod.Approval, Cause: nod.CauseTool, Subject: "Bash"}, fmt.Sprintf(`{"command":%q}`, command))
}
