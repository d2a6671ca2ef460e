package hook_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nod"
	"nod/agent/agenttest"
	"nod/agent/hook"
	"nod/runtime/guest"
)

func TestMain(m *testing.M) {
	if guest.Dispatch(os.Args) {
		return
	}
	os.Exit(m.Run())
}

const (
	patience = 2 * time.Minute
	session  = "12345678-1234-4123-8123-123456789abc"
)

// world is a channel over host processes, with the real guest helper.
type world struct {
	t       *testing.T
	host    agenttest.Host
	socket  string
	channel *hook.Channel
	asked   chan nod.ApprovalRequest
	settled chan nod.ApprovalSettled
	ended   chan struct{}
}

func open(t *testing.T, approve nod.Approver, change func(*hook.Config)) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "nod") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	w := &world{t: t, host: agenttest.Host{Dir: dir}, socket: filepath.Join(dir, "s"), asked: make(chan nod.ApprovalRequest, 16),
		settled: make(chan nod.ApprovalSettled, 16), ended: make(chan struct{})}
	cfg := hook.Config{Socket: w.socket, Log: slog.New(slog.DiscardHandler), Approve: func(ctx context.Context, r nod.ApprovalRequest) nod.ApprovalAnswer {
		w.asked <- r
		return approve(ctx, r)
	}}
	if change != nil {
		change(&cfg)
	}
	c, err := hook.Open(t.Context(), w.host, cfg)
	if err != nil {
		t.Fatal(err)
	}
	w.channel = c
	go func() {
		defer close(w.ended)
		for e := range c.Events() {
			var s nod.ApprovalSettled
			if e.Kind == nod.EventApproval && json.Unmarshal(e.Data, &s) == nil {
				w.settled <- s
			}
		}
	}()
	t.Cleanup(w.stop)
	return w
}

func (w *world) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := w.channel.Stop(ctx); err != nil {
		w.t.Error(err)
	}
}

// client is one hook that runs.
type client struct {
	w    *world
	proc nod.Process
	said chan string
}

// run starts a hook that is told about an event.
func (w *world) run(event, sess, tool, input string) *client {
	w.t.Helper()
	return w.tell(`{"hook_event_name":"` + event + `","session_id":"` + sess + `","tool_name":"` + tool + `","tool_input":` + input + `,"tool_use_id":"c1"}`)
}

func (w *world) tell(text string) *client {
	w.t.Helper()
	p, err := w.host.Exec(w.t.Context(), nod.Command{Argv: []string{nod.GuestPath, "hook", w.socket}})
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := io.WriteString(p.Stdin(), text); err != nil {
		w.t.Fatal(err)
	}
	if err := p.Stdin().Close(); err != nil {
		w.t.Fatal(err)
	}
	c := &client{w: w, proc: p, said: make(chan string, 1)}
	go func() {
		raw, _ := io.ReadAll(p.Stdout()) // an error is the end of it
		c.said <- string(raw)
	}()
	w.t.Cleanup(func() { c.kill() })
	return c
}

func (c *client) kill() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := c.proc.Kill(ctx); err != nil {
		c.w.t.Error(err)
	}
}

func wait[T any](t *testing.T, what string, from <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatalf("waited too long for %s", what)
	}
	return v
}

// says waits for the end of the hook and what it told the program.
func (c *client) says(want string) {
	c.w.t.Helper()
	got := wait(c.w.t, "the hook to end", c.said)
	if want == "" && got != "" || !strings.Contains(got, want) || want != "" && !json.Valid([]byte(got)) {
		c.w.t.Errorf("the program was told %q, wants %q", got, want)
	}
}

func (w *world) comes(want string) {
	w.t.Helper()
	if got := wait(w.t, "the prompt to be settled", w.settled); got.Outcome != want {
		w.t.Errorf("the prompt is %+v, wants %s", got, want)
	}
}

// held waits until its prompt is withdrawn and would allow it then.
func held(ctx context.Context, _ nod.ApprovalRequest) nod.ApprovalAnswer {
	<-ctx.Done()
	return nod.ApprovalAnswer{Allow: true}
}

func TestAHookIsAnsweredOnce(t *testing.T) {
	for name, c := range map[string]struct {
		answer        nod.ApprovalAnswer
		want, outcome string
	}{
		"allow": {nod.ApprovalAnswer{Allow: true}, `{"hookSpecificOutput":{"decision":{"behavior":"allow","updatedInput":{"command":"echo 'ü' > <f> && x"}},"hookEventName":"PermissionRequest"}}`, nod.SettledAllowed},
		"deny":  {nod.ApprovalAnswer{Reason: "not now"}, `"behavior":"deny","message":"Denied: not now"`, nod.SettledDenied},
		"zero":  {nod.ApprovalAnswer{}, `"behavior":"deny"`, nod.SettledDenied},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t, func(context.Context, nod.ApprovalRequest) nod.ApprovalAnswer { return c.answer }, nil)
			h := w.run("PermissionRequest", session, "Bash", `{"command":"echo 'ü' > <f> && x"}`)
			if r := wait(t, "the prompt", w.asked); r.Tool != "Bash" || string(r.Input) != `{"command":"echo 'ü' > <f> && x"}` || r.CallID != "c1" {
				t.Errorf("asked %+v", r)
			}
			w.comes(c.outcome)
			h.says(c.want)
		})
	}
}

