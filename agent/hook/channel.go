package hook

import (
	"context"
	"encoding/json"
	"log/slog"
	"path"
	"strconv"
	"sync"
	"time"

	"nod"
	"nod/agent"
)

const (
	roleHooks = "hooks" // of the guest helper
	roleHook  = "hook"

	// forever is longer than any terminal is open.
	forever = 50 * 365 * 24 * time.Hour
	// slack is how much longer than the deadline the program waits for its hook, so
	// that it is the deadline that ends the wait.
	slack = 30 * time.Second
)

// Config configures a Channel.
type Config struct {
	// Approve judges the prompts. Required.
	Approve nod.Approver
	// Socket is the path, inside the environment, of the socket that hooks connect
	// to; /tmp/nod-hook when empty.
	Socket string
	// Deadline denies a prompt that was not answered by then; nod.ApprovalDeadline
	// when 0.
	Deadline time.Duration
	// Limits are the time limits of starting and ending; TurnTimeout has no meaning.
	agent.Limits
	// Log gets state changes, never content. Required.
	Log *slog.Logger
}

// Channel serves the hooks of one environment. Its Events tell what came of each
// prompt; they must be drained until closed.
type Channel struct {
	*agent.Live
	cfg   Config
	ready chan struct{}

	mu      sync.Mutex
	waiting map[string]use // by the id of the prompt
}

// use is what a prompt is about, as its result will say again.
type use struct{ session, tool, digest string }

// line is one line of the guest helper, both ways.
type line struct {
	N      uint64          `json:"n"`
	Hook   json.RawMessage `json:"hook,omitempty"`
	Gone   bool            `json:"gone,omitempty"`
	Answer json.RawMessage `json:"answer,omitempty"`
}

// told is what the program tells a hook.
type told struct {
	Event   string          `json:"hook_event_name"`
	Session string          `json:"session_id"`
	Tool    string          `json:"tool_name"`
	Input   json.RawMessage `json:"tool_input"`
	CallID  string          `json:"tool_use_id"`
}

