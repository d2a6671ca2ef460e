package codex

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"nod"
	"nod/agent"
)

// Start makes the program's home, starts it, checks what it says about itself and
// sends the prompt. It returns once the program has taken that. When it fails, no
// process is left, or the error says so.
//
// Errors: Unsupported for a version or a setup that is not as required, NotFound
// when the program no longer knows spec.Session, Unavailable for the rest.
func (a *Adapter) Start(ctx context.Context, ex nod.Executor, spec nod.AgentSpec) (nod.AgentSession, error) {
	env, err := a.cfg.setUp(ctx, ex, spec)
	if err != nil {
		return nil, err
	}
	var s *session
	err = agent.Launch(ctx, ex, a.cfg.command(env), func(p nod.Process) *agent.Live {
		s = newSession(a.cfg, spec, p)
		return s.Live
	}, func(ctx context.Context) error { return s.open(ctx) })
	if err != nil {
		return nil, err
	}
	return s, nil
}

// setUp checks spec and makes the program's home. It returns the program's variables.
func (c Config) setUp(ctx context.Context, ex nod.Executor, spec nod.AgentSpec) (map[string]string, error) {
	switch {
	case spec.Approve == nil:
		return nil, nod.E(nod.Invalid, "an agent cannot start without an approver", nil)
	case spec.Prompt == "":
		return nil, nod.E(nod.Invalid, "an agent cannot start without a prompt", nil)
	case spec.Session != "" && !agent.IsUUID(spec.Session):
		return nil, nod.E(nod.Invalid, "the session to resume is not a session id", nil)
	}
	env, err := c.environment(spec)
	if err != nil {
		return nil, err
	}
	return env, agent.SetUp(ctx, ex, env, prepare, c.file(), c.Limits)
}

// open does the handshake: initialize, the thread, its servers, the prompt.
func (s *session) open(ctx context.Context) error {
	var hello struct {
		Agent string `json:"userAgent"`
	}
	if err := s.await(ctx, "initialize", map[string]any{"clientInfo": map[string]string{"name": "nod", "title": "nod", "version": "1"},
		"capabilities": map[string]any{"experimentalApi": true, "optOutNotificationMethods": ignored()}}, &hello); err != nil {
		return err
	}
	version, _ := strings.CutPrefix(hello.Agent, "nod/")
	version, _, _ = strings.Cut(version, " ")
	if !agent.AtLeast(version, s.cfg.MinVersion) {
		return refuse("is older than " + s.cfg.MinVersion + " or does not tell its version")
	}
	raw, err := encode(map[string]string{"method": "initialized"})
	if err != nil {
		return err
	}
	s.Send(raw)
	method, params := "thread/start", map[string]any{"cwd": s.cfg.Workspace, "approvalPolicy": "untrusted", "approvalsReviewer": "user",
		"sandbox": "danger-full-access", "model": s.cfg.Model, "modelProvider": provider,
		"config": map[string]any{"projects": map[string]any{s.cfg.Workspace: map[string]string{"trust_level": "untrusted"}}}}
	if s.spec.Session != "" {
		method, params["threadId"], params["excludeTurns"] = "thread/resume", s.spec.Session, true
	}
	var t thread
	if err := s.await(ctx, method, params, &t); err != nil {
		return err
	}
	if err := s.check(t); err != nil {
		return err
	}
	var servers struct {
		Data *[]json.RawMessage `json:"data"`
	}
	if err := s.await(ctx, "mcpServerStatus/list", map[string]any{}, &servers); err != nil {
		return err
	}
	if servers.Data == nil || len(*servers.Data) > 0 {
		return refuse("has MCP servers that were not configured, or does not tell")
	}
	s.Emit(nod.EventSession, nod.SessionOpened{Session: t.Thread.ID, Program: s.cfg.Name, Version: version, Model: t.Model})
	s.Change(func(st *agent.State) { st.Open = true })
	took := make(chan struct{})
	var refused *rpcError
	if err := s.say(ctx, s.spec.Prompt, func(e *rpcError) { refused = e; close(took) }); err != nil {
		return err
	}
	if err := s.Until(ctx, took); err != nil {
		return err
	}
	if refused != nil {
		return refused.wrap("turn/start")
	}
	return nil
}

// await sends a request and reads its answer into v.
func (s *session) await(ctx context.Context, method string, params, v any) error {
	answered := make(chan struct{})
	var result json.RawMessage
	var refused *rpcError
	s.ask(method, params, func(r json.RawMessage, e *rpcError) {
		result, refused = append(result, r...), e
		close(answered)
	})
	if err := s.Until(ctx, answered); err != nil {
		return err
	}
	if refused != nil {
		return refused.wrap(method)
	}
	if !decode(result, v) {
		return refuse("answered " + method + " with something else")
	}
	return nil
}

// wrap makes an error of a refusal.
func (e *rpcError) wrap(method string) error {
	if method == "thread/resume" && (strings.Contains(e.Message, "no rollout found") || strings.Contains(e.Message, "not found")) {
		return nod.E(nod.NotFound, "the agent no longer knows the session", nil)
	}
	return nod.E(nod.Unavailable, "the agent refused "+method, fmt.Errorf("%d: %s", e.Code, agent.Clean(e.Message, 200)))
}

func refuse(what string) error {
	return &nod.Error{Code: nod.Unsupported, Msg: "the agent " + what, Hint: "only nod may configure the agent; see its settings and version"}
}

// check compares what the program says about the thread with what was asked for.
// An error means that something else configured it.
func (s *session) check(t thread) error {
	switch {
	case t.Thread.ID == "" || s.spec.Session != "" && t.Thread.ID != s.spec.Session:
		return refuse("opened another session than it was asked to resume")
	case t.Sources == nil || len(*t.Sources) > 0:
		return refuse("read instructions that were not configured, or does not tell")
	case t.Approvals != "untrusted" || t.Reviewer != "user":
		return refuse("does not ask about everything")
	case t.Sandbox.Type != "dangerFullAccess":
		return refuse("has a sandbox of its own, whose refusals it does not tell")
	case t.Provider != provider || t.Model != s.cfg.Model:
		return refuse("uses another model than was configured")
	case t.Cwd != s.cfg.Workspace:
		return refuse("works in another directory than it was told to")
	}
	s.Change(func(st *agent.State) { st.ID = t.Thread.ID })
	return nil
}
