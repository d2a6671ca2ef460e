package claude

import (
	"context"

	"nod"
	"nod/agent"
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
	if !a.cfg.KeepHome {
		if err := agent.SetUp(ctx, ex, command.Env, prepare, "", a.cfg.Limits); err != nil {
			return nil, err
		}
	}
	var s *session
	err = agent.Launch(ctx, ex, command, func(p nod.Process) *agent.Live {
		s = newSession(a.cfg, spec, p)
		return s.Live
	}, func(ctx context.Context) error { return s.open(ctx) })
	if err != nil {
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
	s.Send(hello)
	if err := s.Until(ctx, s.initialized); err != nil {
		return err
	}
	if err := s.Instruct(ctx, s.spec.Prompt); err != nil {
		return err
	}
	return s.Until(ctx, s.opened)
}

// check compares what the program says about itself with what was asked for. An
// error means that something else configured it.
func (s *session) check(l line) error {
	refuse := func(what string) error {
		return &nod.Error{Code: nod.Unsupported, Msg: "the agent " + what, Hint: "only nod may configure the agent; see its settings and version"}
	}
	if !agent.AtLeast(l.Version, s.cfg.MinVersion) {
		return refuse("is older than " + s.cfg.MinVersion + " or does not tell its version")
	}
	if l.Session == "" || s.spec.Session != "" && l.Session != s.spec.Session {
		return refuse("opened another session than it was asked to resume")
	}
	if l.Mode != "default" && l.Mode != "plan" { // of the two the second allows less
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
			return refuse("has a tool that was not configured: " + agent.Clean(t, 40))
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
