package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"nod"
	"nod/agent/claude"
	"nod/agent/gateway"
	"nod/agent/hook"
	"nod/bot"
	"nod/bot/github"
	"nod/notify"
	"nod/store"
)

func shellCommand() *cobra.Command {
	var path, name string
	var fresh bool
	c := &cobra.Command{Use: "shell TASK", Short: "Take a paused agent's place: its program, in this terminal, in its environment",
		Long: `Opens the agent's program in this terminal, inside the environment of a task that
"nod pause" has paused, and goes on with its session. What the program asks for is
judged by the repository's tool rules first; what those do not settle is asked here
and on the phone at once, and whoever is first has answered. For the phone a
"nod serve" must run beside it.

The terminal closes when the program ends, when the task does, and when its own agent
goes on ("nod resume"). Nothing that it started is left then. Agents of the kind
claude only.`, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			in, ok := cmd.InOrStdin().(*os.File)
			if !ok || !term.IsTerminal(int(in.Fd())) {
				return nod.E(nod.Invalid, "stdin is not a terminal", nil)
			}
			sh := &shell{in: in, out: cmd.OutOrStdout(), errs: cmd.ErrOrStderr(), agent: name, fresh: fresh, log: slog.New(slog.DiscardHandler)}
			if err := sh.open(cmd.Context(), path); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, sh.store.Close()) }()
			c, err := caseNamed(cmd.Context(), sh.store, args[0])
			if err != nil {
				return err
			}
			return sh.run(cmd.Context(), c)
		}}
	configFlag(c, &path)
	c.Flags().StringVar(&name, "agent", "", "the agent whose program to open; that of the paused run when empty")
	c.Flags().BoolVar(&fresh, "new", false, "begin a session instead of going on with the agent's")
	return c
}

// shell is one terminal.
type shell struct {
	cfg   Config
	store *store.Store
	in    *os.File
	out   io.Writer
	errs  io.Writer
	agent string
	fresh bool
	log   *slog.Logger

	environments *environments
	models       *gateway.Gateway
	terminal     *bot.Terminal
	programs     map[string]program
	adapter      *claude.Adapter
	upstream     *gateway.Upstream
	variable     string
}

// open opens the store of the configuration at path, which must know the keys of all
// agents to keep none of them.
func (sh *shell) open(ctx context.Context, path string) (err error) {
	if sh.cfg, err = LoadConfig(path); err != nil {
		return err
	}
	sec, err := readSecrets(sh.cfg)
	if err != nil {
		return err
	}
	sh.programs = map[string]program{}
	for name, a := range sh.cfg.Agents {
		p, keys, err := newAgent(name, a, sh.log)
		if err != nil {
			return err
		}
		sh.programs[name], sec.agents = p, append(sec.agents, keys...)
	}
	sh.store, err = openStore(ctx, sh.cfg, sec.all(), sh.log)
	return err
}

// run opens everything, lets the person work, and closes everything.
func (sh *shell) run(ctx context.Context, c nod.Case) (err error) {
	host, err := githubHost(sh.cfg.GitHub.WebURL)
	if err != nil {
		return err
	}
	repos, err := repoSettings(sh.cfg, host)
	if err != nil {
		return err
	}
	decide, err := time.ParseDuration(sh.cfg.DecisionTime)
	if err != nil {
		return nod.E(nod.Invalid, "decision_time is not a duration", err)
	}
	public := strings.TrimSuffix(sh.cfg.PublicURL, "/")
	sh.terminal, err = bot.OpenTerminal(ctx, bot.TerminalConfig{Repos: repos, TriggerLabel: sh.cfg.TriggerLabel, Environments: sh.cfg.environments(), DecisionTime: decide,
		Push: func(d nod.Decision, t nod.Task, w nod.Telling) nod.Push { return notify.Tell(d, t, w, public) },
		Note: func(n nod.Note, t nod.Task) nod.Push { return notify.ForTask(n, t, public) },
		Link: func(task string) string { return public + "/t/" + task }, Neutralize: github.Neutralize, Secret: sh.store.HoldsSecret, Now: time.Now, Log: sh.log, Ledger: sh.store, Queues: sh.store, Closings: sh.store, Usage: sh.store}, c.Task.ID)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sh.terminal.Close(ctx)) }()
	leave, err := seats{sh.cfg.environments()}.take(sh.terminal.Environment().ID)
	if err != nil {
		return err
	}
	defer leave()
	if err := sh.choose(); err != nil {
		return err
	}
	if !locked(filepath.Join(sh.cfg.StateDir, "lock")) {
		fmt.Fprintln(sh.errs, "nod: no nod serve runs: nothing reaches the phone, and only this terminal answers")
	}
	return sh.inside(ctx)
}

