package bot

import (
	"context"
	"strings"

	"nod"
)

// actLoop does what people want done, as it is recorded, and first what an earlier
// process left.
func (b *Bot) actLoop(ctx context.Context) {
	if b.Acts == nil {
		return
	}
	var seen int64
	for ctx.Err() == nil {
		wanted, err := b.Acts.WantedActs(ctx)
		if err != nil && ctx.Err() == nil {
			b.log.Error("read wanted acts", "err", err)
		}
		for _, a := range wanted {
			state, note := b.act(ctx, a)
			if state == nod.ActWanted {
				continue
			}
			if err := b.Acts.FinishAct(context.WithoutCancel(ctx), a.ID, state, note); err != nil {
				b.log.Error("finish act", "task", a.Task, "act", string(a.Kind), "err", err)
			}
		}
		events, err := b.Queues.Wait(ctx, "", seen)
		if err != nil && ctx.Err() == nil {
			b.log.Error("wait for events", "err", err)
			pause(ctx, b.cfg.Tick)
		}
		seen = last(events, seen)
	}
}

// act does one thing and says how it went. What the task's conductor has to do stays
// wanted.
func (b *Bot) act(ctx context.Context, a nod.Act) (nod.ActState, string) {
	c, err := b.Ledger.Case(ctx, a.Task)
	if err == nil && c.Task.Done() {
		return nod.ActRefused, "the task is " + string(c.Task.State)
	}
	note := ""
	switch {
	case err != nil:
	case a.Kind == nod.ActSay:
		note, err = b.pass(ctx, a)
	case a.Kind == nod.ActPause:
		note, err = "paused", b.pauseRun(ctx, a)
	case a.Kind == nod.ActResume:
		return b.refuseResume(ctx, a)
	case a.Kind == nod.ActCancel:
		note, err = "cancelled", b.giveUp(ctx, c, strings.TrimSuffix("cancelled by "+a.By.Show()+": "+a.Words, ": "))
	default:
		err = nod.E(nod.Unsupported, "nobody knows how to do this", nil)
	}
	if err != nil {
		b.log.Warn("act", "task", a.Task, "act", string(a.Kind), "err", err)
		return nod.ActRefused, nod.PublicMessage(err)
	}
	return nod.ActDone, note
}

// pass gives words to the live session, or keeps them for the next run, and says
// which.
func (b *Bot) pass(ctx context.Context, a nod.Act) (string, error) {
	if session := b.session(a.Task); session != nil {
		err := session.Instruct(ctx, a.Words)
		if err == nil {
			return "handed to the agent", nil
		}
		b.log.Warn("instruct agent", "task", a.Task, "err", err)
	}
	_, err := b.update(ctx, a.By, a.Task, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Task.Done() {
			return false, nod.E(nod.Conflict, "the task is "+string(c.Task.State), nil)
		}
		remember(c, "The maintainer says: "+a.Words)
		ch.Tasks = append(ch.Tasks, &c.Task)
		return true, nil
	})
	return "no agent is listening: kept for its next start", err
}

// remember keeps words for the task's next start: of the run that is under way, or of
// another one, for which a task in review goes back to work.
func remember(c *nod.Case, words string) {
	if c.Run != nil && c.Run.Done() {
		c.Task.Rework = join(c.Task.Rework, words)
		return
	}
	c.Task.Briefing = join(c.Task.Briefing, words)
}
