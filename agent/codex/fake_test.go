package codex

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"nod"
)

const (
	threadID = "01a22b43-3af8-77a3-a8a0-b9eac114b28b"
	turnID   = "01a22b43-3b0c-7202-acdb-f40944687615"
)

// greeting is what a program that is set up as required answers, by method.
func greeting() map[string]string {
	return map[string]string{
		"initialize":                       `{"userAgent":"nod/0.171.0 (Debian 12.0.0; x86_64) unknown (nod; 1)","codexHome":"/home/x/.codex"}`,
		"thread/start":                     `{"thread":{"id":"` + threadID + `","cliVersion":"0.171.0"},"model":"gpt-5.5","modelProvider":"nod","cwd":"/workspace","instructionSources":[],"approvalPolicy":"untrusted","approvalsReviewer":"user","sandbox":{"type":"dangerFullAccess"}}`,
		"mcpServerStatus/list":             `{"data":[],"nextCursor":null}`,
		"turn/start":                       `{"turn":{"id":"` + turnID + `","status":"inProgress","items":[]}}`,
		"turn/steer":                       `{"turnId":"` + turnID + `"}`,
		"turn/interrupt":                   `{}`,
		"thread/backgroundTerminals/clean": `{}`,
	}
}

// fake is a program in memory. It answers requests by greeting; what else the host
// writes goes to heard, and the test says its lines.
type fake struct {
	t         testing.TB
	greeting  map[string]string
	refuse    map[string]string // error message by method
	heard     chan string
	inR, outR *io.PipeReader
	inW, outW *io.PipeWriter
	errText   string
	deaf      bool        // its kill cannot be proven
	silent    atomic.Bool // it answers nothing
	setUp     int         // exit code of the making of its home
	config    string
	command   nod.Command
	ended     sync.Once
	exited    chan struct{}
	code      int
	kills     int
	writing   sync.Mutex
}

func newFake(t testing.TB) *fake {
	f := &fake{t: t, greeting: greeting(), refuse: map[string]string{}, heard: make(chan string, 100), exited: make(chan struct{})}
	f.inR, f.inW = io.Pipe()
	f.outR, f.outW = io.Pipe()
	return f
}

func (f *fake) Exec(_ context.Context, c nod.Command) (nod.Process, error) {
	if c.Argv[0] == "sh" {
		return &setUpProcess{f: f}, nil
	}
	f.command = c
	go f.serve()
	return f, nil
}

// serve answers what it is asked until its input ends; then it exits.
func (f *fake) serve() {
	defer close(f.heard)
	in := bufio.NewReader(f.inR)
	for {
		raw, err := in.ReadString('\n')
		if err != nil {
			if !f.silent.Load() {
				f.exit(0)
			}
			return
		}
		var l line
		if err := json.Unmarshal([]byte(raw), &l); err != nil {
			f.t.Errorf("the host wrote a line that is not JSON: %q", raw)
			continue
		}
		switch {
		case f.silent.Load() || l.Method == "" || !l.hasID():
		case f.refuse[l.Method] != "":
			f.say(fmt.Sprintf(`{"error":{"code":-32600,"message":%q},"id":%s}`, f.refuse[l.Method], l.ID))
		default:
			f.say(fmt.Sprintf(`{"id":%s,"result":%s}`, l.ID, f.greeting[l.Method]))
		}
		f.heard <- strings.TrimSuffix(raw, "\n") // after its answer, which comes first on the wire too
	}
}

func (f *fake) Stdin() io.WriteCloser { return f.inW }
func (f *fake) Stdout() io.Reader     { return f.outR }
func (f *fake) Stderr() io.Reader     { return strings.NewReader(f.errText) }

func (f *fake) Wait() (nod.ExitStatus, error) {
	<-f.exited
	return nod.ExitStatus{Code: f.code}, nil
}

func (f *fake) Kill(context.Context) error {
	f.kills++
	f.exit(137)
	if f.deaf {
		return errors.New("it does not answer")
	}
	return nil
}

// exit ends the program.
func (f *fake) exit(code int) {
	f.ended.Do(func() {
		f.code = code
		f.outW.Close()
		f.inR.CloseWithError(io.ErrClosedPipe)
		close(f.exited)
	})
}

func (f *fake) say(lines ...string) {
	f.writing.Lock()
	defer f.writing.Unlock()
	for _, l := range lines {
		if _, err := io.WriteString(f.outW, l+"\n"); err != nil {
			return // the host has ended the session
		}
	}
}

// told is the next line the host wrote that says method or answers a request;
// empty at the end of the input.
func (f *fake) told(want string) string {
	for l := range f.heard {
		if strings.Contains(l, want) {
			return l
		}
	}
	return ""
}

// setUpProcess makes the program's home.
type setUpProcess struct {
	f  *fake
	in strings.Builder
}

func (p *setUpProcess) Stdin() io.WriteCloser         { return p }
func (p *setUpProcess) Stdout() io.Reader             { return strings.NewReader("") }
func (p *setUpProcess) Stderr() io.Reader             { return strings.NewReader("no space\n") }
func (p *setUpProcess) Kill(context.Context) error    { return nil }
func (p *setUpProcess) Write(b []byte) (int, error)   { return p.in.Write(b) }
func (p *setUpProcess) Close() error                  { p.f.config = p.in.String(); return nil }
func (p *setUpProcess) Wait() (nod.ExitStatus, error) { return nod.ExitStatus{Code: p.f.setUp}, nil }

func config(change func(*Config)) Config {
	cfg := Config{Argv: []string{"/opt/codex"}, Env: map[string]string{"HOME": "/home/x"}, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	return cfg
}

// begin starts a session over f, whose turn has started.
func begin(t testing.TB, f *fake, approve nod.Approver, change func(*Config)) *session {
	t.Helper()
	a, err := New(config(change))
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.Start(t.Context(), f, nod.AgentSpec{Prompt: "Go.", Approve: approve})
	if err != nil {
		t.Fatal(err)
	}
	f.say(note("turn/started", `"turn":{"id":"`+turnID+`","status":"inProgress"}`))
	return s.(*session)
}

// note is a notification of the session's thread and turn.
func note(method, members string) string {
	return `{"method":"` + method + `","params":{"threadId":"` + threadID + `","turnId":"` + turnID + `",` + members + `},"emittedAtMs":1}`
}

func started(item string) string   { return note("item/started", `"item":`+item) }
func completed(item string) string { return note("item/completed", `"item":`+item) }

func command(id, text, rest string) string {
	return `{"type":"commandExecution","id":"` + id + `","command":` + quote(text) + `,"cwd":"/workspace"` + rest + `}`
}

// mayRun asks about a command.
func mayRun(request, id, text, rest string) string {
	return `{"method":"item/commandExecution/requestApproval","id":` + request + `,"params":{"kind":"command","threadId":"` + threadID + `","turnId":"` + turnID +
		`","itemId":"` + id + `","command":` + quote(text) + `,"cwd":"/workspace"` + rest + `}}`
}

func ended(status, rest string) string {
	return `{"method":"turn/completed","params":{"threadId":"` + threadID + `","turn":{"id":"` + turnID + `","status":"` + status + `"` + rest + `}}}`
}

func yes(context.Context, nod.ApprovalRequest) nod.ApprovalAnswer {
	return nod.ApprovalAnswer{Allow: true}
}

// drain reads every event to the end.
func drain(s nod.AgentSession) []nod.Event {
	var out []nod.Event
	for e := range s.Events() {
		out = append(out, e)
	}
	return out
}
