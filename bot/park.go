package bot

import (
	"context"
	"fmt"
	"slices"
	"time"

	"nod"
)

// parkLeast is the shortest time that a run is parked: a model that says "in a
// second" and refuses again must not be asked forever.
const parkLeast = 30 * time.Second

// parkedReason is why a parked run is paused; a person's pause has another.
const parkedReason = "the model's quota is used up"

// park pauses a run whose model takes no more. Where it says until when, the run
// goes on then by itself unless somebody says otherwise: the question's deadline is
// the timer. Where it does not, nothing is guessed and the run waits for the answer.
func (b *Bot) park(ctx context.Context, task, run string, until time.Time) error {
	now := b.cfg.Now()
	if !until.IsZero() && until.Before(now.Add(parkLeast)) {
		until = now.Add(parkLeast)
	}
	b.log.Warn("run parked", "task", task, "run", run, "until", until)
	_, err := b.update(ctx, nod.Supervisor(), task, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Run == nil || c.Run.ID != run || c.Run.Done() || c.Task.Done() {
			return false, nil
		}
		if err := c.Run.On(nod.RunPause); err != nil {
			return false, err
		}
		c.Run.Cooperative, c.Run.Reason = false, parkedReason
		ch.Runs = append(ch.Runs, c.Run)
		supersede(c, ch, func(d nod.Decision) bool { return d.Run == run && !d.SurvivesRestart() })
		return true, b.open(c, ch, parked(run, until))
	})
	return err
}

// parked makes the question about a parked run.
func parked(run string, until time.Time) func(nod.Task) (nod.Decision, string) {
	return func(nod.Task) (nod.Decision, string) {
		d := nod.Decision{Run: run, Kind: nod.Question, Cause: nod.CauseQuotaExhausted, Blocking: true, Subject: "The model's quota is used up",
			Options: []string{nod.Resume, nod.Cancel}}
		if until.IsZero() {
			return d, "The model takes no more, and does not say until when. The session is kept, and so is what is said to it meanwhile. It goes on when you say so."
		}
		d.Deadline, d.Options = until, []string{nod.Resume, nod.Hold, nod.Cancel}
		return d, fmt.Sprintf("The model takes no more until %s. The session is kept, and so is what is said to it meanwhile. It goes on then by itself, unless you say otherwise.",
			until.UTC().Format("2006-01-02 15:04:05 MST"))
	}
}

// unpark goes on with a parked run as its question ended: at its deadline or by the
// word of a person the same session is resumed.
func (b *Bot) unpark(ctx context.Context, c nod.Case, set RepoSettings) error {
	var q nod.Decision
	for _, d := range slices.Backward(c.Decisions) {
		if d.Run == c.Run.ID && d.Cause == nod.CauseQuotaExhausted {
			q = d
			break
		}
	}
	switch {
	case q.State == nod.DecisionAnswered && q.Answer == nod.Cancel:
		return b.giveUp(ctx, c, "cancelled by "+q.AnsweredBy.Show())
	case q.State == nod.DecisionExpired, q.State == nod.DecisionAnswered && q.Answer == nod.Resume:
	default: // held, or asked by nobody
		_, err := b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
			if c.Task.State != nod.TaskRunning {
				return false, nil
			}
			return true, b.open(c, ch, parked(c.Run.ID, time.Time{}))
		})
		return err
	}
	c, err := b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Run == nil || c.Run.State != nod.RunPaused {
			return false, nil
		}
		c.Run.Reason = ""
		ch.Runs = append(ch.Runs, c.Run)
		return true, c.Run.On(nod.RunRestart)
	})
	if err != nil || c.Run == nil || c.Run.State != nod.RunStarting {
		return err
	}
	briefing := resumeBriefing(c)
	if q.Reason != "" {
		briefing += "\nThe maintainer says: " + q.Reason
	}
	return b.launch(ctx, c, set, briefing)
}
