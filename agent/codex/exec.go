package codex

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"nod"
	"nod/agent"
)

// Exec is an agent.Adapter for `codex exec`, which asks nobody about anything: a
// degraded mode, for environments in which everything may run that stays inside. A
// message to it waits for its next start.
type Exec struct{ cfg Config }

var _ agent.Adapter = (*Exec)(nil)

// NewExec is New for `codex exec`; Name is "codex-exec" when empty.
func NewExec(cfg Config) (*Exec, error) {
	if cfg.Name == "" {
		cfg.Name = "codex-exec"
	}
	a, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return &Exec{a.cfg}, nil
}

// Name is Config.Name.
func (a *Exec) Name() string { return a.cfg.Name }

// Capabilities are those of `codex exec`, each proven by the conformance suite.
func (a *Exec) Capabilities() agent.Capabilities {
	return agent.Capabilities{Headless: true, Events: true, Resume: true, Injection: agent.DeliverNever, Auth: []string{agent.AuthKey}, Usage: true}
}

// keepPrompt puts the prompt where the program reads it: it reads it to the end of
// its input, which a session's own does not have before the session's end.
const keepPrompt = `umask 077; cat > "$CODEX_HOME/prompt"`

// Start is Adapter.Start. spec.Approve is never called, and is required all the same:
// what permits everything is the caller's rule, not the lack of one.
func (a *Exec) Start(ctx context.Context, ex nod.Executor, spec nod.AgentSpec) (nod.AgentSession, error) {
	env, err := a.cfg.setUp(ctx, ex, spec)
	if err != nil {
		return nil, err
	}
	if err := agent.SetUp(ctx, ex, env, keepPrompt, spec.Prompt, a.cfg.Limits); err != nil {
		return nil, err
	}
	version, err := a.version(ctx, ex, env)
	if err != nil {
		return nil, err
	}
	s := &execSession{cfg: a.cfg, version: version, resumes: spec.Session, opened: make(chan struct{}), calls: map[string]item{}}
	err = agent.Launch(ctx, ex, a.cfg.execCommand(env, spec.Session), func(p nod.Process) *agent.Live {
		s.Live = agent.NewLive(a.cfg.Name, a.cfg.Limits, a.cfg.Log, spec.Approve, p, s)
		return s.Live
	}, func(ctx context.Context) error { return s.Until(ctx, s.opened) })
	if err != nil {
		if s.unknown() {
			return nil, nod.E(nod.NotFound, "the agent no longer knows the session", err)
		}
		return nil, err
	}
	return s, nil
}

// execCommand is the process for one turn: the shell gives it the prompt.
func (c Config) execCommand(env map[string]string, session string) nod.Command {
	inner := append(slices.Clone(c.Argv), "exec")
	inner = append(inner, c.guards()...)
	inner = append(inner, "-C", c.Workspace, "--json", "--color", "never", "--skip-git-repo-check", "--ignore-rules", "--dangerously-bypass-approvals-and-sandbox")
	if session != "" {
		inner = append(inner, "resume", session)
	}
	argv := append([]string{"sh", "-c", `exec "$@" < "$CODEX_HOME/prompt"`, "sh"}, inner...)
	return nod.Command{Argv: append(argv, "-"), Env: env}
}

// version asks the program for its version, and refuses an old one.
func (a *Exec) version(ctx context.Context, ex nod.Executor, env map[string]string) (v string, err error) {
	said, err := agent.Output(ctx, ex, nod.Command{Argv: append(slices.Clone(a.cfg.Argv), "--version"), Env: env}, "", "the agent does not tell its version", a.cfg.Limits)
	if err != nil {
		return "", err
	}
	for l := range strings.Lines(said) {
		if after, ok := strings.CutPrefix(strings.TrimSpace(l), "codex-cli "); ok {
			v = after
		}
	}
	if !agent.AtLeast(v, a.cfg.MinVersion) {
		return "", refuse("is older than " + a.cfg.MinVersion + " or does not tell its version")
	}
	return v, nil
}

// execSession is one turn of the program.
type execSession struct {
	*agent.Live
	cfg     Config
	version string
	resumes string
	opened  chan struct{}

	// Of the reader's goroutine alone.
	calls map[string]item // that have begun
	said  string          // the agent's last words
	turns int
}

// execLine is one line of the program.
type execLine struct {
	Type   string          `json:"type"`
	Thread string          `json:"thread_id"`
	Item   json.RawMessage `json:"item"`
	Usage  struct {
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
	} `json:"usage"`
	Error   *turnError `json:"error"`
	Message string     `json:"message"`
}

// execItem is what an item says that is spelt differently here.
type execItem struct {
	Type    string          `json:"type"`
	ID      string          `json:"id"`
	Text    string          `json:"text"`
	Message string          `json:"message"`
	Command string          `json:"command"`
	Output  *string         `json:"aggregated_output"`
	Exit    *int            `json:"exit_code"`
	Status  string          `json:"status"`
	Changes json.RawMessage `json:"changes"`
}

