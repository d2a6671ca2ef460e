package bot

import (
	"context"
	"fmt"
	"sync"
	"time"

	"nod"
)

// A phone is told at most paceMax times in paceWindow of one task. What is above
// that is put together into one push at the end of the window when it blocks, and
// left to the inbox when it does not.
const (
	paceMax    = 6
	paceWindow = time.Minute
)

// pace counts the pushes of each task in the current window. It is not kept: after
// a restart a window begins anew.
type pace struct {
	mu     sync.Mutex
	window time.Time
	told   map[string]int
}

// take reports whether one more push of task fits the window that now is in, and
// when that ends.
func (p *pace) take(task string, now time.Time) (ok bool, end time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := now.UTC().Truncate(paceWindow); !w.Equal(p.window) {
		p.window, p.told = w, map[string]int{}
	}
	if p.told[task] >= paceMax {
		return false, p.window.Add(paceWindow)
	}
	p.told[task]++
	return true, p.window.Add(paceWindow)
}

// ration holds back a push that is one too many, and reports whether it did. It is
// asked before the first attempt only: what was begun is never given up for it.
func (b *Bot) ration(ctx context.Context, c nod.Case, e nod.Effect) (held bool, err error) {
	id, closes := pushOf(e.Key)
	d, ok := find(c, id)
	if e.Kind != nod.EffectNotify || e.Attempt > 0 || closes || id == "" || !ok {
		return false, nil
	}
	fits, end := b.pace.take(e.Task, b.cfg.Now())
	if fits {
		return false, nil
	}
	e.State, e.Error = nod.EffectAbandoned, "too many pushes for this task: it is in the inbox"
	if d.Blocking {
		e.Error = "too many pushes for this task: told together with others"
	}
	_, err = b.update(ctx, nod.Supervisor(), e.Task, func(c *nod.Case, ch *nod.Change) (bool, error) {
		held := e
		ch.Effects = append(ch.Effects, &held)
		if !d.Blocking {
			return true, nil
		}
		// One key for a window: however many are held back, one push tells of them.
		return true, b.phone(c, ch, fmt.Sprintf("%s%s/%d", togetherKey, e.Task, end.Unix()), nod.Decision{Blocking: true}, nod.Telling{Together: true}, end)
	})
	return true, err
}
