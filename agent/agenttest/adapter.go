package agenttest

import (
	"encoding/json"
	"maps"

	"nod"
	"nod/agent/claude"
)

const (
	// Role is the argument that makes a program the scripted agent; see Dispatch.
	Role = "scripted-agent"
	// ScriptEnv names the environment variable that holds the script.
	ScriptEnv = "NOD_SCRIPT"

	scriptedVersion = "1.0.0"
)

// Adapter drives the scripted agent with script: the adapter for Claude Code,
// pointed at another program of the same protocol and named "scripted". Of cfg
// Env must hold HOME and Log must be set; Argv is {nod.GuestPath, Role} when
// empty.
func Adapter(script Script, cfg claude.Config) (*claude.Adapter, error) {
	if err := script.Validate(); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(script)
	if err != nil {
		return nil, nod.E(nod.Internal, "the script has no JSON form", err)
	}
	if len(raw) > scriptCap {
		return nil, nod.E(nod.TooLarge, "the script is too large for an environment variable", nil)
	}
	env := map[string]string{}
	maps.Copy(env, cfg.Env)
	env[ScriptEnv] = string(raw)
	cfg.Env, cfg.Name, cfg.MinVersion, cfg.Tools, cfg.KeepHome = env, "scripted", scriptedVersion, []string{"Bash", "Write"}, true
	if len(cfg.Argv) == 0 {
		cfg.Argv = []string{nod.GuestPath, Role}
	}
	return claude.New(cfg)
}