// Instruct is refused: nothing is read while a turn runs.
func (s *execSession) Instruct(context.Context, string) error {
	return nod.E(nod.Conflict, "the agent takes no message while it works", nil)
}

// Interrupt has no line: the program is ended instead.
func (s *execSession) Interrupt() []byte {
	s.Change(func(st *agent.State) { st.Idle = true })
	return nil
}

// Over closes the calls that the program's end left open.
func (s *execSession) Over() {
	for id := range s.calls {
		s.Emit(nod.EventToolResult, nod.ToolResult{ID: id, Text: "It did not end before the agent did.", IsError: true})
	}
}

// Line handles one line of the program.
func (s *execSession) Line(raw []byte) bool {
	var l execLine
	if !decode(raw, &l) {
		return false
	}
	switch l.Type {
	case "thread.started":
		s.opens(l.Thread)
	case "item.started":
		s.item(l.Item, false)
	case "item.completed":
		s.item(l.Item, true)
	case "turn.completed":
		s.ends(l, nod.Result{OK: true, Text: s.said})
	case "turn.failed":
		r := nod.Result{Reason: agent.ReasonError}
		if l.Error != nil {
			r.Reason, r.Text = worded(l.Error.Message), l.Error.Message
		}
		s.ends(l, r)
	case "error":
		s.Emit(nod.EventAgentError, nod.AgentError{Text: l.Message})
	}
	return true
}

func (s *execSession) opens(thread string) {
	if s.State().Open {
		return
	}
	if !agent.IsUUID(thread) || s.resumes != "" && s.resumes != thread {
		s.Fail(refuse("opened another session than it was asked to resume"))
		return
	}
	s.Change(func(st *agent.State) { st.ID, st.Open = thread, true })
	s.Emit(nod.EventSession, nod.SessionOpened{Session: thread, Program: s.cfg.Name, Version: s.version, Model: s.cfg.Model})
	close(s.opened)
}

func (s *execSession) item(raw json.RawMessage, done bool) {
	var e execItem
	if !decode(raw, &e) || e.ID == "" {
		return
	}
	var i item
	switch e.Type {
	case "command_execution":
		i = item{Type: "commandExecution", Command: json.RawMessage(quote(e.Command))}
	case "file_change":
		i = item{Type: "fileChange"}
	case "agent_message":
		if done && e.Text != "" {
			s.said = e.Text
			s.Emit(nod.EventMessage, nod.Message{Text: e.Text})
		}
		return
	case "error":
		s.Emit(nod.EventAgentError, nod.AgentError{Text: e.Message})
		return
	default:
		return
	}
	i.ID, i.Status, i.Output, i.ExitCode = e.ID, e.Status, e.Output, e.Exit
	tool, input, _ := i.call(raw)
	if i.Type == "fileChange" {
		input = object("changes", e.Changes)
	}
	if _, begun := s.calls[i.ID]; !begun {
		s.calls[i.ID] = i
		s.Emit(nod.EventToolCall, nod.ToolCall{ID: i.ID, Tool: tool, Input: input})
	}
	if !done {
		return
	}
	delete(s.calls, i.ID)
	r := i.result(&call{})
	s.Emit(nod.EventToolResult, r)
	if command := unwrapped(e.Command); agent.RunsTests(command) {
		s.Emit(nod.EventTestResult, nod.TestResult{CallID: i.ID, Command: command, OK: !r.IsError})
	}
}

// ends handles the end of the one turn. A session that is resumed tells its tokens
// from its beginning: too many rather than too few, where no gateway counts them.
func (s *execSession) ends(l execLine, r nod.Result) {
	s.turns++
	r.Turns = s.turns
	s.Emit(nod.EventAgentUsage, nod.Usage{InputTokens: max(l.Usage.Input, 0), OutputTokens: max(l.Usage.Output, 0)})
	if kind, trouble, ok := agent.Trouble(r); ok {
		s.Emit(kind, trouble)
	}
	s.Emit(nod.EventResult, r)
	s.Change(func(st *agent.State) { st.Result, st.Idle, st.Since = r, true, now() })
}

// worded is the reason in the words of an error, which is all that this program tells.
func worded(message string) string {
	switch {
	case strings.Contains(message, "401 Unauthorized"), strings.Contains(message, "403 Forbidden"):
		return agent.ReasonAuthExpired
	case strings.Contains(message, "429 Too Many Requests"), strings.Contains(message, "usage limit"), strings.Contains(message, "Quota exceeded"):
		return agent.ReasonQuotaExhausted
	}
	return agent.ReasonAPIError
}

// unknown reports whether the program said that it does not know the session.
func (s *execSession) unknown() bool { return s.resumes != "" && s.Said("no rollout found") }