// choose finds the agent whose program it is.
func (sh *shell) choose() error {
	if sh.agent == "" {
		sh.agent = sh.terminal.Run().Agent
	}
	c, ok := sh.cfg.Agents[sh.agent]
	if !ok {
		return nod.E(nod.NotFound, "no agent is called "+sh.agent, nil)
	}
	if c.kind() != kindClaude {
		return &nod.Error{Code: nod.Unsupported, Msg: "the agent " + sh.agent + " is of the kind " + c.kind() + ", which cannot ask from a terminal",
			Hint: "--agent names one of the kind claude"}
	}
	p := sh.programs[sh.agent]
	if sh.adapter, ok = p.Adapter.(*claude.Adapter); !ok {
		return nod.E(nod.Internal, "the adapter of the kind claude is another one", nil)
	}
	sh.upstream, sh.variable = p.upstream, p.variable
	return nil
}

// inside starts the environment with a driver of its own, so that nothing of a
// serving nod's is touched, and holds the session in it.
func (sh *shell) inside(ctx context.Context) (err error) {
	audit := newEgressLog(sh.log)
	audit.open(sh.store)
	sh.models = gateway.New(time.Now, sh.log)
	defer sh.models.Close()
	driver, err := provenDriver(ctx, sh.cfg.Runtime, filepath.Join(sh.cfg.StateDir, "shell"), audit.proxy(sh.models), sh.log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, driver.Close()) }()
	if sh.environments, err = newEnvironments(sh.cfg, driver, audit, "shell"); err != nil {
		return err
	}
	spec := sh.terminal.Environment()
	spec.ID += "-terminal" // another one than the agent's own, over the same directories
	seen, err := sh.environments.start(ctx, spec)
	if err != nil {
		return err
	}
	defer func() {
		clean, done := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer done()
		err = errors.Join(err, sh.environments.Stop(clean, spec.ID), sh.environments.Delete(clean, spec.ID))
	}()
	if err := seen.Holds(); err != nil {
		return err
	}
	return sh.session(ctx, spec.ID)
}

// inEnvironment starts processes in one environment.
type inEnvironment struct {
	*environments
	id string
}

func (x inEnvironment) Exec(ctx context.Context, c nod.Command) (nod.Process, error) {
	return x.environments.Exec(ctx, x.id, c)
}

