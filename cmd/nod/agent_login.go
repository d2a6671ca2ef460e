package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"nod"
	"nod/runtime"
)

// loginHosts are what the program's own sign-in speaks to.
var loginHosts = []string{"claude.ai:443", "platform.claude.com:443", "console.anthropic.com:443", "api.anthropic.com:443"}

func agentCommand() *cobra.Command {
	root := &cobra.Command{Use: "agent", Short: "Sign agents in"}
	var path string
	login := &cobra.Command{
		Use: "login NAME", Short: "Sign an agent in to a subscription, and keep the token",
		Long: `Runs the agent's own "setup-token" in this terminal, in an environment that holds
nothing else and reaches nothing but the sign-in. The token that it shows is then
asked for, and written to the agent's key_file, which only its owner can read. For
agents with "key": "login".`, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := LoadConfig(path)
			if err != nil {
				return err
			}
			c, ok := cfg.Agents[args[0]]
			switch {
			case !ok:
				return nod.E(nod.NotFound, "no agent is called "+args[0], nil)
			case c.Key != keyLogin:
				return &nod.Error{Code: nod.Unsupported, Msg: "the agent " + args[0] + " takes a key, no login", Hint: `"key": "login" in its configuration`}
			}
			in, ok := cmd.InOrStdin().(*os.File)
			if !ok || !term.IsTerminal(int(in.Fd())) {
				return nod.E(nod.Invalid, "stdin is not a terminal", nil)
			}
			sh := &shell{cfg: cfg, in: in, out: cmd.OutOrStdout(), errs: cmd.ErrOrStderr(), log: slog.New(slog.DiscardHandler)}
			if err := sh.signIn(cmd.Context(), c); err != nil {
				return err
			}
			return sh.keepToken(c.KeyFile)
		}}
	configFlag(login, &path)
	root.AddCommand(login)
	return root
}

// signIn lets the program sign a person in, in an environment for that alone.
func (sh *shell) signIn(ctx context.Context, c AgentConfig) (err error) {
	if err := os.MkdirAll(sh.cfg.StateDir, 0o700); err != nil {
		return nod.E(nod.Internal, "the state directory cannot be made", err)
	}
	dir, err := os.MkdirTemp(sh.cfg.StateDir, "login-")
	if err != nil {
		return nod.E(nod.Internal, "a directory for the sign-in cannot be made", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	s := nod.EnvironmentSpec{ID: "login", Workspace: filepath.Join(dir, "workspace"), Home: filepath.Join(dir, "home"), Egress: loginHosts}
	for _, d := range []string{s.Workspace, s.Home} {
		if err := os.Mkdir(d, 0o755); err != nil {
			return nod.E(nod.Internal, "a directory for the sign-in cannot be made", err)
		}
	}
	audit := newEgressLog(sh.log)
	driver, err := provenDriver(ctx, sh.cfg.Runtime, filepath.Join(sh.cfg.StateDir, "login"), audit.proxy(nil), sh.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, driver.Close()) }()
	places, err := newEnvironments(sh.cfg, driver, audit, "login")
	if err != nil {
		return err
	}
	places.roots.Allowed[0] = dir // in place of where the environments of tasks are
	seen, err := places.start(ctx, s)
	if err != nil {
		return err
	}
	defer func() {
		clean, done := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer done()
		err = errors.Join(err, places.Stop(clean, s.ID), places.Delete(clean, s.ID))
	}()
	if err := seen.Holds(); err != nil {
		return err
	}
	size := sh.size()
	env := map[string]string{"HOME": runtime.HomePath, "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "TMPDIR": "/tmp", "TERM": "xterm-256color",
		"HTTPS_PROXY": "http://" + runtime.ProxyAddress, "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
	maps.Copy(env, c.Env)
	return sh.attach(ctx, inEnvironment{places, s.ID}, nod.Command{Argv: append(append([]string{}, c.Argv...), "setup-token"), Env: env, Terminal: &size})
}

// keepToken asks for the token and writes it where only its owner can read it.
func (sh *shell) keepToken(path string) (err error) {
	fmt.Fprint(sh.errs, "\nThe token that it showed (empty leaves everything as it is): ")
	raw, err := term.ReadPassword(int(sh.in.Fd()))
	fmt.Fprintln(sh.errs)
	if err != nil {
		return nod.E(nod.Invalid, "the token cannot be read", err)
	}
	token := strings.TrimSpace(string(raw))
	switch {
	case token == "":
		return nod.E(nod.Invalid, "no token was given: nothing is changed", nil)
	case strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nod.E(nod.Invalid, "that is no token: it holds a character that none has", nil)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".token-") // of mode 0600
	if err != nil {
		return nod.E(nod.Internal, "the key_file cannot be written", err)
	}
	_, err = f.WriteString(token + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return nod.E(nod.Internal, "the key_file cannot be written", errors.Join(err, os.Remove(f.Name())))
	}
	fmt.Fprintf(sh.errs, "nod: the token is in %s\n", path)
	return nil
}
