package claude

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"nod"
	"nod/agent"
)

// tail of a key that the program compares, when it asks whether it may be used.
const keyTail = 20

// Terminal makes the home ready and returns the command of a session that a person
// runs in a terminal of that size: with Start's isolation, but for the program's own
// slash commands, and with settings, a --settings document whose hooks get its
// prompts. spec.Session is resumed when it is set; spec.Prompt, when it is set, is
// the first message; spec.Approve has no meaning.
//
// What the program would ask before it begins (its colours, whether the workspace is
// trusted, whether the key may be used) is answered by the file that it keeps such
// answers in. That file is made anew: an earlier session may have written there which
// tools need no asking.
func (a *Adapter) Terminal(ctx context.Context, ex nod.Executor, spec nod.AgentSpec, settings string, size nod.Window) (nod.Command, error) {
	c, err := a.cfg.command(spec)
	if err != nil {
		return nod.Command{}, err
	}
	if strings.HasPrefix(spec.Prompt, "-") {
		return nod.Command{}, nod.E(nod.Invalid, "the first message begins like a flag", nil)
	}
	key := c.Env["ANTHROPIC_API_KEY"]
	state, err := json.Marshal(map[string]any{"hasCompletedOnboarding": true, "theme": "dark",
		"customApiKeyResponses": map[string][]string{"approved": {key[max(0, len(key)-keyTail):]}, "rejected": {}},
		"projects":              map[string]any{"/workspace": map[string]any{"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}}})
	if err != nil {
		return nod.Command{}, nod.E(nod.Internal, "the program's state has no JSON form", err)
	}
	if err := agent.SetUp(ctx, ex, c.Env, prepare+" .claude.json && umask 077 && cat > .claude.json", string(state), a.cfg.Limits); err != nil {
		return nod.Command{}, err
	}
	env := maps.Clone(c.Env)
	env["TERM"], env["SHELL"] = "xterm-256color", "/bin/bash"
	argv := append(slices.Clone(a.cfg.Argv), "--tools", strings.Join(a.cfg.Tools, ","), // not last: it takes every word that follows
		"--settings", settings, "--setting-sources", "", "--strict-mcp-config", "--permission-mode", "default")
	if spec.Session != "" {
		argv = append(argv, "--resume="+spec.Session)
	}
	if spec.Prompt != "" {
		argv = append(argv, spec.Prompt)
	}
	return nod.Command{Argv: argv, Env: env, Terminal: &size}, nil
}
