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
	"nod/agent/gateway"
	"nod/runtime"
	"nod/runtime/egress"
)

// program is one configured agent.
type program struct {
	agent.Adapter
	upstream *gateway.Upstream // where its model is; nil when the program finds it itself
	variable string            // where it looks for its model's key
}

// agents starts sessions by the name that the configuration gives an agent.
type agents struct {
	programs map[string]program
	models   *gateway.Gateway
}

func (a agents) Start(ctx context.Context, name string, ex nod.Executor, s nod.AgentSpec) (nod.AgentSession, error) {
	p, ok := a.programs[name]
	if !ok {
		return nil, nod.E(nod.NotFound, fmt.Sprintf("no agent is called %q", name), nil)
	}
	if p.upstream == nil {
		return p.Adapter.Start(ctx, ex, s)
	}
	pass, err := a.models.Open(gateway.Route{Environment: s.Environment, Upstream: p.upstream, Meter: s.Meter})
	if err != nil {
		return nil, err
	}
	env := maps.Clone(s.Env)
	if env == nil {
		env = map[string]string{}
	}
	env[p.variable] = pass.Token.Reveal()
	s.Env = env
	session, err := p.Adapter.Start(ctx, ex, s)
	if err != nil {
		pass.Close()
		return nil, err
	}
	return passing{session, pass}, nil
}

// passing is a session whose way to its model ends with it.
type passing struct {
	nod.AgentSession
	pass *gateway.Pass
}

func (p passing) Wait() (nod.Result, error) {
	defer p.pass.Close()
	return p.AgentSession.Wait()
}

// The kinds of agents.
const (
	kindClaude   = "claude"
	kindCodex    = "codex"
	kindExec     = "codex-exec" // Codex, which then asks nobody
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

// isCodex reports whether the program is Codex, in whatever mode.
func (c AgentConfig) isCodex() bool { return c.kind() == kindCodex || c.kind() == kindExec }

// unasking are the agents that ask nobody.
func (c Config) unasking() []string {
	var names []string
	for name, a := range c.Agents {
		if a.kind() == kindExec {
			names = append(names, name)
		}
	}
	return names
}

// unpriced are the agents that tell tokens and no price.
func (c Config) unpriced() []string {
	var names []string
	for name, a := range c.Agents {
		if a.isCodex() {
			names = append(names, name)
		}
	}
	return names
}

// Where a model's key is.
const (
	keyGateway = "gateway" // with nod, which puts it into each call
	keyDirect  = "direct"  // with the program
	keyLogin   = "login"   // as gateway; it is the token of a login to a subscription
)

// baseVariable is where Claude Code looks for its model's address.
const baseVariable = "ANTHROPIC_BASE_URL"

// gated reports whether the program reaches its model through the gateway.
func (c AgentConfig) gated() bool { return c.KeyFile != "" && c.Key != keyDirect && c.Script == "" }

// api is the dialect of the program's model.
func (c AgentConfig) api() gateway.API {
	if c.isCodex() {
		return gateway.OpenAI
	}
	return gateway.Anthropic
}

// keyVariable is where the program looks for its model's key.
func (c AgentConfig) keyVariable() string {
	switch {
	case c.isCodex():
		return codex.KeyVariable
	case c.Key == keyLogin:
		return "CLAUDE_CODE_OAUTH_TOKEN"
	}
	return "ANTHROPIC_API_KEY"
}

// newAgent makes the adapter of one configured agent, and its way to its model.
// With a direct key its process is given that, and the agent can read it (see
// SECURITY.md); otherwise it is given the gateway's address, and for each run a token.
func newAgent(name string, c AgentConfig, log *slog.Logger) (program, []nod.Secret, error) {
	p := program{variable: c.keyVariable()}
	env := map[string]string{"HOME": runtime.HomePath}
	maps.Copy(env, c.Env)
	var secrets []nod.Secret
	if c.KeyFile != "" {
		key, err := secretFile(c.KeyFile)
		if err != nil {
			return p, nil, fmt.Errorf("agents.%s.key_file: %w", name, err)
		}
		secrets = append(secrets, key)
		if c.gated() {
			if p.upstream, err = c.upstream(key); err != nil {
				return p, nil, fmt.Errorf("agents.%s: %w", name, err)
			}
			c.BaseURL = "http://" + runtime.ProxyAddress + c.api().Path()
		} else {
			env[p.variable] = key.Reveal()
		}
	}
	if c.kind() == kindClaude && c.BaseURL != "" {
		env[baseVariable] = c.BaseURL
	}
	var err error
	p.Adapter, err = c.adapter(name, env, log)
	return p, secrets, err
}

// upstream is the model that key is for.
func (c AgentConfig) upstream(key nod.Secret) (*gateway.Upstream, error) {
	var authorities []byte
	if c.CAFile != "" {
		var err error
		if authorities, err = os.ReadFile(c.CAFile); err != nil {
			return nil, nod.E(nod.NotFound, "the file of authorities cannot be read", err)
		}
	}
	up, err := gateway.NewUpstream(c.api(), c.BaseURL, key, authorities)
	if err == nil && c.Key == keyLogin {
		up = up.Login()
	}
	return up, err
}

func (c AgentConfig) adapter(name string, env map[string]string, log *slog.Logger) (agent.Adapter, error) {
	switch c.kind() {
	case kindCodex:
		return codex.New(codex.Config{Argv: c.Argv, Env: env, Model: c.Model, BaseURL: c.BaseURL, Workspace: runtime.WorkspacePath, Log: log})
	case kindExec:
		log.Warn("agent asks nobody", "agent", name, "mode", string(agent.Degraded))
		return codex.NewExec(codex.Config{Argv: c.Argv, Env: env, Model: c.Model, BaseURL: c.BaseURL, Workspace: runtime.WorkspacePath, Log: log})
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
