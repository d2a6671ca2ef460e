package bot

import (
	"context"
	"encoding/json"
	"time"

	"nod"
)

// ask opens a decision about input on a task and returns its id.
func (b *Bot) ask(ctx context.Context, task string, d nod.Decision, input string) (string, error) {
	defer b.verb("ask")()
	id, err := b.id("d", 16)
	if err != nil {
		return "", err
	}
	d.ID = id
	_, err = b.update(ctx, nod.Supervisor(), task, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Task.Done() {
			return false, nod.E(nod.Conflict, "the task has ended", nil)
		}
		if c.Run != nil && c.Run.ID == d.Run && c.Run.State == nod.RunPaused && b.seated != d.Run {
			return false, nod.E(nod.Conflict, "the run is paused", nil)
		}
		if waiting(c, d.Run) >= nod.MaxWaiting && d.Run != "" {
			return false, nod.E(nod.RateLimited, "too many requests wait for an answer", nil)
		}
		open := d
		return true, b.open(c, ch, func(t nod.Task) (nod.Decision, string) { return open, input })
	})
	return id, err
}

// waiting counts the open decisions of one run.
func waiting(c *nod.Case, run string) int {
	n := 0
	for _, d := range c.Open() {
		if d.Run == run {
			n++
		}
	}
	return n
}

// open puts a new decision into ch, with the push that tells of it and the task's
// wait for it.
func (b *Bot) open(c *nod.Case, ch *nod.Change, build func(nod.Task) (nod.Decision, string)) error {
	d, input := build(c.Task)
	if d.ID == "" {
		id, err := b.id("d", 16)
		if err != nil {
			return err
		}
		d.ID = id
	}
	d.Task, d.State, d.Version = c.Task.ID, nod.DecisionOpen, 0
	d.SetInput(input)
	if set, ok, err := b.settings(c.Task); err != nil {
		return err
	} else if ok && d.Takes(nod.Allow) {
		d.Approvals = set.Approvals[d.Cause]
	}
	ch.Decisions = append(ch.Decisions, &d)
	ch.Blobs = append(ch.Blobs, []byte(input))
	c.Decisions = append(c.Decisions, d)
	if d.Blocking && c.Task.State == nod.TaskRunning {
		if err := b.move(c, ch, nod.TaskAsk); err != nil {
			return err
		}
	}
	return b.phone(c, ch, notifyKey+d.ID, d, nod.Telling{}, time.Time{})
}

// failure makes the question that a failure leaves: try again or give up.
func (b *Bot) failure(cause nod.Cause, run, subject, why string) func(nod.Task) (nod.Decision, string) {
	return func(nod.Task) (nod.Decision, string) {
		return nod.Decision{Run: run, Kind: nod.Question, Cause: cause, Blocking: true, Subject: subject,
			Options: []string{nod.Retry, nod.Cancel}}, why
	}
}

// await returns the decision once it is not open any more; told is to be called once
// whoever waits for it has heard, see Closings. It keeps the deadline itself, so that a lost timer elsewhere
// cannot leave it open.
func (b *Bot) await(ctx context.Context, id string, deadline time.Time) (d nod.Decision, told func(), err error) {
	if deadline.IsZero() {
		return b.Closings.Closed(ctx, id)
	}
	for bound := deadline.Sub(b.cfg.Now()); ; bound = b.cfg.Tick {
		wait, cancel := context.WithTimeout(ctx, bound)
		d, told, err := b.Closings.Closed(wait, id)
		late := wait.Err() != nil
		cancel()
		if err == nil || ctx.Err() != nil || !late {
			return d, told, err
		}
		if _, err := b.Queues.ExpireDecisions(ctx); err != nil {
			return nod.Decision{}, told, err
		}
	}
}

func find(c nod.Case, id string) (nod.Decision, bool) {
	for _, d := range c.Decisions {
		if d.ID == id {
			return d, true
		}
	}
	return nod.Decision{}, false
}

// dismiss supersedes a decision that nobody waits for any more.
func (b *Bot) dismiss(task, id string) {
	_, err := b.update(context.Background(), nod.Supervisor(), task, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if d, ok := find(*c, id); !ok || d.State != nod.DecisionOpen {
			return false, nil
		}
		supersede(c, ch, func(d nod.Decision) bool { return d.ID == id })
		return true, b.unblock(c, ch)
	})
	if err != nil {
		b.log.Error("dismiss decision", "task", task, "decision", id, "err", err)
	}
}

// goOnAfter goes on with a task once the agent has heard what it waits for, which ends
// ctx, its prompt's: nothing takes a processor from the agent before.
func (b *Bot) goOnAfter(ctx context.Context, task string, told func()) {
	b.wg.Add(1)
	context.AfterFunc(ctx, func() {
		defer b.wg.Done()
		told()
		b.goOn(task)
	})
}

// goOn takes a task out of its wait once no blocking decision is open any more.
func (b *Bot) goOn(task string) {
	_, err := b.update(context.Background(), nod.Supervisor(), task, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Task.State != nod.TaskAwaitingGuidance || c.Blocked() {
			return false, nil
		}
		return true, b.unblock(c, ch)
	})
	if err != nil {
		b.log.Error("go on with task", "task", task, "err", err)
	}
}

// intend puts an effect into ch. The same key again is the same act and is left
// out by the store.
func (b *Bot) intend(c *nod.Case, ch *nod.Change, kind nod.EffectKind, key, repo string, intent any) error {
	raw, err := json.Marshal(intent)
	if err != nil {
		return nod.E(nod.Internal, "an intent cannot be written as JSON", err)
	}
	ch.Effects = append(ch.Effects, &nod.Effect{Key: key, Task: c.Task.ID, Repo: repo, Kind: kind, Intent: raw, State: nod.EffectIntended})
	return nil
}
