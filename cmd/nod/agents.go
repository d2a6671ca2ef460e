package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"

	"nod"
	"nod/agent"
	"nod/agent/agenttest"
	"nod/agent/claude"
	"nod/agent/codex"
	"nod/runtime"
	"nod/runtime/egress"
)

// agents starts sessions by the name that the configuration gives an agent.
type agents map[string]agent.Adapter

func (a agents) Start(ctx context.Context, name string, ex nod.Executor, s nod.AgentSpec) (nod.AgentSession, error) {
	adapter, ok := a[name]
	if !ok {
		return nil, nod.E(nod.NotFound, fmt.Sprintf("no agent is called %q", name), nil)
	}
	return adapter.Start(ctx, ex, s)
}

// The kinds of agents.
const (
	kindClaude   = "claude"
	kindCodex    = "codex"
	kindScripted = "scripted"
)

// kind is the adapter that c means.
func (c AgentConfig) kind() string {
	switch {
	case c.Kind != "":
		return c.Kind
	case c.Script != "":
		return kindScripted
	}
	return kindClaude
}

// keyVariable is where the program looks for its model's key.
func (c AgentConfig) keyVariable() string {
	if c.kind() == kindCodex {
		return codex.KeyVariable
	}
	return "ANTHROPIC_API_KEY"
}

// newAgent makes the adapter of one configured agent. Its model key, if any, is
// given to its process: the agent can read it (see SECURITY.md).
func newAgent(name string, c AgentConfig, log *slog.Logger) (agent.Adapter, []nod.Secret, error) {
	env := map[string]string{"HOME": runtime.HomePath}
	maps.Copy(env, c.Env)
	var secrets []nod.Secret
	if c.KeyFile != "" {
		key, err := secretFile(c.KeyFile)
		if err != nil {
			return nil, nil, fmt.Errorf("agents.%s.key_file: %w", name, err)
		}
		secrets = append(secrets, key)
		env[c.keyVariable()] = key.Reveal()
	}
	a, err := c.adapter(name, env, log)
	return a, secrets, err
}

func (c AgentConfig) adapter(name string, env map[string]string, log *slog.Logger) (agent.Adapter, error) {
	switch c.kind() {
	case kindCodex:
		return codex.New(codex.Config{Argv: c.Argv, Env: env, Model: c.Model, BaseURL: c.BaseURL, Workspace: runtime.WorkspacePath, Log: log})
	case kindClaude:
		return claude.New(claude.Config{Argv: c.Argv, Env: env, Log: log})
	case kindScripted:
		raw, err := os.ReadFile(c.Script)
		if err != nil {
			return nil, nod.E(nod.NotFound, "the script of agent "+name+" cannot be read", err)
		}
		script, err := agenttest.Parse(raw)
		if err != nil {
			return nil, fmt.Errorf("agents.%s.script_file: %w", name, err)
		}
		return agenttest.Adapter(script, claude.Config{Argv: c.Argv, Env: env, Log: log})
	}
	return nil, nod.E(nod.Invalid, "agent "+name+" is of no kind that nod knows", nil)
}

// places turns what the agents need of their environments into mounts and rules.
func places(all map[string]AgentConfig) ([]runtime.Mount, []string, []egress.Rule, error) {
	var mounts []runtime.Mount
	var roots []string
	var rules []egress.Rule
	for name, c := range all {
		for target, source := range c.Mounts {
			mounts = append(mounts, runtime.Mount{Source: source, Target: target})
			roots = append(roots, source)
		}
		for _, host := range c.Egress {
			rule, err := egress.ParseRule(host)
			if err != nil {
				return nil, nil, nil, fmt.Errorf("agents.%s.egress: %w", name, err)
			}
			rules = append(rules, rule)
		}
	}
	return mounts, roots, rules, nil
}
