package bot

import (
	"context"
	"slices"

	"nod"
)

// pauseRun ends the process of a running agent and keeps its session and its
// environment. What the agent had asked is superseded: a new process will not know
// that it asked.
func (b *Bot) pauseRun(ctx context.Context, a nod.Act) error {
	_, err := b.update(ctx, a.By, a.Task, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Run == nil || c.Run.State != nod.RunRunning {
			return false, nod.E(nod.Conflict, "no agent is running", nil)
		}
		if err := c.Run.On(nod.RunPause); err != nil {
			return false, err
		}
		c.Run.Cooperative, c.Run.Reason = false, "paused by "+a.By.Show()
		ch.Runs = append(ch.Runs, c.Run)
		supersede(c, ch, func(d nod.Decision) bool { return d.Run == c.Run.ID && !d.SurvivesRestart() })
		return true, b.unblock(c, ch)
	})
	return err // watch sees it and stops the session
}

// unpause lets a paused run go on once a person wants that, as a new process that
// resumes the session. It does not count against the attempts of the run.
func (b *Bot) unpause(ctx context.Context, c nod.Case, set RepoSettings) (bool, error) {
	if b.Acts == nil {
		return false, nil
	}
	wanted, err := b.Acts.WantedActs(ctx)
	if err != nil {
		return false, err
	}
	for _, a := range wanted {
		if a.Task != c.Task.ID || a.Kind != nod.ActResume {
			continue
		}
		c, err := b.goOnPaused(ctx, a)
		if err != nil {
			return false, err
		}
		briefing := resumeBriefing(c)
		if a.Words != "" {
			briefing += "\nThe maintainer says: " + a.Words
		}
		return true, b.launch(ctx, c, set, briefing)
	}
	return false, nil
}

// goOnPaused moves the paused run of a's task on, and finishes a.
func (b *Bot) goOnPaused(ctx context.Context, a nod.Act) (nod.Case, error) {
	b.resuming.Lock()
	defer b.resuming.Unlock()
	c, err := b.update(ctx, a.By, a.Task, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Run == nil || c.Run.State != nod.RunPaused {
			return false, nod.E(nod.Conflict, "the agent is not paused", nil)
		}
		c.Run.Attempt, c.Run.Reason = 1, ""
		ch.Runs = append(ch.Runs, c.Run)
		return true, c.Run.On(nod.RunRestart)
	})
	if err != nil {
		return c, err
	}
	return c, b.Acts.FinishAct(context.WithoutCancel(ctx), a.ID, nod.ActDone, "goes on")
}

// refuseResume refuses to resume what is not paused. Otherwise a stays wanted: the
// task's conductor does it.
func (b *Bot) refuseResume(ctx context.Context, a nod.Act) (nod.ActState, string) {
	b.resuming.Lock()
	defer b.resuming.Unlock()
	wanted, err := b.Acts.WantedActs(ctx)
	if err != nil || !slices.ContainsFunc(wanted, func(w nod.Act) bool { return w.ID == a.ID }) {
		return nod.ActWanted, "" // not known, or done meanwhile
	}
	if c, err := b.Ledger.Case(ctx, a.Task); err != nil || c.Run != nil && c.Run.State == nod.RunPaused {
		return nod.ActWanted, ""
	}
	return nod.ActRefused, "the agent is not paused"
}

func (b *Bot) isPaused(ctx context.Context, task, run string) bool {
	c, err := b.Ledger.Case(context.WithoutCancel(ctx), task)
	return err == nil && c.Run != nil && c.Run.ID == run && c.Run.State == nod.RunPaused
}

// setKept says whether an environment was left running on purpose by this process,
// so that nothing of a dead one can live in it, and returns what was said before.
func (b *Bot) setKept(environment string, kept bool) (was bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	was = b.kept[environment]
	delete(b.kept, environment)
	if kept {
		b.kept[environment] = true
	}
	return was
}
