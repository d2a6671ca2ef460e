package bot

import (
	"context"
	"fmt"
	"strings"
	"time"

	"nod"
	"nod/policy"
)

const (
	maxDeliveryAttempts = 8
	firstRetry          = 2 * time.Second
	longestRetry        = 10 * time.Minute
)

// backoff doubles from firstRetry with each attempt, up to longestRetry.
func backoff(attempt int) time.Duration {
	d := firstRetry
	for range attempt - 1 {
		if d *= 2; d >= longestRetry {
			return longestRetry
		}
	}
	return d
}

// receiveLoop drains the table of deliveries, in order per issue.
func (b *Bot) receiveLoop(ctx context.Context) {
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
		return "", b.Ledger.Apply(ctx, finish(&nod.Change{By: o.Sender, Events: []*nod.Event{&e}}, d))
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
		return b.accept(ctx, set, *o, d)
	case nod.IssueUnlabeled:
		if !b.isTrigger(o.Label) {
			return "another label", nil
		}
		return b.withdraw(ctx, *o, d, "the label was removed before the start", nod.TaskQueued)
	case nod.IssueClosed:
		return b.withdraw(ctx, *o, d, "the issue was closed", nod.TaskQueued, nod.TaskRunning, nod.TaskAwaitingGuidance)
	case nod.PullRequestClosed:
		return b.pullRequestClosed(ctx, *o, d)
	case nod.CommentCreated:
		return b.command(ctx, set, *o, d)
	}
	return "", nod.E(nod.Internal, fmt.Sprintf("occurrence %q has no handler", o.Kind), nil)
}

// finish lets ch finish delivery d as well; d is nil when there is none.
func finish(ch *nod.Change, d *nod.Delivery) *nod.Change {
	if d != nil {
		d.State, d.LeaseUntil = nod.DeliveryDone, time.Time{}
		ch.Deliveries = append(ch.Deliveries, d)
	}
	return ch
}

// withdraw cancels the issue's task if it is in one of states.
func (b *Bot) withdraw(ctx context.Context, o nod.Occurrence, d *nod.Delivery, why string, states ...nod.TaskState) (string, error) {
	t, err := b.Ledger.TaskOf(ctx, o.Repo, o.Issue)
	if nod.CodeOf(err) == nod.NotFound && err != nil {
		return "no task for this issue", nil
	}
	if err != nil {
		return "", err
	}
	note := ""
	_, err = b.update(ctx, o.Sender, t.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		note = ""
		for _, s := range states {
			if c.Task.State == s {
				finish(ch, d)
				return true, b.cancel(c, ch, why)
			}
		}
		note = "the task is " + string(c.Task.State)
		return false, nil
	})
	return note, err
}

// pullRequestClosed completes or cancels the task whose branch it was.
func (b *Bot) pullRequestClosed(ctx context.Context, o nod.Occurrence, d *nod.Delivery) (string, error) {
	waiting, err := b.Ledger.Tasks(ctx, nod.TaskReadyForReview)
	if err != nil {
		return "", err
	}
	for _, t := range waiting {
		if t.Repo.Key() != o.Repo.Key() || t.Branch != o.HeadRef {
			continue
		}
		note := ""
		_, err := b.update(ctx, o.Sender, t.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
			if note = ""; c.Task.State != nod.TaskReadyForReview {
				note = "the task is " + string(c.Task.State)
				return false, nil
			}
			finish(ch, d)
			if o.Merged {
				return true, b.move(c, ch, nod.TaskMerge)
			}
			return true, b.cancel(c, ch, "the pull request was closed")
		})
		return note, err
	}
	return "not a pull request of nod", nil
}

// commandVerbs is what /nod understands, for the answer to what it does not.
const commandVerbs = "run, retry, cancel, say and status"

// command obeys the first /nod command of a comment.
func (b *Bot) command(ctx context.Context, set RepoSettings, o nod.Occurrence, d *nod.Delivery) (string, error) {
	commands := nod.ParseComment(o.CommentBody)
	if len(commands) == 0 {
		return "no command in it", nil
	}
	cmd := commands[0]
	who := b.GitHub.Standing(ctx, o.Installation, o.Repo, o.Sender)
	v := policy.Command(set.Rules.Commands, cmd.Verb, who)
	starts := cmd.Verb == nod.VerbRun || cmd.Verb == nod.VerbRetry
	if !v.Allows() && !(v.Asks() && starts) { // a start that asks is judged again as a start
		return v.Because.String(), nil
	}
	switch cmd.Verb {
	case nod.VerbRun, nod.VerbRetry:
		return b.accept(ctx, set, o, d)
	case nod.VerbCancel:
		return b.withdraw(ctx, o, d, "cancelled by a comment", nod.TaskQueued, nod.TaskRunning, nod.TaskAwaitingGuidance, nod.TaskReadyForReview)
	case nod.VerbSay:
		return b.say(ctx, o, d, cmd.Arg)
	case nod.VerbStatus:
		return b.restate(ctx, o, d)
	}
	return "the command is not one of " + commandVerbs, nil
}

// say gives words by a trusted person to the live session, or keeps them for
// the next run.
func (b *Bot) say(ctx context.Context, o nod.Occurrence, d *nod.Delivery, words string) (string, error) {
	if strings.TrimSpace(words) == "" {
		return "nothing was said", nil
	}
	t, err := b.Ledger.TaskOf(ctx, o.Repo, o.Issue)
	if nod.CodeOf(err) == nod.NotFound && err != nil {
		return "no task for this issue", nil
	}
	if err != nil {
		return "", err
	}
	session := b.session(t.ID)
	c, err := b.update(ctx, o.Sender, t.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Task.Done() {
			return false, nil
		}
		finish(ch, d)
		e := nod.NewEvent(c.Task.ID, nod.Transcript, nod.EventMessage, o.Sender, nod.Message{Text: words})
		ch.Events = append(ch.Events, &e)
		if session == nil {
			c.Task.Briefing = strings.TrimSpace(c.Task.Briefing + "\n\n" + words)
			ch.Tasks = append(ch.Tasks, &c.Task)
		}
		return true, nil
	})
	switch {
	case err != nil:
		return "", err
	case c.Task.Done():
		return "the task is " + string(c.Task.State), nil
	case session == nil:
		return "", nil
	}
	if err := session.Instruct(ctx, words); err != nil {
		b.log.Warn("instruct agent", "task", t.ID, "err", err)
	}
	return "", nil
}

// restate posts the status comment anew.
func (b *Bot) restate(ctx context.Context, o nod.Occurrence, d *nod.Delivery) (string, error) {
	t, err := b.Ledger.TaskOf(ctx, o.Repo, o.Issue)
	if nod.CodeOf(err) == nod.NotFound && err != nil {
		return "no task for this issue", nil
	}
	if err != nil {
		return "", err
	}
	_, err = b.update(ctx, o.Sender, t.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		finish(ch, d)
		return true, b.tell(c, ch, fmt.Sprintf("asked/%d", o.CommentID))
	})
	return "", err
}
