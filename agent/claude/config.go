package claude

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"nod"
	"nod/agent"
)

// Defaults of Config.
const (
	// MinVersion is the oldest release that the suite was run against.
	MinVersion = "2.1.332"

	defaultStart      = time.Minute
	defaultTurn       = 4 * time.Hour
	defaultStop       = 5 * time.Second
	defaultBackground = 2 * time.Minute
	defaultKill       = 15 * time.Second

	// linger is how long an idle process may take to begin the turn that follows
	// a background task (20 ms were measured).
	linger = 2 * time.Second
)

// DefaultTools are the built-in tools that a session has. Tools that ask a person
// through a menu, plan mode, timers, work trees of its own and messages to other
// sessions are left out.
func DefaultTools() []string {
	return []string{"Bash", "Edit", "Glob", "Grep", "NotebookEdit", "Read", "Task", "WebFetch", "Write"}
}

// DefaultAsk are the tools that are asked about on every use, also where the
// program would judge a use harmless by itself. Of the rest Read, Glob and Grep
// are asked about outside the workspace only.
func DefaultAsk() []string { return []string{"Bash", "Edit", "NotebookEdit", "WebFetch", "Write"} }

// implied are tools that the program adds to the ones asked for.
var implied = map[string][]string{"Task": {"TaskStop", "TaskOutput", "Agent"}, "Bash": {"TaskStop", "TaskOutput", "BashOutput", "KillShell"}}

// Config configures an Adapter.
type Config struct {
	// Argv is the program and its leading arguments inside the environment. Required.
	Argv []string
	// Env is the process's environment: HOME (required, kept for a resume),
	// ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN, ANTHROPIC_BASE_URL,
	// HTTPS_PROXY, NODE_EXTRA_CA_CERTS, TMPDIR. PATH, LANG and TMPDIR have
	// defaults. nod.AgentSpec.Env is laid over it.
	Env map[string]string
	// Name is the adapter's name; "claude" when empty.
	Name string
	// Ask are the tools asked about on every use; DefaultAsk when nil.
	Ask []string
	// Tools are the built-in tools a session has; DefaultTools when nil. A session
	// that says it has another one is refused.
	Tools []string
	// MinVersion is the oldest version accepted; the constant when empty.
	MinVersion string
	// StartTimeout bounds the time until the session is open; a minute when 0.
	StartTimeout time.Duration
	// TurnTimeout bounds the time from the last message sent to the end of the
	// last turn, waiting for answers included; four hours when 0.
	TurnTimeout time.Duration
	// StopGrace bounds each orderly step of ending a session; 5 seconds when 0.
	StopGrace time.Duration
	// BackgroundGrace is how long a finished turn waits for commands that it left
	// running in the background; two minutes when 0.
	BackgroundGrace time.Duration
	// KillTimeout bounds the final kill; 15 seconds when 0.
	KillTimeout time.Duration
	// Log gets state changes, never content. Required.
	Log *slog.Logger
}

// Adapter is an agent.Adapter for Claude Code.
type Adapter struct{ cfg Config }

var _ agent.Adapter = (*Adapter)(nil)

// New checks cfg and fills in the defaults.
func New(cfg Config) (*Adapter, error) {
	if len(cfg.Argv) == 0 || cfg.Argv[0] == "" {
		return nil, nod.E(nod.Invalid, "the agent has no program", nil)
	}
	if cfg.Log == nil {
		return nil, nod.E(nod.Invalid, "the agent has no log", nil)
	}
	cfg.Argv, cfg.Env = slices.Clone(cfg.Argv), maps.Clone(cfg.Env)
	if cfg.Ask == nil {
		cfg.Ask = DefaultAsk()
	}
	if cfg.Tools == nil {
		cfg.Tools = DefaultTools()
	}
	for _, t := range slices.Concat(cfg.Ask, cfg.Tools) {
		if t == "" || strings.ContainsAny(t, ", \t\n") {
			return nil, nod.E(nod.Invalid, fmt.Sprintf("%q is not the name of a tool", t), nil)
		}
	}
	if cfg.MinVersion == "" {
		cfg.MinVersion = MinVersion
	}
	if _, ok := version(cfg.MinVersion); !ok {
		return nil, nod.E(nod.Invalid, fmt.Sprintf("%q is not a version", cfg.MinVersion), nil)
	}
	if cfg.Name == "" {
		cfg.Name = "claude"
	}
	for d, std := range map[*time.Duration]time.Duration{&cfg.StartTimeout: defaultStart, &cfg.TurnTimeout: defaultTurn,
		&cfg.StopGrace: defaultStop, &cfg.BackgroundGrace: defaultBackground, &cfg.KillTimeout: defaultKill} {
		if *d == 0 {
			*d = std
		}
		if *d < 0 {
			return nil, nod.E(nod.Invalid, "a time limit of the agent is negative", nil)
		}
	}
	return &Adapter{cfg}, nil
}

