package bot

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"nod"
)

// effectTime bounds one performance of an effect, pushTime that of a push.
const (
	effectTime = 2 * time.Minute
	pushTime   = 15 * time.Minute // commits may have to be made one by one, at GitHub's pace
)

// effectLoop performs what was intended, in order per repository.
func (b *Bot) effectLoop(ctx context.Context) {
	tick := time.NewTicker(b.cfg.Tick)
	defer tick.Stop()
	var mu sync.Mutex
	busy := map[int64]bool{}
	for {
		due, err := b.Queues.DueEffects(ctx)
		if err != nil && ctx.Err() == nil {
			b.log.Error("read due effects", "err", err)
		}
		for _, e := range due {
			if e.Kind != nod.EffectNotify && b.quiet() {
				continue
			}
			mu.Lock()
			taken := busy[e.ID]
			busy[e.ID] = true
			mu.Unlock()
			if taken {
				continue
			}
			b.wg.Go(func() {
				b.perform(ctx, e)
				mu.Lock()
				delete(busy, e.ID)
				mu.Unlock()
				ring(b.decided)
			})
		}
		select {
		case <-ctx.Done():
			return
		case <-b.decided:
		case <-tick.C:
		}
	}
}

// longestSlow bounds how much longer nod waits than GitHub asked for.
const longestSlow = time.Hour

// slowDown keeps everything off GitHub after a limit, which is the App's and not one
// effect's: for as long as GitHub asked, and twice as long each time it is hit again.
func (b *Bot) slowDown(wait time.Duration, attempt int) time.Duration {
	for range attempt - 1 {
		if wait*2 > longestSlow {
			break
		}
		wait *= 2
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if until := b.cfg.Now().Add(wait); until.After(b.slow) {
		b.slow = until
	}
	return wait
}

// quiet reports whether nothing may be written to GitHub now.
func (b *Bot) quiet() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cfg.Now().Before(b.slow)
}

