package bot

import (
	"context"
	"fmt"
	"time"

	"nod"
)

// This file follows what others do to a task's branch and pull request. An event says
// only that something happened; what GitHub shows afterwards decides.

const (
	// goneWait and goneLooks are how often a branch is looked for again that GitHub
	// does not find: for a moment after a push it may not show one that is there.
	goneWait  = 2 * time.Second
	goneLooks = 3
)

// pullRequestClosed completes or cancels the task whose branch it was.
func (b *Bot) pullRequestClosed(ctx context.Context, o nod.Occurrence, d *nod.Delivery) (string, error) {
	t, err := b.inReview(ctx, o.Repo, o.HeadRef)
	if err != nil || t.ID == "" {
		return "not a pull request of nod", err
	}
	return b.closed(ctx, o.Sender, t.ID, &receipt{delivery: d}, o.Merged, "the pull request was closed")
}

// pullOf is the number of the task's pull request, or 0.
func pullOf(c nod.Case) int {
	if c.Revision == nil {
		return 0
	}
	return c.Revision.PullRequest.Number
}

// closed does what follows from a pull request that is not open any more. A merge ends
// another round that is under way: what that would have brought is not wanted any
// more, so the task is taken back to where it was delivered, and completes from there.
func (b *Bot) closed(ctx context.Context, by nod.Actor, task string, r *receipt, merged bool, why string) (note string, err error) {
	for again := true; again && err == nil; {
		_, err = b.update(ctx, by, task, func(c *nod.Case, ch *nod.Change) (bool, error) {
			note, again = "", false
			if c.Task.Done() || pullOf(*c) == 0 {
				note = "the task is " + string(c.Task.State)
				return false, nil
			}
			c.Task.Rework = ""
			if !merged || c.Task.State == nod.TaskReadyForReview {
				finish(ch, r)
				c.Revision.PullRequest.State, c.Revision.PullRequest.Merged = "closed", merged
				ch.Revisions = append(ch.Revisions, c.Revision)
				return true, b.end(c, ch, merged, why)
			}
			again = true
			supersede(c, ch, func(nod.Decision) bool { return true })
			if c.Task.State == nod.TaskAwaitingGuidance {
				return true, b.move(c, ch, nod.TaskAnswered)
			}
			return true, b.move(c, ch, nod.TaskDeliver)
		})
	}
	return note, err
}

func (b *Bot) end(c *nod.Case, ch *nod.Change, merged bool, why string) error {
	if !merged {
		return b.cancel(c, ch, why)
	}
	supersede(c, ch, func(nod.Decision) bool { return true })
	c.Task.Reason = ""
	return b.move(c, ch, nod.TaskMerge)
}

// branchMoved looks after the branch of a task that somebody pushed to or deleted.
func (b *Bot) branchMoved(ctx context.Context, o nod.Occurrence, r *receipt) (string, error) {
	t, err := b.inReview(ctx, o.Repo, o.HeadRef)
	if err != nil || t.ID == "" {
		return "not a branch that nod works on", err
	}
	return b.look(ctx, t.ID, r)
}

// look reads branch and pull request of a task back and says or does what follows.
func (b *Bot) look(ctx context.Context, task string, r *receipt) (note string, err error) {
	c, err := b.Ledger.Case(ctx, task)
	if err != nil {
		return "", err
	}
	on := publishedSHA(c)
	if c.Task.Done() || pullOf(c) == 0 || on == "" {
		return "nothing was published yet", nil
	}
	// Of the revision only where it is matters here: another may be on its way.
	seen, err := b.GitHub.Delivered(ctx, c.Task, *c.Revision)
	for n := 1; err == nil && seen.BranchSHA == "" && seen.PullRequest.State == "open" && n < goneLooks; n++ {
		pause(ctx, goneWait)
		seen, err = b.GitHub.Delivered(ctx, c.Task, *c.Revision)
	}
	if err != nil {
		return "", fmt.Errorf("read back: %w", err)
	}
	switch pull := seen.PullRequest; {
	case pull.Number == 0 || pull.State == "open":
	case !pull.Merged && seen.BranchSHA == "":
		return b.closed(ctx, nod.Supervisor(), task, r, false, "somebody deleted the branch "+c.Task.Branch+
			", and with it the pull request was closed. Nothing is lost: `nod bundle "+c.Task.Short()+" FILE`")
	default:
		return b.closed(ctx, nod.Supervisor(), task, r, pull.Merged, "the pull request was closed")
	}
	_, err = b.update(ctx, nod.Supervisor(), task, func(c *nod.Case, ch *nod.Change) (bool, error) {
		note = ""
		on, odd := publishedSHA(*c), ""
		switch {
		case c.Task.Done() || pullOf(*c) == 0:
			note = "the task is " + string(c.Task.State)
			return false, nil
		case seen.BranchSHA == "":
			odd = "somebody deleted the branch " + c.Task.Branch
		case seen.BranchSHA != on && !pushing(*c):
			odd = fmt.Sprintf("somebody else moved the branch %s: it is at %.12s, and nod left it at %.12s. nod never overwrites that; another round goes on top of it", c.Task.Branch, seen.BranchSHA, on)
		}
		if odd == c.Task.Reason || c.Task.State != nod.TaskReadyForReview && odd == "" {
			note = "the branch is where it was"
			return false, nil
		}
		finish(ch, r)
		c.Task.Reason = odd
		ch.Tasks = append(ch.Tasks, &c.Task)
		return true, b.tell(c, ch, fmt.Sprintf("branch/%d", c.Task.Version+1))
	})
	return note, err
}

// pushing reports whether nod itself may be moving the branch.
func pushing(c nod.Case) bool {
	for _, e := range c.Effects {
		if e.Kind == nod.EffectPush && (e.State == nod.EffectIntended || e.State == nod.EffectUnknown) {
			return true
		}
	}
	return false
}
