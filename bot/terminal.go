package bot

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"nod"
)

// Seats tell in which environments somebody sits at a terminal.
type Seats interface {
	// Taken reports whether a terminal is open in the environment now.
	Taken(environment string) bool
	// Sat reports whether one was since the environment was last started.
	Sat(environment string) bool
}

// TerminalConfig is what a Terminal needs. All of it is required.
type TerminalConfig struct {
	Repos        map[string]RepoSettings // as Config's, and so are the next ones
	TriggerLabel string
	Environments string
	DecisionTime time.Duration
	Push         func(d nod.Decision, t nod.Task, w nod.Telling) nod.Push
	Note         func(n nod.Note, t nod.Task) nod.Push
	Neutralize   func(text string) string
	Link         func(task string) string
	Secret       func(text string) bool
	Now          func() time.Time
	Log          *slog.Logger
	Ledger       Ledger
	Queues       Queues
	Closings     Closings
	Usage        Usage
}

// Terminal is a session that a person has with an agent in the environment of a task
// whose own agent is paused. Its prompts are judged, asked about, answered and counted
// as those of the paused run, which stays paused. Close it.
type Terminal struct {
	b     *Bot
	c     nod.Case
	set   RepoSettings
	meter *meter
	stop  context.CancelFunc
	work  sync.WaitGroup
}

// OpenTerminal begins one, in a process of its own beside a serving nod. It is a
// Conflict unless a person has paused the task's agent.
func OpenTerminal(ctx context.Context, cfg TerminalConfig, task string) (*Terminal, error) {
	b := &Bot{cfg: Config{Repos: cfg.Repos, TriggerLabel: cfg.TriggerLabel, Environments: cfg.Environments, DecisionTime: cfg.DecisionTime, Push: cfg.Push, Note: cfg.Note,
		Neutralize: cfg.Neutralize, Link: cfg.Link, Secret: cfg.Secret, Now: cfg.Now, Log: cfg.Log, Observe: func(string, time.Duration) {}}.filled(),
		Ports: Ports{Ledger: cfg.Ledger, Queues: cfg.Queues, Closings: cfg.Closings, Usage: cfg.Usage}, log: cfg.Log, meters: map[*meter]bool{}}
	c, err := b.Ledger.Case(ctx, task)
	if err != nil {
		return nil, err
	}
	set, known, err := b.settings(c.Task)
	switch {
	case err != nil:
		return nil, err
	case !known:
		return nil, nod.E(nod.NotFound, "the task's repository is not in the configuration", nil)
	case c.Task.Done() || c.Run == nil || c.Run.State != nod.RunPaused || c.Run.Reason == parkedReason || c.Environment == nil || c.Environment.State == nod.EnvironmentDeleted:
		return nil, &nod.Error{Code: nod.Conflict, Msg: "the task's agent is not paused", Hint: "nod pause " + c.Task.Short() + ", while it runs"}
	}
	b.seated = c.Run.ID
	m, err := b.meter(ctx, c, set)
	if err != nil {
		return nil, err
	}
	if err := b.affordable(ctx, m); err != nil {
		return nil, err
	}
	opened := nod.NewEvent(task, nod.Audit, nod.EventTerminalOpened, nod.Actor{Kind: nod.ActorHost}, map[string]string{"run": c.Run.ID})
	if err := b.Ledger.Apply(ctx, &nod.Change{By: nod.Actor{Kind: nod.ActorHost}, Events: []*nod.Event{&opened}}); err != nil {
		return nil, err
	}
	t := &Terminal{b: b, c: c, set: set, meter: m}
	live, stop := context.WithCancel(context.WithoutCancel(ctx))
	t.stop = stop
	t.work.Go(func() { b.attend(live, m) })
	return t, nil
}

// Run is the paused run.
func (t *Terminal) Run() nod.Run { return *t.c.Run }

// Environment is where the session runs.
func (t *Terminal) Environment() nod.EnvironmentSpec { return t.b.environmentSpec(t.c, t.set) }

// Meter is what the way to the model tells what it is used for.
func (t *Terminal) Meter() nod.Meter { return t.meter }

// Approve judges a prompt: by rule first, then by a person.
func (t *Terminal) Approve(ctx context.Context, r nod.ApprovalRequest) nod.ApprovalAnswer {
	return t.b.approver(t.c, t.set)(ctx, r)
}

// Keep stores an event of the session.
func (t *Terminal) Keep(ctx context.Context, e nod.Event) {
	t.b.keep(ctx, t.c.Task.ID, t.c.Run.ID, e, t.meter)
}

// Gone returns when the terminal must close, and why: the task has ended or its own
// agent goes on.
func (t *Terminal) Gone(ctx context.Context) error {
	var seen int64
	for {
		c, err := t.b.Ledger.Case(ctx, t.c.Task.ID)
		switch {
		case err != nil:
			return err
		case c.Task.Done():
			return nod.E(nod.Conflict, "the task is "+string(c.Task.State)+" "+c.Task.Reason, nil)
		case c.Run == nil || c.Run.ID != t.c.Run.ID || c.Run.State != nod.RunPaused:
			return nod.E(nod.Conflict, "the task's own agent goes on", nil)
		}
		events, err := t.b.Queues.Wait(ctx, t.c.Task.ID, seen)
		if err != nil {
			return err
		}
		seen = last(events, seen)
	}
}

// Close ends it: nothing that it asked stays open.
func (t *Terminal) Close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	b, task, run := t.b, t.c.Task.ID, t.c.Run.ID
	b.settleUsage(ctx, task, run, t.meter)
	t.stop()
	t.work.Wait()
	b.wg.Wait()
	_, err := b.update(ctx, nod.Supervisor(), task, func(c *nod.Case, ch *nod.Change) (bool, error) {
		supersede(c, ch, func(d nod.Decision) bool { return d.Run == run && !d.SurvivesRestart() })
		closed := nod.NewEvent(task, nod.Audit, nod.EventTerminalClosed, nod.Actor{Kind: nod.ActorHost}, map[string]string{"run": run})
		ch.Events = append(ch.Events, &closed)
		return true, b.unblock(c, ch)
	})
	return err
}

// unseat supersedes what a terminal asked that is gone without having closed: it was
// killed, and nobody waits for an answer any more.
func (b *Bot) unseat(ctx context.Context) {
	if b.Seats == nil {
		return
	}
	tasks, err := b.Ledger.Tasks(ctx, nod.TaskAwaitingGuidance)
	if err != nil {
		b.log.Error("read tasks", "err", err)
		return
	}
	for _, t := range tasks {
		c, err := b.Ledger.Case(ctx, t.ID)
		if err != nil {
			b.log.Error("read task", "task", t.ID, "err", err)
			continue
		}
		if c.Run == nil || c.Run.State != nod.RunPaused || b.Seats.Taken(c.Run.Environment) {
			continue
		}
		for _, d := range c.Open() {
			if d.Run == c.Run.ID && !d.SurvivesRestart() {
				b.dismiss(t.ID, d.ID)
			}
		}
	}
}