// Open starts the channel in an environment. ctx bounds the start only. When it
// fails no process of it is left, or the error says so.
func Open(ctx context.Context, ex nod.Executor, cfg Config) (*Channel, error) {
	if cfg.Socket == "" {
		cfg.Socket = "/tmp/nod-hook"
	}
	if cfg.Deadline == 0 {
		cfg.Deadline = nod.ApprovalDeadline
	}
	switch {
	case cfg.Approve == nil:
		return nil, nod.E(nod.Invalid, "hooks cannot be served without an approver", nil)
	case cfg.Log == nil:
		return nil, nod.E(nod.Invalid, "hooks cannot be served without a log", nil)
	case !path.IsAbs(cfg.Socket) || path.Clean(cfg.Socket) != cfg.Socket || len(cfg.Socket) > 100:
		return nil, nod.E(nod.Invalid, "the socket of the hooks is not a clean absolute path of at most 100 bytes", nil)
	case cfg.Deadline < 0:
		return nil, nod.E(nod.Invalid, "the deadline of the hooks is negative", nil)
	}
	cfg.TurnTimeout = forever
	if err := cfg.Fill(); err != nil {
		return nil, err
	}
	c := &Channel{cfg: cfg, ready: make(chan struct{}), waiting: map[string]use{}}
	err := agent.Launch(ctx, ex, nod.Command{Argv: []string{nod.GuestPath, roleHooks, cfg.Socket}, Env: map[string]string{"PATH": "/usr/bin:/bin"}}, func(p nod.Process) *agent.Live {
		c.Live = agent.NewLive("hooks", cfg.Limits, cfg.Log, c.approve, p, c)
		return c.Live
	}, func(ctx context.Context) error { return c.Until(ctx, c.ready) })
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Settings is what the program is started with, as its --settings, so that it asks
// this channel: in the mode in which a person allows, not a model, and without a
// rule to ask, which would go before what a hook allows. It begins to ask at its terminal again where the channel is gone.
func (c *Channel) Settings() (string, error) {
	run := func(timeout time.Duration) any {
		return []any{map[string]any{"matcher": "", "hooks": []any{map[string]any{
			"type": "command", "command": nod.GuestPath + " " + roleHook + " " + quote(c.cfg.Socket), "timeout": int(timeout / time.Second)}}}}
	}
	hooks := map[string]any{"PermissionRequest": run(c.cfg.Deadline + slack)}
	for _, event := range []string{"PostToolUse", "PostToolUseFailure", "Stop", "UserPromptSubmit", "SessionEnd"} {
		hooks[event] = run(slack)
	}
	raw, err := json.Marshal(map[string]any{"hooks": hooks, "permissions": map[string]any{"defaultMode": "default"}})
	if err != nil {
		return "", nod.E(nod.Internal, "the settings of the hooks have no JSON form", err)
	}
	return string(raw), nil
}

// approve puts the deadline to a prompt.
func (c *Channel) approve(ctx context.Context, r nod.ApprovalRequest) nod.ApprovalAnswer {
	late, cancel := context.WithTimeout(ctx, c.cfg.Deadline)
	defer cancel()
	a := c.cfg.Approve(late, r)
	if late.Err() != nil {
		return nod.ApprovalAnswer{Reason: "nobody answered before the deadline"}
	}
	return a
}

// Line handles one line of the guest helper.
func (c *Channel) Line(raw []byte) bool {
	var l line
	if json.Unmarshal(raw, &l) != nil {
		return false
	}
	id := strconv.FormatUint(l.N, 10)
	switch {
	case l.N == 0:
		if !c.State().Open {
			c.Change(func(s *agent.State) { s.Open = true })
			close(c.ready)
		}
	case l.Gone:
		c.forget(func(i string, _ use) bool { return i == id })
	case len(l.Hook) > 0:
		c.hook(id, l.N, l.Hook)
	}
	return true
}

// hook handles what one hook was told.
func (c *Channel) hook(id string, n uint64, raw json.RawMessage) {
	var t told
	if json.Unmarshal(raw, &t) != nil {
		c.reply(n, nil)
		return
	}
	about := use{t.Session, t.Tool, nod.Digest(canonical(t.Input))}
	switch t.Event {
	case "PermissionRequest":
		if t.Tool == "" || len(t.Input) == 0 || t.Input[0] != '{' {
			c.reply(n, decision(nod.ApprovalAnswer{Reason: "the request does not say what would run"}, nil))
			return
		}
		c.ask(id, n, about, t)
		return
	case "PostToolUse", "PostToolUseFailure":
		// It ran: whoever sits at the terminal has answered.
		c.forget(func(_ string, u use) bool { return u == about })
	case "Stop", "UserPromptSubmit", "SessionEnd":
		c.forget(func(_ string, u use) bool { return u.session == t.Session })
	}
	c.reply(n, nil)
}

// ask puts a prompt to the approver. Questions and plans are left to the terminal,
// which has a form for them.
func (c *Channel) ask(id string, n uint64, about use, t told) {
	if t.Tool == "AskUserQuestion" || t.Tool == "ExitPlanMode" {
		c.reply(n, nil)
		return
	}
	c.mu.Lock()
	c.waiting[id] = about
	c.mu.Unlock()
	r := nod.ApprovalRequest{ID: id, CallID: t.CallID, Tool: t.Tool, Input: t.Input}
	c.Ask(r, t.Session, func(a nod.ApprovalAnswer) {
		c.mu.Lock()
		delete(c.waiting, id)
		c.mu.Unlock()
		c.reply(n, decision(a, t.Input))
	})
}

// forget withdraws the prompts that match and lets their hooks go.
func (c *Channel) forget(match func(id string, u use) bool) {
	c.mu.Lock()
	var ids []string
	for id, u := range c.waiting {
		if match(id, u) {
			ids = append(ids, id)
			delete(c.waiting, id)
		}
	}
	c.mu.Unlock()
	for _, id := range ids {
		c.Withdraw(id)
		if n, err := strconv.ParseUint(id, 10, 64); err == nil {
			c.reply(n, nil)
		}
	}
}

// reply answers a hook once; nil lets it go without an answer.
func (c *Channel) reply(n uint64, answer json.RawMessage) {
	raw, err := encode(line{N: n, Answer: answer})
	if err != nil {
		c.Fail(nod.E(nod.Internal, "an answer to a hook has no JSON form", err))
		return
	}
	c.Send(append(raw, '\n'))
}

// Interrupt ends no turn: the channel has none.
func (c *Channel) Interrupt() []byte {
	c.Change(func(s *agent.State) { s.Idle = true })
	return nil
}

// Over has nothing to say.
func (c *Channel) Over() {}
