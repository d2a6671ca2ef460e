package codex

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"nod"
	"nod/agent"
)

const (
	// MinVersion is the oldest release that the suite was run against.
	MinVersion = "0.171.0"
	// DefaultModel is a model whose tools the program calls one by one.
	DefaultModel = "gpt-5.5"
	// KeyVariable is the environment variable that holds the model's key.
	KeyVariable = "OPENAI_API_KEY"

	defaultBaseURL   = "https://api.openai.com/v1"
	defaultWorkspace = "/workspace"
	provider         = "nod"
)

// off are features of the program that reach out of the session, come from
// somewhere else, or act without being asked about.
var off = []string{"api_key_model_discovery", "apps", "browser_use", "browser_use_external", "computer_use", "daemon_auto_start",
	"goals", "guardian_approval", "hooks", "image_generation", "in_app_browser", "multi_agent", "plugin_sharing", "plugins", "remote_plugin",
	"shell_snapshot", "skill_mcp_dependency_install", "skill_search", "tool_suggest", "unbounded_connection_retries", "unified_exec_tty", "view_image"}

// Config configures an Adapter.
type Config struct {
	// Argv is the program and its leading arguments inside the environment. Required.
	Argv []string
	// Env is the process's environment: HOME (required, kept for a resume, not
	// below /tmp), OPENAI_API_KEY, HTTPS_PROXY, SSL_CERT_FILE. PATH, LANG and
	// TMPDIR have defaults. nod.AgentSpec.Env is laid over it.
	Env map[string]string
	// Name is the adapter's name; "codex" when empty.
	Name string
	// Model is the model's name; DefaultModel when empty.
	Model string
	// BaseURL is where the Responses API is, without "/responses"; OpenAI's when empty.
	BaseURL string
	// Retries is how often a request to the model is repeated; 3 when 0, none when negative.
	Retries int
	// Workspace is the directory that the agent works in; /workspace when empty.
	Workspace string
	// MinVersion is the oldest version accepted; the constant when empty.
	MinVersion string
	// Limits are the time limits.
	agent.Limits
	// Log gets state changes, never content. Required.
	Log *slog.Logger
}

// Adapter is an agent.Adapter for Codex.
type Adapter struct{ cfg Config }

var _ agent.Adapter = (*Adapter)(nil)

// New checks cfg and fills in the defaults.
func New(cfg Config) (*Adapter, error) {
	set := func(s *string, to string) {
		if *s == "" {
			*s = to
		}
	}
	set(&cfg.Name, "codex")
	set(&cfg.Model, DefaultModel)
	set(&cfg.BaseURL, defaultBaseURL)
	set(&cfg.Workspace, defaultWorkspace)
	set(&cfg.MinVersion, MinVersion)
	if cfg.Retries == 0 {
		cfg.Retries = 3
	}
	base, err := url.Parse(cfg.BaseURL)
	switch {
	case len(cfg.Argv) == 0 || cfg.Argv[0] == "":
		return nil, nod.E(nod.Invalid, "the agent has no program", nil)
	case cfg.Log == nil:
		return nil, nod.E(nod.Invalid, "the agent has no log", nil)
	case !agent.IsVersion(cfg.MinVersion):
		return nil, nod.E(nod.Invalid, fmt.Sprintf("%q is not a version", cfg.MinVersion), nil)
	case err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http":
		return nil, nod.E(nod.Invalid, "the model's address is not an http or https address", nil)
	case !path.IsAbs(cfg.Workspace) || path.Clean(cfg.Workspace) != cfg.Workspace:
		return nil, nod.E(nod.Invalid, "the agent's workspace is not a clean absolute path", nil)
	}
	cfg.Argv, cfg.Env = slices.Clone(cfg.Argv), maps.Clone(cfg.Env)
	if err := cfg.Fill(); err != nil {
		return nil, err
	}
	return &Adapter{cfg}, nil
}

// Name is Config.Name.
func (a *Adapter) Name() string { return a.cfg.Name }

// Capabilities are those of Codex, each proven by the conformance suite. It tells
// tokens but no price.
func (a *Adapter) Capabilities() agent.Capabilities {
	return agent.Capabilities{Headless: true, Events: true, HostApprovals: true, Questions: true, Resume: true, Injection: agent.DeliverTurn,
		Auth: []string{agent.AuthKey}, Quota: true, Usage: true}
}

// environment is the process's, with the program's home in it.
func (c Config) environment(spec nod.AgentSpec) (map[string]string, error) {
	env := map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TMPDIR": "/tmp", "RUST_LOG": "error"}
	maps.Copy(env, c.Env)
	maps.Copy(env, spec.Env)
	home := env["HOME"]
	switch {
	case home == "":
		return nil, nod.E(nod.Invalid, "the agent's environment has no HOME", nil)
	case !path.IsAbs(home) || path.Clean(home) != home || home == "/":
		return nil, nod.E(nod.Invalid, "the agent's HOME is not a clean absolute path", nil)
	}
	for name := range env {
		if strings.HasPrefix(name, "CODEX_") && name != "CODEX_CA_CERTIFICATE" {
			return nil, nod.E(nod.Invalid, "the agent's environment may not set "+agent.Clean(name, 40), nil)
		}
	}
	env["CODEX_HOME"] = home + "/.codex"
	return env, nil
}

// command is the process for one session. What must hold whatever a file says is
// on the command line.
func (c Config) command(env map[string]string) nod.Command {
	argv := append(append(slices.Clone(c.Argv), "app-server"), c.guards()...)
	return nod.Command{Argv: append(argv, "--enable", "default_mode_request_user_input"), Env: env}
}

// guards are the arguments that keep out what a workspace could plant.
func (c Config) guards() []string {
	argv := []string{"-c", "projects={" + quote(c.Workspace) + `={trust_level="untrusted"}}`,
		"-c", "project_doc_max_bytes=0", "-c", "skills.include_instructions=false",
		"-c", "allow_login_shell=false", "-c", `web_search="disabled"`}
	for _, feature := range off {
		argv = append(argv, "--disable", feature)
	}
	return argv
}

// file is the program's configuration file. Strings are quoted as JSON, which is
// TOML too.
func (c Config) file() string {
	retries := max(c.Retries, 0)
	return strings.Join([]string{
		"model = " + quote(c.Model),
		"model_provider = " + quote(provider),
		"check_for_update_on_startup = false",
		"[analytics]", "enabled = false",
		"[model_providers." + provider + "]",
		"name = " + quote(provider),
		"base_url = " + quote(c.BaseURL),
		`wire_api = "responses"`,
		"env_key = " + quote(KeyVariable),
		fmt.Sprintf("request_max_retries = %d", retries),
		fmt.Sprintf("stream_max_retries = %d", retries),
		"[shell_environment_policy]", // commands have no use for the model's key
		"exclude = [" + quote(KeyVariable) + "]",
		"[projects." + quote(c.Workspace) + "]",
		`trust_level = "untrusted"`, ""}, "\n")
}

func quote(s string) string {
	raw, err := json.Marshal(s)
	if err != nil {
		return `""` // a string always has a JSON form
	}
	return string(raw)
}
