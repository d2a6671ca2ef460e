package claude

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"nod"
)

const (
	sessionID = "12345678-1234-4123-8123-123456789abc"
	helloLine = `{"type":"control_response","response":{"subtype":"success","request_id":"nod-initialize","response":{"claude_code_version":"2.1.332"}}}`
	initLine  = `{"type":"system","subtype":"init","session_id":"` + sessionID + `","tools":["Bash","Write","Task","TaskStop"],"mcp_servers":[],"slash_commands":[],"skills":[],"plugins":[{"path":"builtin"}],"model":"m","permissionMode":"default","claude_code_version":"2.1.332"}`
)

// fake is a program in memory: the test reads what it is told and says its lines.
type fake struct {
	t         testing.TB
	in        *bufio.Reader // what the host writes
	inR, outR *io.PipeReader
	inW, outW *io.PipeWriter
	errText   string
	deaf      bool // its kill cannot be proven
	code      int  // exit code
	command   nod.Command
	ended     sync.Once
	exited    chan struct{}
	kills     int
}

func newFake(t testing.TB) *fake {
	f := &fake{t: t, exited: make(chan struct{})}
	f.inR, f.inW = io.Pipe()
	f.outR, f.outW = io.Pipe()
	f.in = bufio.NewReader(f.inR)
	return f
}

func (f *fake) Exec(_ context.Context, c nod.Command) (nod.Process, error) {
	f.command = c
	return f, nil
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
	for _, l := range lines {
		if _, err := io.WriteString(f.outW, l+"\n"); err != nil {
			return // the host has ended the session
		}
	}
}

// told is the next line the host wrote; empty at the end of the input.
func (f *fake) told() string {
	raw, err := f.in.ReadString('\n')
	if err != nil {
		return ""
	}
	if !json.Valid([]byte(raw)) {
		f.t.Errorf("the host wrote a line that is not JSON: %q", raw)
	}
	return strings.TrimSuffix(raw, "\n")
}

// greet plays the program's part of the handshake.
func (f *fake) greet() (prompt string) {
	f.told()
	f.say(helloLine)
	prompt = f.told()
	f.say(initLine)
	return prompt
}

func config(change func(*Config)) Config {
	cfg := Config{KeepHome: true, Argv: []string{"/opt/claude"}, Env: map[string]string{"HOME": "/home/x"}, Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&cfg)
	}
	return cfg
}

// begin starts a session over f, whose part is played by the greeting.
func begin(t testing.TB, f *fake, approve nod.Approver, change func(*Config)) *session {
	t.Helper()
	a, err := New(config(change))
	if err != nil {
		t.Fatal(err)
	}
	go f.greet()
	s, err := a.Start(t.Context(), f, nod.AgentSpec{Prompt: "Go.", Approve: approve})
	if err != nil {
		t.Fatal(err)
	}
	return s.(*session)
}

func canUse(id, tool, input string) string {
	return `{"type":"control_request","request_id":"` + id + `","request":{"subtype":"can_use_tool","tool_name":"` + tool + `","input":` + input + `,"tool_use_id":"t-` + id + `"}}`
}

func result(subtype string, isError bool, extra string) string {
	raw, _ := json.Marshal(isError)
	return `{"type":"result","subtype":"` + subtype + `","is_error":` + string(raw) + `,"num_turns":1,"total_cost_usd":0.5,"usage":{"input_tokens":3,"output_tokens":4}` + extra + `}`
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
