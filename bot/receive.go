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

// receiveLoop drains the table of deliveries, in order per issue. Each tick sends one
// worker to look, since a look takes the store's only writer; who finds something wakes
// the next.
func (b *Bot) receiveLoop(ctx context.Context) {
	for range receivers {
		b.wg.Go(func() { b.drain(ctx) })
	}
	tick := time.NewTicker(b.cfg.Tick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			ring(b.arrived)
		}
	}
}

func (b *Bot) drain(ctx context.Context) {
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
		if err := b.Ledger.Apply(ctx, finish(&nod.Change{By: o.Sender, Events: []*nod.Event{&e}}, &receipt{delivery: d})); err != nil {
			return "", err
		}
		b.installed(*o)
		return "", nil
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

// installed keeps the set of repositories that the App reaches. One that was taken away
// is left alone by the sweep until it comes back; one that came is swept at once, for
// the labels that it carries already.
func (b *Bot) installed(o nod.Occurrence) {
	b.mu.Lock()
	for _, r := range o.Removed {
		b.away[r.Key()] = true
	}
	for _, r := range o.Repos {
		delete(b.away, r.Key())
	}
	b.mu.Unlock()
	for _, r := range o.Repos {
		if _, ok := b.repo(r); !ok {
			b.log.Info("the app was installed for a repository that is not in the configuration", "repo", r.String())
		}
	}
	if len(o.Repos) > 0 {
		ring(b.resweep)
	}
}

// reached reports whether the App reaches a repository, as far as it was told.
func (b *Bot) reached(r nod.Repo) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.away[r.Key()]
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
