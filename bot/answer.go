package bot

import (
	"context"
	"slices"

	"nod"
)

// questions are the causes whose answers say how a stuck task goes on.
var questions = []nod.Cause{nod.CauseRunFailed, nod.CauseAuthExpired, nod.CausePrepareFailed, nod.CauseRebaseConflict, nod.CausePublishFailed}

// lastQuestion returns the newest answered question of how to go on with run.
func lastQuestion(c nod.Case, run string) (nod.Decision, bool) {
	for _, d := range slices.Backward(c.Decisions) {
		if d.Run == run && slices.Contains(questions, d.Cause) {
			return d, d.State == nod.DecisionAnswered
		}
	}
	return nod.Decision{}, false
}

// askAgain asks how a stuck task is to go on: try again, give the agent other
// words, or give up.
func (b *Bot) askAgain(ctx context.Context, c nod.Case, cause nod.Cause, subject, why string) error {
	run := c.Run.ID
	_, err := b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Task.State != nod.TaskRunning {
			return false, nil
		}
		return true, b.open(c, ch, b.stuck(cause, run, subject, why))
	})
	return err
}

// stuck makes the question of how to go on with what a run left.
func (b *Bot) stuck(cause nod.Cause, run, subject, why string) func(nod.Task) (nod.Decision, string) {
	return func(nod.Task) (nod.Decision, string) {
		return nod.Decision{Run: run, Kind: nod.Question, Cause: cause, Blocking: true, Subject: subject,
			Options: []string{nod.Retry, nod.Rework, nod.Cancel}, FreeText: true}, why
	}
}

// obey acts on an answer that is not a plain retry: cancel gives up, anything
// else starts another run that is told why.
func (b *Bot) obey(ctx context.Context, c nod.Case, q nod.Decision) error {
	if q.Answer == nod.Cancel {
		return b.giveUp(ctx, c, "cancelled by "+q.AnsweredBy.Show())
	}
	briefing := "Your last result could not be published: " + q.Input
	if q.Cause == nod.CauseRebaseConflict {
		briefing += "\nThe newest target branch is here now, as origin/" + c.Task.BaseRef + ": rebase your work onto it and resolve the conflicts."
	}
	if q.Answer != nod.Rework && q.Answer != nod.Retry {
		briefing += "\nThe maintainer says: " + q.Answer
	}
	if q.Reason != "" {
		briefing += "\nThe maintainer says: " + q.Reason
	}
	c, err := b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		c.Task.Briefing = briefing
		ch.Tasks = append(ch.Tasks, &c.Task)
		return true, nil
	})
	if err != nil {
		return err
	}
	set, _, err := b.settings(c.Task)
	if err != nil {
		return err
	}
	return b.begin(ctx, c, set)
}

// newest returns the newest answered question of how a stuck task is to go on.
func newest(c nod.Case) (nod.Decision, bool) {
	for _, d := range slices.Backward(c.Decisions) {
		if slices.Contains(questions, d.Cause) && d.State == nod.DecisionAnswered {
			return d, true
		}
	}
	return nod.Decision{}, false
}

// afterFailure goes on from a failed run as its question was answered.
func (b *Bot) afterFailure(ctx context.Context, c nod.Case, set RepoSettings) error {
	q, ok := lastQuestion(c, c.Run.ID)
	switch {
	case !ok:
		_, err := b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
			return true, b.open(c, ch, b.failure(nod.CauseRunFailed, c.Run.ID, "The run failed", c.Run.Reason))
		})
		return err
	case q.Answer == nod.Cancel:
		return b.giveUp(ctx, c, "cancelled by "+q.AnsweredBy.Show())
	}
	return b.begin(ctx, c, set)
}

// giveUp cancels a task for a reason.
func (b *Bot) giveUp(ctx context.Context, c nod.Case, why string) error {
	_, err := b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Task.Done() {
			return false, nil
		}
		return true, b.cancel(c, ch, why)
	})
	return err
}

// cancel puts the end of a task into ch: its state, its open decisions, its live run.
func (b *Bot) cancel(c *nod.Case, ch *nod.Change, why string) error {
	c.Task.Reason = why
	supersede(c, ch, func(nod.Decision) bool { return true })
	return b.move(c, ch, nod.TaskCancel)
}
