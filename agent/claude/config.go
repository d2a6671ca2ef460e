package claude

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"nod"
	"nod/agent"
)

// MinVersion is the oldest release that the suite was run against.
const MinVersion = "2.1.332"

// DefaultTools are the built-in tools that a session has. Timers, work trees of its
// own, messages to other sessions and searches by the vendor are left out.
func DefaultTools() []string {
	return []string{toolQuestion, "Bash", "Edit", "EnterPlanMode", toolPlan, "Glob", "Grep", "NotebookEdit", "Read", "Task", "WebFetch", "Write"}
}

// DefaultAsk are the tools that are asked about on every use, also where the
// program would judge a use harmless by itself: all of them, and what they imply,
// so that no call passes the approver by. The two that put something to a person
// always ask.
func DefaultAsk() []string {
	return []string{"Agent", "Bash", "BashOutput", "Edit", "EnterPlanMode", "Glob", "Grep", "KillShell", "NotebookEdit", "Read", "Task", "TaskOutput",
		"TaskStop", "WebFetch", "Write"}
}

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
	// KeepHome leaves HOME as it is. Without it the shell's start-up files there are
	// removed at each start, so HOME must be the agent's alone.
	KeepHome bool
	// Name is the adapter's name; "claude" when empty.
	Name string
	// Ask are the tools asked about on every use; DefaultAsk when nil.
	Ask []string
	// Tools are the built-in tools a session has; DefaultTools when nil. A session
	// that says it has another one is refused.
	Tools []string
	// MaxBudgetUSD, when set, is where the program itself ends a turn, by its own
	// estimate of the cost of the session.
	MaxBudgetUSD float64
	// MinVersion is the oldest version accepted; the constant when empty.
	MinVersion string
	// Limits are the time limits.
	agent.Limits
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
	if !agent.IsVersion(cfg.MinVersion) {
		return nil, nod.E(nod.Invalid, fmt.Sprintf("%q is not a version", cfg.MinVersion), nil)
	}
	if math.IsNaN(cfg.MaxBudgetUSD) || math.IsInf(cfg.MaxBudgetUSD, 0) || cfg.MaxBudgetUSD < 0 {
		return nil, nod.E(nod.Invalid, "the agent's budget is no amount of money", nil)
	}
	if cfg.Name == "" {
		cfg.Name = "claude"
	}
	if err := cfg.Fill(); err != nil {
		return nil, err
	}
	return &Adapter{cfg}, nil
}

// Name is Config.Name.
func (a *Adapter) Name() string { return a.cfg.Name }

// Capabilities are those of Claude Code, each proven by the conformance suite.
func (a *Adapter) Capabilities() agent.Capabilities {
	return agent.Capabilities{Headless: true, Events: true, HostApprovals: true, Questions: true, Resume: true, Injection: agent.DeliverTurn,
		Auth: []string{agent.AuthKey, agent.AuthLogin}, Quota: true, Usage: true, Cost: true}
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
	if c.MaxBudgetUSD > 0 {
		argv = append(argv, "--max-budget-usd", strconv.FormatFloat(c.MaxBudgetUSD, 'f', -1, 64))
	}
	if spec.Session != "" {
		if !agent.IsUUID(spec.Session) {
			return nod.Command{}, nod.E(nod.Invalid, "the session to resume is not a session id", nil)
		}
		argv = append(argv, "--resume="+spec.Session) // one item: its value is optional
	}
	return nod.Command{Argv: argv, Env: env}, nil
}
