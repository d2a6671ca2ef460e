package bot

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"nod"
)

// Keys of pushes: notifyKey, the decision's id, and what about it. One that tells of
// all that waits for a task has together and the task's id in the decision's place.
const (
	notifyKey   = "notify/"
	remindKey   = "/remind/" // then its number
	secondKey   = "/second"
	closedKey   = "/closed" // behind the key of the push that it takes back
	togetherKey = notifyKey + "together/"
)

// pushOf takes the key of a push apart: the decision it tells of, "" for one that
// tells of all, and whether it takes another one back.
func pushOf(key string) (decision string, closes bool) {
	key, closes = strings.CutSuffix(key, closedKey)
	if strings.HasPrefix(key, togetherKey) {
		return "", closes
	}
	decision, _, _ = strings.Cut(strings.TrimPrefix(key, notifyKey), "/")
	return decision, closes
}

// phone puts the push with key into ch. Its name on the phone is what identifies the
// push it shows, so that the one that takes it back takes its place.
func (b *Bot) phone(c *nod.Case, ch *nod.Change, key string, d nod.Decision, w nod.Telling, notBefore time.Time) error {
	p := b.cfg.Push(d, c.Task, w)
	p.Sequence = strings.ReplaceAll(strings.TrimPrefix(strings.TrimSuffix(key, closedKey), notifyKey), "/", "-")
	if err := b.intend(c, ch, nod.EffectNotify, key, "", p); err != nil {
		return err
	}
	ch.Effects[len(ch.Effects)-1].NotBefore = notBefore
	return nil
}

// tellLoop reminds of what nobody looked at and takes back what nobody needs to look
// at any more.
func (b *Bot) tellLoop(ctx context.Context) {
	since, spent := b.cfg.Now().Add(-b.cfg.Tick), map[string]bool{}
	var seen int64
	for ctx.Err() == nil {
		b.remind(ctx, spent)
		wait, done := context.WithTimeout(ctx, b.cfg.Tick)
		events, err := b.Queues.Wait(wait, "", seen)
		late := wait.Err() != nil
		done()
		if err != nil && !late {
			b.log.Error("wait for events", "err", err)
			pause(ctx, b.cfg.Tick)
		}
		seen = last(events, seen)
		tasks := map[string]bool{}
		for _, e := range events {
			if !e.At.Before(since) && endsAPush(e) && !tasks[e.Stream] {
				tasks[e.Stream] = true
				b.retract(ctx, e.Stream)
			}
		}
	}
}

// endsAPush reports whether after e there may be a push to take back.
func endsAPush(e nod.Event) bool {
	if e.Kind == nod.EventDecisionClosed {
		return true
	}
	var f nod.Effect
	return e.Kind == nod.EventEffectOutcome && json.Unmarshal(e.Data, &f) == nil && f.Kind == nod.EffectNotify
}

// retract intends the pushes that take back those a phone may show although nothing
// waits behind them any more.
func (b *Bot) retract(ctx context.Context, task string) {
	_, err := b.update(ctx, nod.Supervisor(), task, func(c *nod.Case, ch *nod.Change) (bool, error) {
		known := map[string]bool{}
		for _, e := range c.Effects {
			known[e.Key] = true
		}
		for _, e := range c.Effects {
			id, closes := pushOf(e.Key)
			if e.Kind != nod.EffectNotify || closes || e.Attempt == 0 || e.State == nod.EffectIntended || e.State == nod.EffectRefused || known[e.Key+closedKey] {
				continue
			}
			d, ok := find(*c, id)
			if id != "" && (!ok || d.State == nod.DecisionOpen) || id == "" && c.Blocked() {
				continue
			}
			var p nod.Push
			if err := json.Unmarshal(e.Intent, &p); err != nil {
				return false, nod.E(nod.Internal, "an intent cannot be read", err)
			}
			if err := b.phone(c, ch, e.Key+closedKey, d, nod.Telling{Second: p.Second, Closed: true, Together: id == ""}, time.Time{}); err != nil {
				return false, err
			}
		}
		return len(ch.Effects) > 0, nil
	})
	if err != nil && ctx.Err() == nil {
		b.log.Error("take pushes back", "task", task, "err", err)
	}
}

// remind intends the reminders that are due, and the push through the second
// channel. It keeps in spent of which decisions nobody will be reminded any more.
func (b *Bot) remind(ctx context.Context, spent map[string]bool) {
	if b.Sights == nil {
		return
	}
	unseen, err := b.Sights.Unseen(ctx)
	if err != nil && ctx.Err() == nil {
		b.log.Error("read what nobody looked at", "err", err)
	}
	for _, d := range unseen {
		if spent[d.ID] || b.cfg.Now().Sub(d.CreatedAt) < b.cfg.RemindAfter {
			continue
		}
		_, err := b.update(ctx, nod.Supervisor(), d.Task, func(c *nod.Case, ch *nod.Change) (bool, error) {
			d, ok := find(*c, d.ID)
			if !ok || d.State != nod.DecisionOpen {
				return false, nil
			}
			var err error
			spent[d.ID], err = b.remindOf(c, ch, d)
			return len(ch.Effects) > 0, err
		})
		if err != nil && ctx.Err() == nil {
			b.log.Error("remind", "task", d.Task, "decision", d.ID, "err", err)
		}
	}
}

// remindOf puts what is due about d into ch: the second channel once, and the next
// reminder. Each one waits twice as long as the one before it, counted from when the
// phone was last told; while a push is still on its way there is nothing to remind of.
// It reports whether this was the last.
func (b *Bot) remindOf(c *nod.Case, ch *nod.Change, d nod.Decision) (spent bool, err error) {
	now, reminders, second := b.cfg.Now(), 0, false
	told, under := d.CreatedAt, false
	for _, e := range c.Effects {
		id, closes := pushOf(e.Key)
		if e.Kind != nod.EffectNotify || closes || id != d.ID && (id != "" || e.CreatedAt.Before(d.CreatedAt)) {
			continue
		}
		if strings.HasSuffix(e.Key, secondKey) {
			second = true
			continue
		}
		if strings.Contains(e.Key, remindKey) {
			reminders++
		}
		if under = under || e.State == nod.EffectIntended; e.UpdatedAt.After(told) {
			told = e.UpdatedAt
		}
	}
	if b.cfg.SecondChannel && !second {
		if err := b.phone(c, ch, notifyKey+d.ID+secondKey, d, nod.Telling{Second: true}, time.Time{}); err != nil {
			return false, err
		}
	}
	if reminders >= b.cfg.Reminders {
		return true, nil
	}
	if under || now.Sub(told) < b.cfg.RemindAfter<<reminders {
		return false, nil
	}
	reminders++
	return false, b.phone(c, ch, notifyKey+d.ID+remindKey+strconv.Itoa(reminders), d, nod.Telling{Reminder: reminders}, time.Time{})
}
