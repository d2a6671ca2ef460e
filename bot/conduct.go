package bot

import (
	"context"
	"time"

	"nod"
)

// conduct makes sure that a goroutine carries task forward, until the task has
// ended or ctx has.
func (b *Bot) conduct(ctx context.Context, task string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tasks[task] || ctx.Err() != nil {
		return
	}
	b.tasks[task] = true
	b.wg.Go(func() {
		defer func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			delete(b.tasks, task)
		}()
		b.carry(ctx, task)
	})
}

// carry takes one step after the other. Between steps that change nothing it
// waits for the next event of the task; everything it decides, it decides from
// the store, so it can be killed at any point.
func (b *Bot) carry(ctx context.Context, task string) {
	var seen int64
	for attempt := 1; ctx.Err() == nil; {
		c, err := b.Ledger.Case(ctx, task)
		if err == nil {
			var more bool
			if more, err = b.step(ctx, c); err == nil && more {
				attempt = 1
				continue
			}
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			b.log.Error("step", "task", task, "attempt", attempt, "err", err)
			pause(ctx, backoff(attempt))
			attempt++
			continue
		}
		if c.Task.Done() {
			return
		}
		events, err := b.Queues.Wait(ctx, task, seen)
		if err != nil && ctx.Err() == nil {
			b.log.Error("wait for events", "task", task, "err", err)
			pause(ctx, b.cfg.Tick)
		}
		seen = last(events, seen)
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// step does the next thing that the state of c calls for and reports whether it
// did one. It is the whole life of a task in one place.
func (b *Bot) step(ctx context.Context, c nod.Case) (bool, error) {
	if more, err := b.settle(ctx, c); more || err != nil {
		return more, err
	}
	set, known, err := b.settings(c.Task)
	if err != nil {
		return false, err
	}
	switch {
	case c.Task.Done():
		return b.clean(ctx, c)
	case !known:
		return true, b.giveUp(ctx, c, "the repository left the configuration")
	case c.Task.State == nod.TaskQueued:
		return b.queued(ctx, c, set)
	case c.Task.State == nod.TaskAwaitingGuidance && !c.Blocked():
		_, err := b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
			return true, b.unblock(c, ch)
		})
		return true, err
	case c.Task.State == nod.TaskReadyForReview:
		return b.followUp(ctx, c)
	case c.Task.State != nod.TaskRunning:
		return false, nil
	}
	run := c.Run
	switch {
	case run == nil:
		if wait, err := b.preflight(ctx, c, set); wait || err != nil {
			return wait, err
		}
		return true, b.begin(ctx, c, set)
	case run.Live():
		// Nobody in this process drives it, or this step would not be here.
		return true, b.endRun(ctx, c.Task.ID, run.ID, nod.RunInterrupt, nod.E(nod.Unavailable, "nod was restarted", nil))
	case run.State == nod.RunPaused:
		if run.Reason == parkedReason {
			return true, b.unpark(ctx, c, set)
		}
		return b.unpause(ctx, c, set)
	case run.State == nod.RunInterrupted:
		return true, b.resume(ctx, c, set)
	case run.State == nod.RunFailed:
		return true, b.afterFailure(ctx, c, set)
	case run.State == nod.RunStopped:
		return b.publish(ctx, c, set)
	}
	return false, nil
}
