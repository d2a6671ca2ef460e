package bot

import (
	"context"

	"nod"
)

// goUnchecked is the answer that lets a result be shown though nothing checked it.
const goUnchecked = "go on unchecked"

// mayGoUnchecked reports whether somebody has said so for this task.
func mayGoUnchecked(c nod.Case) bool {
	for _, d := range c.Decisions {
		if d.Cause == nod.CausePrepareFailed && d.State == nod.DecisionAnswered && d.Answer == goUnchecked {
			return true
		}
	}
	return false
}

// askUnchecked asks about a result of a repository without a check.
func (b *Bot) askUnchecked(ctx context.Context, c nod.Case) error {
	run := c.Run.ID
	_, err := b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Task.State != nod.TaskRunning {
			return false, nil
		}
		return true, b.open(c, ch, func(nod.Task) (nod.Decision, string) {
			return nod.Decision{Run: run, Kind: nod.Question, Cause: nod.CausePrepareFailed, Blocking: true, Subject: "No check is configured",
					Options: []string{goUnchecked, nod.Retry, nod.Cancel}},
				`Nothing would test this result. Set "check" for the repository, or "check": "none" not to be asked again, and retry; or go on without.`
		})
	})
	return err
}

// uncheckedBecause says in a pull request why no check ran.
func uncheckedBecause(c nod.Case) string {
	if mayGoUnchecked(c) {
		return "none is configured, and somebody let it go on unchecked"
	}
	return "none, by configuration"
}
