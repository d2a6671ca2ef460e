package bot

import (
	"context"
	"fmt"
	"slices"
	"time"

	"nod"
)

// unfinished are the states in which a task has work left.
var unfinished = []nod.TaskState{nod.TaskQueued, nod.TaskRunning, nod.TaskAwaitingGuidance, nod.TaskReadyForReview}

// keepWork is how long the commits of a task are kept that ended without a merge.
const keepWork = 30 * 24 * time.Hour

// beforeReview are those in which closing the issue cancels.
var beforeReview = []nod.TaskState{nod.TaskQueued, nod.TaskRunning, nod.TaskAwaitingGuidance}

// recover brings the store and the machine together after a start: environments
// of a dead process are stopped, its live runs are interrupted, and every
// unfinished task gets its conductor back.
func (b *Bot) recover(ctx context.Context) error {
	defer b.verb("sweep")()
	running, err := b.Environments.List(ctx)
	if err != nil {
		return fmt.Errorf("list environments: %w", err)
	}
	for _, id := range running {
		if err := b.Environments.Stop(ctx, id); err != nil {
			return fmt.Errorf("stop environment %s: %w", id, err)
		}
	}
	tasks, err := b.Ledger.Tasks(ctx)
	if err != nil {
		return fmt.Errorf("read tasks: %w", err)
	}
	for _, t := range tasks {
		c, err := b.Ledger.Case(ctx, t.ID)
		if err != nil {
			return err
		}
		if c.Environment != nil && c.Environment.State == nod.EnvironmentRunning {
			if _, err := b.moveEnvironment(ctx, t.ID, nod.EnvironmentStop, func(*nod.Environment) {}); err != nil {
				return err
			}
		}
		if c.Run != nil && (c.Run.State == nod.RunStarting || c.Run.State == nod.RunRunning) {
			if err := b.endRun(ctx, t.ID, c.Run.ID, nod.RunInterrupt, nod.E(nod.Unavailable, "nod was restarted", nil)); err != nil {
				return err
			}
		}
		if ago := b.cfg.Now().Sub(t.UpdatedAt); t.Done() && ago > keepWork && ago < 2*keepWork {
			if err := b.Git.Forget(ctx, t); err != nil {
				return fmt.Errorf("forget commits: %w", err)
			}
		}
		b.conduct(ctx, t.ID)
		b.retract(ctx, t.ID)
	}
	return nil
}

// listen rings for effects whenever anything is committed.
func (b *Bot) listen(ctx context.Context) {
	var seen int64
	for ctx.Err() == nil {
		events, err := b.Queues.Wait(ctx, "", seen)
		if err != nil {
			if ctx.Err() == nil {
				b.log.Error("wait for events", "err", err)
				pause(ctx, b.cfg.Tick)
			}
			continue
		}
		seen = last(events, seen)
		ring(b.decided)
	}
}

// sweepLoop compares what should be with what is, forever.
func (b *Bot) sweepLoop(ctx context.Context) {
	tick := time.NewTicker(b.cfg.Tick)
	defer tick.Stop()
	var swept time.Time
	for ctx.Err() == nil {
		if _, err := b.Queues.ExpireDecisions(ctx); err != nil && ctx.Err() == nil {
			b.log.Error("expire decisions", "err", err)
		}
		b.unseat(ctx)
		if now := b.cfg.Now(); now.Sub(swept) >= b.cfg.SweepEvery {
			swept = now
			b.reconcile(ctx)
		}
		select {
		case <-ctx.Done():
		case <-b.resweep:
			swept = time.Time{}
		case <-tick.C:
		}
	}
}

// reconcile starts what carries the trigger label without a task, as a label
// event that was missed would have.
func (b *Bot) reconcile(ctx context.Context) {
	defer b.verb("sweep")()
	tasks, err := b.Ledger.Tasks(ctx, unfinished...)
	if err != nil {
		b.log.Error("read tasks", "err", err)
		return
	}
	for _, t := range tasks {
		b.conduct(ctx, t.ID)
		if err := b.reread(ctx, t); err != nil && ctx.Err() == nil {
			b.log.Warn("read the issue of a task", "task", t.ID, "err", err)
		}
		if t.State != nod.TaskReadyForReview {
			continue
		}
		if _, err := b.look(ctx, t.ID, nil); err != nil && ctx.Err() == nil {
			b.log.Warn("look after a pull request", "task", t.ID, "err", err)
		}
	}
	for _, set := range b.cfg.Repos {
		if !b.reached(set.Repo) {
			continue
		}
		issues, err := b.GitHub.Labelled(ctx, set.Repo, b.cfg.TriggerLabel)
		if err != nil {
			b.log.Warn("list labelled issues", "repo", set.Repo.String(), "err", err)
			continue
		}
		for _, i := range issues {
			if i.Labeller.Kind == "" { // GitHub forgot who it was: nobody to trust
				i.Labeller = nod.Actor{Kind: nod.ActorGitHub, Host: b.cfg.Host}
			}
			o := nod.Occurrence{Kind: nod.IssueLabeled, Repo: set.Repo, Installation: i.Installation, Issue: i.Number, Sender: i.Labeller, Label: b.cfg.TriggerLabel, At: i.LabelledAt}
			if note, err := b.accept(ctx, set, o, nil); err != nil {
				b.log.Warn("accept a missed label", "repo", set.Repo.String(), "issue", i.Number, "err", err)
			} else if note == "" {
				b.log.Info("a label was missed", "repo", set.Repo.String(), "issue", i.Number)
			}
		}
	}
}

// reread cancels a task whose issue was closed without nod having been told.
func (b *Bot) reread(ctx context.Context, t nod.Task) error {
	if !slices.Contains(beforeReview, t.State) {
		return nil
	}
	issue, err := b.GitHub.Issue(ctx, t.Installation, t.Repo, t.Issue)
	if err != nil || issue.Open {
		return err
	}
	o := nod.Occurrence{Kind: nod.IssueClosed, Repo: t.Repo, Installation: t.Installation, Issue: t.Issue, Sender: nod.Supervisor(), At: issue.UpdatedAt}
	_, err = b.withdraw(ctx, o, nil, "the issue was closed", beforeReview...)
	return err
}
