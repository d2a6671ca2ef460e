package bot

import (
	"context"
	"fmt"
	"time"

	"nod"
)

const (
	maxDeliveryAttempts = 8
	firstRetry          = 2 * time.Second
	longestRetry        = 10 * time.Minute
	longestPublish      = 24 * time.Hour // of what a person allowed and nobody may lose
)

// backoff doubles from firstRetry with each attempt, up to longestRetry.
func backoff(attempt int) time.Duration { return doubled(attempt, longestRetry) }

func doubled(attempt int, longest time.Duration) time.Duration {
	d := firstRetry
	for range attempt - 1 {
		if d *= 2; d >= longest {
			return longest
		}
	}
	return d
}

// receivers is how many deliveries are handled at once, each of another issue.
const receivers = 4

// receiveLoop drains the table of deliveries, in order per issue.
func (b *Bot) receiveLoop(ctx context.Context) {
	for range receivers - 1 {
		b.wg.Go(func() { b.drain(ctx) })
	}
	b.drain(ctx)
}

func (b *Bot) drain(ctx context.Context) {
	tick := time.NewTicker(b.cfg.Tick)
	defer tick.Stop()
	for {
		for ctx.Err() == nil {
			d, err := b.Queues.LeaseDelivery(ctx, b.cfg.LeaseTime)
			if nod.CodeOf(err) == nod.NotFound && err != nil {
				break
			}
			if err != nil {
				if ctx.Err() == nil {
					b.log.Error("lease delivery", "err", err)
				}
				break
			}
			ring(b.arrived) // there may be one for another worker too
			b.receive(ctx, d)
		}
		select {
		case <-ctx.Done():
			return
		case <-b.arrived:
		case <-tick.C:
		}
	}
}

// receive makes of one delivery what it means, and records how that went.
func (b *Bot) receive(ctx context.Context, d nod.Delivery) {
	defer b.verb("receive")()
	note, err := b.handle(ctx, &d)
	if err == nil && note == "" {
		return // the change that acted on it finished it too
	}
	switch code := nod.CodeOf(err); {
	case err == nil:
		d.State, d.Note = nod.DeliveryIgnored, note
	case ctx.Err() != nil:
		return // the lease runs out
	case (code == nod.Unavailable || code == nod.RateLimited || code == nod.Conflict) && d.Attempt < maxDeliveryAttempts:
		wait := backoff(d.Attempt)
		if after, ok := b.cfg.RetryAfter(err); ok {
			wait = after
		}
		d.State, d.NotBefore, d.Note = nod.DeliveryPending, b.cfg.Now().Add(wait), nod.PublicMessage(err)
	default:
		b.log.Error("delivery given up", "delivery", d.GUID, "event", d.Event, "attempt", d.Attempt, "err", err)
		d.State, d.Note = nod.DeliveryDead, nod.PublicMessage(err)
	}
	d.LeaseUntil = time.Time{}
	if err := b.Ledger.Apply(ctx, &nod.Change{By: nod.Supervisor(), Deliveries: []*nod.Delivery{&d}}); err != nil && ctx.Err() == nil {
		b.log.Error("record delivery", "delivery", d.GUID, "err", err)
	}
}

// handle acts on a delivery. An empty note and no error mean that the delivery
// was finished in the same transaction as what it led to; a note says why there
// was nothing to do.
func (b *Bot) handle(ctx context.Context, d *nod.Delivery) (note string, err error) {
	o, err := b.Parse(*d)
	if err != nil {
		return "", err
	}
	if o == nil {
		return "nothing for nod to do", nil
	}
	if o.Kind == nod.InstallationChanged {
		e := nod.NewEvent(nod.SupervisorStream, nod.Audit, nod.EventInstallation, o.Sender, o)
		return "", b.Ledger.Apply(ctx, finish(&nod.Change{By: o.Sender, Events: []*nod.Event{&e}}, &receipt{delivery: d}))
	}
	set, ok := b.repo(o.Repo)
	if !ok {
		return "the repository is not in the configuration", nil
	}
	switch o.Kind {
	case nod.IssueLabeled:
		if !b.isTrigger(o.Label) {
			return "another label", nil
		}
		return b.accept(ctx, set, *o, &receipt{delivery: d})
	case nod.IssueUnlabeled:
		if !b.isTrigger(o.Label) {
			return "another label", nil
		}
		return b.withdraw(ctx, *o, &receipt{delivery: d}, "the label was removed before the start", nod.TaskQueued)
	case nod.IssueClosed:
		return b.withdraw(ctx, *o, &receipt{delivery: d}, "the issue was closed", beforeReview...)
	case nod.PullRequestClosed:
		return b.pullRequestClosed(ctx, *o, d)
	case nod.ReviewSubmitted, nod.ReviewCommentCreated:
		return b.review(ctx, set, *o, &receipt{delivery: d})
	case nod.CheckSuiteCompleted:
		return b.checked(ctx, set, *o, &receipt{delivery: d})
	case nod.BranchMoved:
		return b.branchMoved(ctx, *o, &receipt{delivery: d})
	case nod.CommentCreated:
		return b.command(ctx, set, *o, d)
	}
	return "", nod.E(nod.Internal, fmt.Sprintf("occurrence %q has no handler", o.Kind), nil)
}

// withdraw cancels the issue's task if it is in one of states.
func (b *Bot) withdraw(ctx context.Context, o nod.Occurrence, r *receipt, why string, states ...nod.TaskState) (string, error) {
	t, err := b.taskAt(ctx, o.Repo, o.Issue)
	if nod.CodeOf(err) == nod.NotFound && err != nil {
		return nod.PublicMessage(err), nil
	}
	if err != nil {
		return "", err
	}
	if o.At.Before(t.AskedAt) { // told late or out of order
		return "that was before the task was asked for", nil
	}
	note := ""
	_, err = b.update(ctx, o.Sender, t.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		note = ""
		for _, s := range states {
			if c.Task.State == s {
				finish(ch, r)
				return true, b.cancel(c, ch, why)
			}
		}
		note = "the task is " + string(c.Task.State)
		return false, nil
	})
	return note, err
}
