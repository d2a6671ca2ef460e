//go:build linux

package scenarios

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"nod"
	"nod/agent"
	"nod/agent/agenttest/modelserver"
)

const (
	patience  = 2 * time.Minute // of every wait; seconds when nothing else runs
	modelHost = "model.test"
	evilHost  = "evil.test"
)

// scene is one scenario while it plays.
type scene struct {
	*box
	program Program
	model   *modelserver.Server
	evil    *modelserver.Server
	options Options
}

// adapter makes the adapter with options.
func (w *scene) adapter() agent.Adapter {
	w.t.Helper()
	a, err := w.program.Adapter(w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// life is one session of a scene.
type life struct {
	nod.AgentSession
	w       *scene
	mu      sync.Mutex
	asked   []nod.ApprovalRequest
	events  []nod.Event
	on      func(nod.Event)
	drained chan struct{}
}

// begin starts a session; session resumes one. approve is called with the number
// of the prompt, from 0.
func (w *scene) begin(ex nod.Executor, session string, approve func(ctx context.Context, n int, r nod.ApprovalRequest) nod.ApprovalAnswer, on func(nod.Event)) *life {
	w.t.Helper()
	l := &life{w: w, on: on, drained: make(chan struct{})}
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	s, err := w.adapter().Start(ctx, ex, nod.AgentSpec{Prompt: "Please do it.", Session: session, Approve: func(ctx context.Context, r nod.ApprovalRequest) nod.ApprovalAnswer {
		l.mu.Lock()
		n := len(l.asked)
		l.asked = append(l.asked, r)
		l.mu.Unlock()
		return approve(ctx, n, r)
	}})
	if err != nil {
		w.t.Fatalf("start: %v: %v", err, errors.Unwrap(err))
	}
	l.AgentSession = s
	go func() {
		defer close(l.drained)
		for e := range s.Events() {
			l.mu.Lock()
			l.events = append(l.events, e)
			l.mu.Unlock()
			if l.on != nil {
				l.on(e)
			}
		}
	}()
	w.t.Cleanup(func() { l.stop() })
	return l
}

// play starts a session and waits for its end.
func (w *scene) play(approve func(ctx context.Context, n int, r nod.ApprovalRequest) nod.ApprovalAnswer) (*life, nod.Result) {
	w.t.Helper()
	l := w.begin(w.box, "", approve, nil)
	r, err := l.end()
	if err != nil {
		w.t.Errorf("wait: %v", err)
	}
	return l, r
}

func (l *life) stop() {
	l.w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := l.Stop(ctx); err != nil {
		l.w.t.Errorf("stop: %v", err)
	}
}

// end waits for the session's end: nothing of it is left, and what ran had been
// allowed.
func (l *life) end() (nod.Result, error) {
	l.w.t.Helper()
	within(l.w.t, "the session to end", l.drained)
	r, err := l.Wait()
	l.w.empty()
	allowed := map[string]bool{}
	for _, a := range all[nod.ApprovalSettled](l, nod.EventApproval) {
		allowed[a.CallID] = allowed[a.CallID] || a.Outcome == nod.SettledAllowed
	}
	for _, got := range all[nod.ToolResult](l, nod.EventToolResult) {
		if !got.IsError && !allowed[got.ID] {
			l.w.t.Errorf("call %s ran and nobody had allowed it: %.200s", got.ID, got.Text)
		}
	}
	if l.w.t.Failed() {
		for _, e := range l.events {
			l.w.t.Logf("%s %.300s", e.Kind, e.Data)
		}
		l.w.t.Logf("%+v, %v; the proxy: %v", r, err, l.w.verdicts())
	}
	return r, err
}

// all decodes the events of one kind.
func all[T any](l *life, kind nod.EventKind) []T {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []T
	for _, e := range l.events {
		var v T
		if e.Kind != kind {
			continue
		}
		if err := json.Unmarshal(e.Data, &v); err != nil {
			l.w.t.Errorf("%s: %v", kind, err)
		}
		out = append(out, v)
	}
	return out
}

func within(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		t.Fatalf("waited too long for %s", what)
	}
}

func yes(context.Context, int, nod.ApprovalRequest) nod.ApprovalAnswer {
	return nod.ApprovalAnswer{Allow: true}
}

// held is an approver that says when it is asked first and would allow once its
// prompt is withdrawn.
func held() (approve func(context.Context, int, nod.ApprovalRequest) nod.ApprovalAnswer, asked, withdrawn chan struct{}) {
	asked, withdrawn = make(chan struct{}), make(chan struct{})
	return func(ctx context.Context, n int, _ nod.ApprovalRequest) nod.ApprovalAnswer {
		if n == 0 {
			close(asked)
		}
		<-ctx.Done()
		if n == 0 {
			close(withdrawn)
		}
		return nod.ApprovalAnswer{Allow: true}
	}, asked, withdrawn
}

// up is a command that leaves a process that made itself independent, says that it
// runs by writing "up" into up.fifo, and then does not end.
const up = `setsid sh -c 'trap "" HUP TERM INT; exec tail -f /dev/null' > /dev/null 2>&1 < /dev/null &
(env -i /usr/bin/setsid /usr/bin/tail -f /dev/null > /dev/null 2>&1 < /dev/null &) ; echo up > up.fifo; tail -f /dev/null; printf done > done.txt`

// rises makes up.fifo and waits until something is written there.
func (w *scene) rises() chan struct{} {
	w.t.Helper()
	path := filepath.Join(w.Workspace, "up.fifo")
	if err := mkfifo(path); err != nil {
		w.t.Fatal(err)
	}
	risen := make(chan struct{})
	go func() {
		if raw, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(raw)) == "up" {
			close(risen)
		}
	}()
	return risen
}

// heard reports whether the model was told words, and how often it was asked.
func (w *scene) heard(words string) (bool, int) {
	got := false
	for _, q := range w.model.Requests() {
		got = got || q.Main && bytes.Contains(q.Body, []byte(words))
	}
	return got, w.model.MainRequests()
}

// file fails the test unless a file of the workspace has that content; "" for none.
func (w *scene) file(name, want string) {
	w.t.Helper()
	if got := w.read(name); got != want {
		w.t.Errorf("%s is %.80q, wants %.80q", name, got, want)
	}
}

// ends fails the test unless r is what is wanted: a reason, or none for a success.
func (w *scene) ends(r nod.Result, reason string) {
	w.t.Helper()
	if r.OK != (reason == "") || r.Reason != reason {
		w.t.Errorf("it ended with %+v, wants %q", r, reason)
	}
}

// resume goes on with a session to its end.
func (w *scene) resume(session string) {
	w.t.Helper()
	w.goOn(session, resumed)
	w.file("resumed.txt", "ok")
}

// goOn resumes a session for a turn that ends with these words.
func (w *scene) goOn(session, words string) {
	w.t.Helper()
	l := w.begin(w.box, session, yes, nil)
	r, err := l.end()
	if err != nil || !r.OK || r.Text != words || l.ID() != session {
		w.t.Errorf("resumed %s as %s: %+v, %v", session, l.ID(), r, err)
	}
}

const resumed = "Resumed and done."

// after are the model's steps for a session that is resumed.
func after() []Step { return []Step{{Bash: []string{"printf ok > resumed.txt"}}, {Say: resumed}} }

func once(commands ...string) []Step { return []Step{{Bash: commands}, {Say: "Done."}} }

func (p place) options(l agent.Limits) Options {
	return Options{Program: p.Program, URL: p.URL, CA: "/opt/trust/ca.pem", Limits: l}
}

func id(n int64) string { return fmt.Sprintf("e%d", n) }