// perform does one effect and records its outcome. One that was begun before is
// looked up first.
func (b *Bot) perform(ctx context.Context, e nod.Effect) {
	limit := effectTime
	if e.Kind == nod.EffectPush {
		limit = pushTime
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c, err := b.caseOf(ctx, e)
	if err != nil {
		b.log.Error("read the task of an effect", "effect", e.Key, "err", err)
		return
	}
	if why := moot(c, e); why != "" {
		e.State, e.Error = nod.EffectAbandoned, why
		if err := b.record(ctx, e); err != nil && ctx.Err() == nil {
			b.log.Error("abandon effect", "effect", e.Key, "err", err)
		}
		return
	}
	if held, err := b.ration(ctx, c, e); held || err != nil {
		if err != nil && ctx.Err() == nil {
			b.log.Error("hold a push back", "effect", e.Key, "err", err)
		}
		return
	}
	begun := e.Attempt > 0
	if err := b.Queues.BeginEffect(ctx, &e); err != nil {
		if nod.CodeOf(err) != nod.Conflict && ctx.Err() == nil {
			b.log.Error("begin effect", "effect", e.Key, "err", err)
		}
		return
	}
	outcome, err := b.attempt(ctx, c.Task, e, begun)
	e.Outcome, e.Error, e.NotBefore = outcome, "", time.Time{}
	switch code := nod.CodeOf(err); {
	case err == nil:
		e.State = nod.EffectDone
	case ctx.Err() != nil || e.Kind == nod.EffectNotify && code != nod.Invalid || code == nod.Unavailable || code == nod.RateLimited || code == nod.Internal:
		wait := backoff(e.Attempt)
		if e.Kind == nod.EffectPush || e.Kind == nod.EffectOpenPR {
			wait = doubled(e.Attempt, longestPublish)
		}
		if after, ok := b.cfg.RetryAfter(err); ok {
			wait = after
		}
		if code == nod.RateLimited && e.Kind != nod.EffectNotify {
			wait = b.slowDown(wait, e.Attempt)
		}
		e.NotBefore, e.Error = b.cfg.Now().Add(wait), nod.PublicMessage(err)
		b.log.Warn("effect waits", "effect", e.Key, "attempt", e.Attempt, "err", err)
	case code == nod.NeedsHuman:
		e.State, e.Error = nod.EffectUnknown, nod.PublicMessage(err)
	default:
		e.State, e.Error = nod.EffectRefused, nod.PublicMessage(err)
		b.log.Error("effect refused", "effect", e.Key, "err", err)
	}
	// The outcome is worth more than the context: the act has happened.
	keep, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer done()
	if err := b.record(keep, e); err != nil {
		b.log.Error("record the outcome of an effect", "effect", e.Key, "err", err)
	}
}

// caseOf returns the case of an effect; one of no task has only the place that its
// intent names.
func (b *Bot) caseOf(ctx context.Context, e nod.Effect) (nod.Case, error) {
	if e.Task != "" {
		return b.Ledger.Case(ctx, e.Task)
	}
	var at nod.Place
	if err := json.Unmarshal(e.Intent, &at); err != nil {
		return nod.Case{}, nod.E(nod.Invalid, "an effect of no task does not say where", err)
	}
	return nod.Case{Task: nod.Task{Repo: at.Repo, Installation: at.Installation, Issue: at.Issue}}, nil
}

// moot says why an intended effect is not to happen any more, or "".
func moot(c nod.Case, e nod.Effect) string {
	switch e.Kind {
	case nod.EffectPush, nod.EffectOpenPR:
		if c.Task.Done() {
			return "the task has ended"
		}
	case nod.EffectNotify:
		id, closes := pushOf(e.Key)
		d, ok := find(c, id)
		switch {
		case closes:
		case id == "" && !c.Blocked():
			return "nothing waits any more"
		case ok && d.State != nod.DecisionOpen:
			return "the decision is closed"
		}
	}
	return ""
}

func (b *Bot) attempt(ctx context.Context, t nod.Task, e nod.Effect, begun bool) (json.RawMessage, error) {
	performer := b.Effects[e.Kind]
	if performer == nil {
		return nil, nod.E(nod.Unsupported, "nothing performs effects of kind "+string(e.Kind), nil)
	}
	if begun {
		outcome, err := performer.Lookup(ctx, t, e)
		if err != nil || outcome != nil {
			return outcome, err
		}
	}
	outcome, err := performer.Perform(ctx, t, e)
	if err == nil && outcome == nil {
		outcome = json.RawMessage("{}")
	}
	return outcome, err
}

// record writes what came of an effect, and what follows from it at once.
func (b *Bot) record(ctx context.Context, e nod.Effect) error {
	if e.Task == "" {
		if e.State == nod.EffectUnknown { // an answer to a command is not worth a question
			e.State = nod.EffectAbandoned
		}
		return b.Ledger.Apply(ctx, &nod.Change{By: nod.Supervisor(), Effects: []*nod.Effect{&e}})
	}
	_, err := b.update(ctx, nod.Supervisor(), e.Task, func(c *nod.Case, ch *nod.Change) (bool, error) {
		done := e
		ch.Effects = append(ch.Effects, &done)
		var comment nod.CommentOutcome
		if e.Kind == nod.EffectStatusComment && e.State == nod.EffectDone &&
			json.Unmarshal(e.Outcome, &comment) == nil && comment.ID != c.Task.CommentID && !c.Task.Done() {
			c.Task.CommentID = comment.ID
			ch.Tasks = append(ch.Tasks, &c.Task)
		}
		if e.State != nod.EffectUnknown || c.Task.Done() {
			return true, nil
		}
		return true, b.open(c, ch, func(nod.Task) (nod.Decision, string) {
			return nod.Decision{Kind: nod.Question, Cause: nod.CauseEffectUnknown, Blocking: true, Subject: e.Key,
				Options: []string{nod.Retry, nod.Cancel}}, fmt.Sprintf("It is not known whether this happened: %s\n%s", e.Kind, e.Error)
		})
	})
	return err
}

// settle acts on the answers about unknown effects and reports whether it did.
func (b *Bot) settle(ctx context.Context, c nod.Case) (bool, error) {
	for i := range c.Effects {
		e := c.Effects[i]
		if e.State != nod.EffectUnknown {
			continue
		}
		d, ok := aboutEffect(c, e.Key)
		if !ok || d.State == nod.DecisionOpen {
			continue
		}
		on, by := nod.EffectAbandon, nod.Supervisor()
		if d.State == nod.DecisionAnswered {
			by = d.AnsweredBy
		}
		if d.Answer == nod.Retry {
			on = nod.EffectRedo
		}
		if err := e.On(on); err != nil {
			return false, err
		}
		e.Attempt = 0
		return true, b.Ledger.Apply(ctx, &nod.Change{By: by, Effects: []*nod.Effect{&e}})
	}
	return false, nil
}

// aboutEffect returns the newest question about the effect with key.
func aboutEffect(c nod.Case, key string) (nod.Decision, bool) {
	for _, d := range slices.Backward(c.Decisions) {
		if d.Cause == nod.CauseEffectUnknown && d.Subject == key {
			return d, true
		}
	}
	return nod.Decision{}, false
}