func TestAHookThatIsGoneWithdrawsItsPrompt(t *testing.T) {
	t.Parallel()
	w := open(t, held, nil)
	h := w.run("PermissionRequest", session, "Bash", `{"command":"x"}`)
	wait(t, "the prompt", w.asked)
	h.kill()
	w.comes(nod.SettledWithdrawn)
	// The channel lives on, and the late allow went nowhere.
	again := w.run("PostToolUse", session, "Bash", `{"command":"y"}`)
	again.says("")
}

func TestAPromptNobodyAnswersIsDenied(t *testing.T) {
	t.Parallel()
	w := open(t, held, func(c *hook.Config) { c.Deadline = 300 * time.Millisecond })
	h := w.run("PermissionRequest", session, "Bash", `{"command":"x"}`)
	w.comes(nod.SettledDenied)
	h.says("deadline")
}

// What ran was answered at the terminal; the same use in another session was not.
func TestAnAnswerAtTheTerminalWithdrawsThePrompt(t *testing.T) {
	t.Parallel()
	w := open(t, held, nil)
	const other = "22222222-1234-4123-8123-123456789abc"
	mine, theirs := w.run("PermissionRequest", session, "Bash", `{"command":"x","timeout":1}`), w.run("PermissionRequest", other, "Bash", `{"command":"x","timeout":1}`)
	wait(t, "a prompt", w.asked)
	wait(t, "a prompt", w.asked)
	for _, result := range []string{`{"command":"x"}`, `{"command":"x","timeout":1.0}`} {
		w.run("PostToolUse", session, "Bash", result).says("")
	}
	w.run("PostToolUse", session, "Write", `{"command":"x","timeout":1}`).says("")
	select {
	case s := <-w.settled:
		t.Fatalf("another use settled it: %+v", s)
	default:
	}
	w.run("PostToolUse", session, "Bash", `{ "timeout": 1, "command": "x" }`).says("")
	w.comes(nod.SettledWithdrawn)
	mine.says("")
	w.run("Stop", other, "", `{}`).says("") // the turn is over
	w.comes(nod.SettledWithdrawn)
	theirs.says("")
}

func TestAChannelThatEndsLetsItsHooksGo(t *testing.T) {
	t.Parallel()
	w := open(t, held, nil)
	h := w.run("PermissionRequest", session, "Bash", `{"command":"x"}`)
	wait(t, "the prompt", w.asked)
	w.stop()
	w.comes(nod.SettledWithdrawn)
	h.says("")
	wait(t, "the events to end", w.ended)
	late := w.run("PermissionRequest", session, "Bash", `{"command":"x"}`)
	late.says("")
	if status, err := late.proc.Wait(); err != nil || status.Code != 1 {
		t.Errorf("%+v, %v: a hook without a channel is an error that blocks nothing", status, err)
	}
}

func TestWhatIsNoPromptIsNotPutToAnybody(t *testing.T) {
	t.Parallel()
	w := open(t, func(context.Context, nod.ApprovalRequest) nod.ApprovalAnswer { return nod.ApprovalAnswer{Allow: true} }, nil)
	w.run("PermissionRequest", session, "Bash", `[1]`).says(`"behavior":"deny"`)
	w.run("PermissionRequest", session, "", `{}`).says(`"behavior":"deny"`)
	w.run("PermissionRequest", session, "AskUserQuestion", `{}`).says("")
	w.tell(`7`).says("")
	w.tell(`{"hook_event_name":"FromTheFuture"}`).says("")
	w.tell(`not json`).says("")
	select {
	case r := <-w.asked:
		t.Errorf("asked %+v", r)
	default:
	}
}

func TestTheSettingsNameTheHookAndNothingWider(t *testing.T) {
	t.Parallel()
	w := open(t, held, nil)
	raw, err := w.channel.Settings()
	if err != nil {
		t.Fatal(err)
	}
	var s struct {
		Hooks map[string][]struct {
			Hooks []struct {
				Type, Command string
				Timeout       int
			}
		}
		Permissions map[string]any
	}
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		t.Fatal(err)
	}
	ask := s.Hooks["PermissionRequest"]
	if len(ask) != 1 || ask[0].Hooks[0].Command != nod.GuestPath+" hook '"+w.socket+"'" || ask[0].Hooks[0].Timeout != 630 {
		t.Errorf("%s", raw)
	}
	if _, ok := s.Permissions["allow"]; ok || s.Permissions["defaultMode"] != "default" {
		t.Errorf("%s", raw)
	}
}

func TestAChannelThatCannotWorkIsRefused(t *testing.T) {
	yes := func(context.Context, nod.ApprovalRequest) nod.ApprovalAnswer { return nod.ApprovalAnswer{Allow: true} }
	log := slog.New(slog.DiscardHandler)
	for name, cfg := range map[string]hook.Config{"no approver": {Log: log}, "no log": {Approve: yes}, "relative": {Approve: yes, Log: log, Socket: "s"},
		"long": {Approve: yes, Log: log, Socket: "/" + strings.Repeat("x", 101)}, "negative": {Approve: yes, Log: log, Deadline: -1}} {
		if _, err := hook.Open(t.Context(), agenttest.Host{Dir: t.TempDir()}, cfg); nod.CodeOf(err) != nod.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := hook.Open(t.Context(), agenttest.Host{Dir: t.TempDir()}, hook.Config{Approve: yes, Log: log, Socket: "/nowhere/at/all"}); nod.CodeOf(err) != nod.Unavailable {
		t.Errorf("%v", err)
	}
}

// FuzzAnswer holds of any input that an agent can ask about: the answer is one line
// of JSON that gives back what was asked.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{`{"command":"<&> \u2028"}`, `{"a":1.0,"b":[null,{}]}`, `[]`, `x`, ``} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		hook.CheckAnswer(t, input)
	})
}