// Name is Config.Name.
func (a *Adapter) Name() string { return a.cfg.Name }

// Capabilities are those of Claude Code, each proven by the conformance suite.
func (a *Adapter) Capabilities() agent.Capabilities {
	return agent.Capabilities{HostApprovals: true, Resume: true, Injection: true, Usage: true, Cost: true}
}

// command is the process for one session.
func (c Config) command(spec nod.AgentSpec) (nod.Command, error) {
	env := map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TMPDIR": "/tmp", "CLAUDE_CODE_MAX_RETRIES": "3"}
	maps.Copy(env, c.Env)
	maps.Copy(env, spec.Env)
	if env["HOME"] == "" {
		return nod.Command{}, nod.E(nod.Invalid, "the agent's environment has no HOME", nil)
	}
	// Nothing may turn these back, and nothing may make it believe that it is
	// nested in another one of its kind.
	env["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"], env["DISABLE_AUTOUPDATER"] = "1", "1"
	delete(env, "CLAUDECODE")
	settings, err := json.Marshal(map[string]any{"permissions": map[string]any{"ask": c.Ask}})
	if err != nil {
		return nod.Command{}, nod.E(nod.Internal, "the agent's settings have no JSON form", err)
	}
	argv := append(slices.Clone(c.Argv), "-p",
		"--input-format", "stream-json", "--output-format", "stream-json", "--verbose",
		"--permission-prompt-tool", "stdio", "--permission-mode", "default",
		"--setting-sources", "", // two items: an old release takes the one-item form for "all"
		"--settings", string(settings),
		"--strict-mcp-config", "--disable-slash-commands",
		"--tools", strings.Join(c.Tools, ","))
	if spec.Session != "" {
		if !uuidLike(spec.Session) {
			return nod.Command{}, nod.E(nod.Invalid, "the session to resume is not a session id", nil)
		}
		argv = append(argv, "--resume="+spec.Session) // one item: its value is optional
	}
	return nod.Command{Argv: argv, Env: env}, nil
}

// uuidLike reports whether s has the form of the program's session ids, so that
// it cannot be anything else on a command line or in a path.
func uuidLike(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, r := range s {
		switch {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if r != '-' {
				return false
			}
		case !strings.ContainsRune("0123456789abcdefABCDEF", r):
			return false
		}
	}
	return true
}

// version parses the numeric part of "2.1.332" or "2.1.332-suffix".
func version(s string) ([3]int, bool) {
	var v [3]int
	core, _, _ := strings.Cut(s, "-")
	core, _, _ = strings.Cut(core, " ")
	parts := strings.Split(core, ".")
	if len(parts) != 3 {
		return v, false
	}
	for i, p := range parts {
		if len(p) == 0 || len(p) > 6 {
			return v, false
		}
		for _, r := range p {
			if r < '0' || r > '9' {
				return v, false
			}
			v[i] = v[i]*10 + int(r-'0')
		}
	}
	return v, true
}

// atLeast reports whether have is a version not older than floor.
func atLeast(have, floor string) bool {
	h, ok := version(have)
	f, ok2 := version(floor)
	return ok && ok2 && slices.Compare(h[:], f[:]) >= 0
}
