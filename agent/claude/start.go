package claude

import (
	"context"
	"time"

	"nod"
)

// Start starts the program, checks what it says about itself and sends the
// prompt. It returns once the session is open, which the program says before it
// calls the model. When it fails, no process is left, or the error says so.
//
// Errors: Unsupported for a version or a setup that is not as required, NotFound
// when the program no longer knows spec.Session, Unavailable for the rest.
func (a *Adapter) Start(ctx context.Context, ex nod.Executor, spec nod.AgentSpec) (nod.AgentSession, error) {
	if spec.Approve == nil {
		return nil, nod.E(nod.Invalid, "an agent cannot start without an approver", nil)
	}
	if spec.Prompt == "" {
		return nil, nod.E(nod.Invalid, "an agent cannot start without a prompt", nil)
	}
	command, err := a.cfg.command(spec)
	if err != nil {
		return nil, err
	}
	// ctx bounds the start. What it starts lives on when the caller ends ctx.
	alive, cancel := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, cancel)
	defer detach()
	proc, err := ex.Exec(alive, command)
	if err != nil {
		cancel()
		return nil, nod.E(nod.Unavailable, "the agent's program could not be started", err)
	}
	s := newSession(a.cfg, spec, proc)
	context.AfterFunc(s.ended, cancel)
	s.run()
	if err := s.open(ctx); err != nil {
		s.abandon() // nobody reads the events of a session that did not open
		s.fail(err)
		<-s.done
		if s.err != nil {
			return nil, s.err
		}
		return nil, err
	}
	return s, nil
}

// open does the handshake: initialize, its answer, the prompt, system/init.
func (s *session) open(ctx context.Context) error {
	hello, err := controlRequest(initializeID, map[string]any{"subtype": "initialize", "hooks": nil})
	if err != nil {
		return err
	}
	s.send(hello)
	if err := s.until(ctx, s.initialized); err != nil {
		return err
	}
	if err := s.say(ctx, s.spec.Prompt); err != nil {
		return err
	}
	return s.until(ctx, s.opened)
}

// until waits for a step of the handshake. The time limit is conduct's.
func (s *session) until(ctx context.Context, step <-chan struct{}) error {
	select {
	case <-step:
		return nil
	case <-s.done:
		return nod.E(nod.Unavailable, "the agent's program ended before its session was open", nil)
	case <-ctx.Done():
		return nod.E(nod.Unavailable, "the start of the agent was called off", context.Cause(ctx))
	}
}

// check compares what the program says about itself with what was asked for. An
// error means that something else configured it.
func (s *session) check(l line) error {
	refuse := func(what string) error {
		return &nod.Error{Code: nod.Unsupported, Msg: "the agent " + what, Hint: "only nod may configure the agent; see its settings and version"}
	}
	if !atLeast(l.Version, s.cfg.MinVersion) {
		return refuse("is older than " + s.cfg.MinVersion + " or does not tell its version")
	}
	if l.Session == "" || s.spec.Session != "" && l.Session != s.spec.Session {
		return refuse("opened another session than it was asked to resume")
	}
	if l.Mode != "default" {
		return refuse("is not in its default permission mode")
	}
	if l.MCPServers == nil || len(*l.MCPServers) > 0 {
		return refuse("has MCP servers that were not configured, or does not tell")
	}
	if l.SlashCommands == nil || len(*l.SlashCommands) > 0 {
		return refuse("has slash commands that were not configured, or does not tell")
	}
	if l.Skills == nil || len(*l.Skills) > 0 {
		return refuse("has skills that were not configured, or does not tell")
	}
	for _, p := range l.Plugins {
		if p.Path != "builtin" {
			return refuse("has plugins that were not configured")
		}
	}
	if l.Tools == nil {
		return refuse("does not tell its tools")
	}
	for _, t := range *l.Tools {
		if !s.cfg.offers(t) {
			return refuse("has a tool that was not configured: " + clean(t, 40))
		}
	}
	return nil
}

// offers reports whether a session may have the tool.
func (c Config) offers(tool string) bool {
	for _, t := range c.Tools {
		if t == tool {
			return true
		}
		for _, i := range implied[t] {
			if i == tool {
				return true
			}
		}
	}
	return false
}

// clean is the start of s, at most n bytes, with nothing that moves a cursor.
func clean(s string, n int) string {
	out := []rune{}
	for i, r := range s {
		if i >= n {
			break
		}
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			r = ' '
		}
		out = append(out, r)
	}
	return string(out)
}

func now() time.Time { return time.Now().UTC() }
