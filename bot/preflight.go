package bot

import (
	"context"
	"slices"
	"strings"

	"nod"
)

// startAnyway is the answer that sends a task on though its result may be refused.
const startAnyway = "start anyway"

// preflight looks, before a task's first run, for what would refuse its result at the
// end, and asks. It reports whether it did something that the task now waits for.
func (b *Bot) preflight(ctx context.Context, c nod.Case, set RepoSettings) (bool, error) {
	if q, ok := preflightQuestion(c); ok {
		switch {
		case q.Answer == nod.Cancel:
			return true, b.giveUp(ctx, c, "cancelled by "+q.AnsweredBy.Show())
		case q.Answer != nod.Retry:
			return false, nil
		}
	}
	pushed := c.Task
	if forwards(set, pushed) {
		pushed.Branch = pushed.BaseRef
	}
	problems, err := b.Preflight.Preflight(ctx, pushed, set.Sign)
	if err != nil {
		return false, err
	}
	why, err := b.misplaced(ctx, c.Task, set)
	if err != nil {
		return false, err
	}
	if why != "" {
		problems = append(problems, why)
	}
	if len(problems) == 0 {
		return false, nil
	}
	_, err = b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Task.State != nod.TaskRunning || c.Run != nil {
			return false, nil
		}
		return true, b.open(c, ch, func(nod.Task) (nod.Decision, string) {
			return nod.Decision{Kind: nod.Question, Cause: nod.CausePublishFailed, Blocking: true, Subject: "GitHub would refuse the result",
				Options: []string{nod.Retry, startAnyway, nod.Cancel}}, strings.Join(problems, "\n")
		})
	})
	return true, err
}

// preflightQuestion returns the newest answered question that was asked before the first run.
func preflightQuestion(c nod.Case) (nod.Decision, bool) {
	for _, d := range slices.Backward(c.Decisions) {
		if d.Cause == nod.CausePublishFailed && d.Run == "" {
			return d, d.State == nod.DecisionAnswered
		}
	}
	return nod.Decision{}, false
}

// guarded names the protected files of a prepared result, or refuses it.
func guarded(files []nod.FileChange, p Protection) (note string, err error) {
	touched := p.touched(files)
	if len(touched) == 0 {
		return "", nil
	}
	const most = 5
	names := strings.Join(touched[:min(most, len(touched))], ", ")
	if n := len(touched) - most; n > 0 {
		names += " and " + plural(n, "more file")
	}
	if p.Forbid {
		return "", nod.E(nod.Forbidden, "the work changes protected files, which this repository does not allow: "+names, nil)
	}
	return "; changes protected files: " + names, nil
}