// session is the program, with its hooks, on this terminal.
func (sh *shell) session(ctx context.Context, environment string) (err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ex := inEnvironment{sh.environments, environment}
	spec := nod.AgentSpec{Environment: environment, Env: map[string]string{}}
	if !sh.fresh && sh.agent == sh.terminal.Run().Agent {
		spec.Session = sh.terminal.Run().Session
	}
	if sh.upstream != nil {
		pass, err := sh.models.Open(gateway.Route{Environment: environment, Upstream: sh.upstream, Meter: sh.terminal.Meter()})
		if err != nil {
			return err
		}
		defer pass.Close()
		spec.Env[sh.variable] = pass.Token.Reveal()
	}
	decide, err := time.ParseDuration(sh.cfg.DecisionTime)
	if err != nil {
		return nod.E(nod.Invalid, "decision_time is not a duration", err)
	}
	channel, err := hook.Open(ctx, ex, hook.Config{Approve: sh.terminal.Approve, Deadline: decide, Log: sh.log})
	if err != nil {
		return err
	}
	var work sync.WaitGroup
	work.Go(func() {
		for e := range channel.Events() {
			sh.terminal.Keep(ctx, e)
		}
	})
	defer func() {
		grace, done := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer done()
		err = errors.Join(err, channel.Stop(grace))
		stop(nil)
		work.Wait()
	}()
	settings, err := channel.Settings()
	if err != nil {
		return err
	}
	command, err := sh.adapter.Terminal(ctx, ex, spec, settings, sh.size())
	if err != nil {
		return err
	}
	work.Go(func() {
		if err := sh.terminal.Gone(ctx); ctx.Err() == nil {
			stop(err)
		}
	})
	return sh.attach(ctx, ex, command)
}

// size is that of this terminal; the usual one where it has none.
func (sh *shell) size() nod.Window {
	w, h, err := term.GetSize(int(sh.in.Fd()))
	if err != nil || w <= 0 || h <= 0 || w > 10_000 || h > 10_000 {
		return nod.Window{Rows: 24, Columns: 80}
	}
	return nod.Window{Rows: uint16(h), Columns: uint16(w)}
}

// attach joins this terminal with the command's until the command or ctx ends.
func (sh *shell) attach(ctx context.Context, ex nod.Executor, c nod.Command) (err error) {
	proc, err := ex.Exec(context.WithoutCancel(ctx), c)
	if err != nil {
		return nod.E(nod.Unavailable, "the agent's program could not be started", err)
	}
	was, err := term.MakeRaw(int(sh.in.Fd()))
	if err != nil {
		return errors.Join(nod.E(nod.Internal, "the terminal cannot be made raw", err), sh.kill(ctx, proc))
	}
	defer func() { err = errors.Join(err, term.Restore(int(sh.in.Fd()), was)) }()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	typed, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(typed)
		sh.typing(proc.Stdin(), over)
	}()
	defer func() {
		close(over)
		<-typed
	}()
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		_, _ = io.Copy(sh.out, proc.Stdout()) // an error is the end of it
		_, _ = io.Copy(io.Discard, proc.Stderr())
	}()
	for {
		select {
		case <-resized:
			if t, ok := proc.(nod.Terminal); ok {
				if err := t.Resize(sh.size()); err != nil {
					sh.log.Debug("resize the terminal", "err", err)
				}
			}
			continue
		case <-shown:
		case <-ctx.Done():
		}
		break
	}
	if err := sh.kill(ctx, proc); err != nil {
		return err
	}
	<-shown
	if _, err := proc.Wait(); err != nil {
		return nod.E(nod.Unavailable, "the agent's program ended and nobody knows how", err)
	}
	return context.Cause(ctx)
}

// typePoll is how soon typing ends once the command has: what is typed after that is
// not for it.
const typePoll = 100 * time.Millisecond

// typing hands on what is typed here until over is closed.
func (sh *shell) typing(to io.Writer, over <-chan struct{}) {
	buf := make([]byte, 4<<10)
	for {
		select {
		case <-over:
			return
		default:
		}
		ready := []unix.PollFd{{Fd: int32(sh.in.Fd()), Events: unix.POLLIN}}
		if n, err := unix.Poll(ready, int(typePoll/time.Millisecond)); n == 0 || errors.Is(err, unix.EINTR) {
			continue
		}
		n, err := sh.in.Read(buf)
		if err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return // the command takes no more
		}
	}
}

func (sh *shell) kill(ctx context.Context, proc nod.Process) error {
	grace, done := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer done()
	if err := proc.Kill(grace); err != nil {
		return nod.E(nod.Unavailable, "the agent cannot be proven to be gone", err)
	}
	return nil
}

// environments is where the directories of environments are.
func (c Config) environments() string { return filepath.Join(c.StateDir, "environments") }
