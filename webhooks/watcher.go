package webhooks

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"nod"
)

// atOnce is how many repositories are looked at at the same time.
const atOnce = 2

// Happenings is GitHub's API, asked what happened.
type Happenings interface {
	// Happened lists what happened in repo since mark, oldest first, and the mark of
	// the next look; an empty mark begins now. It may tell again what it told before,
	// under the same key.
	Happened(ctx context.Context, repo nod.Repo, mark string) (list []nod.Happening, next string, err error)
}

// Marks keeps, durably, how far a poller has come.
type Marks interface {
	Mark(ctx context.Context, name string) (string, error) // "" when it never looked
	SetMark(ctx context.Context, name, mark string) error
}

// WatcherConfig is what a Watcher needs to know.
type WatcherConfig struct {
	Happenings Happenings // required
	Known      Known      // required
	Marks      Marks      // required
	Receiver   *Receiver  // required; its table is what the watcher fills
	Repos      []nod.Repo // required
	Every      time.Duration
	RetryAfter func(err error) (time.Duration, bool) // what GitHub asked for; may be nil
	Log        *slog.Logger                          // required
}

// Watcher needs no webhook: it asks GitHub's API what happened in each repository and
// makes of it the deliveries that a webhook would have sent, with the same semantic
// keys. It may run beside the receiver and the Poller.
type Watcher struct {
	cfg  WatcherConfig
	turn chan struct{} // a slot for each look under way

	mu   sync.Mutex
	over map[string]map[string]bool // by repository, the GUIDs of its last look that are done with but have no row
}

// NewWatcher checks cfg and makes a Watcher. Every is a minute when it is 0.
func NewWatcher(cfg WatcherConfig) (*Watcher, error) {
	if cfg.Happenings == nil || cfg.Known == nil || cfg.Marks == nil || cfg.Receiver == nil || cfg.Log == nil || cfg.Every < 0 || len(cfg.Repos) == 0 {
		return nil, nod.E(nod.Invalid, "the watcher needs GitHub's API, a store, a receiver, repositories and a logger", nil)
	}
	cfg.Every = cmp.Or(cfg.Every, time.Minute)
	return &Watcher{cfg: cfg, turn: make(chan struct{}, atOnce), over: map[string]map[string]bool{}}, nil
}

// Run looks at every repository until ctx ends. It does not return before the looks
// under way have ended.
func (w *Watcher) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, repo := range w.cfg.Repos {
		all.Go(func() {
			repeat(ctx, w.cfg.Every, w.cfg.RetryAfter, func(ctx context.Context) error {
				select {
				case w.turn <- struct{}{}:
				case <-ctx.Done():
					return ctx.Err()
				}
				defer func() { <-w.turn }()
				_, err := w.Look(ctx, repo)
				return err
			}, func(err error, wait time.Duration) {
				w.cfg.Log.WarnContext(ctx, "look at repository", "repo", repo.String(), "err", err, "again_in", wait)
			})
		})
	}
	all.Wait()
}

// Look looks at one repository once and returns how many deliveries it stored. After
// an error the next look begins where this one did. It must not be called twice at
// once for the same repository.
func (w *Watcher) Look(ctx context.Context, repo nod.Repo) (stored int, err error) {
	name := "watch/" + repo.Key()
	mark, err := w.cfg.Marks.Mark(ctx, name)
	if err != nil {
		return 0, fmt.Errorf("read mark: %w", err)
	}
	list, next, err := w.cfg.Happenings.Happened(ctx, repo, mark)
	if err != nil {
		return 0, err
	}
	guids := make([]string, len(list))
	for i, h := range list {
		guids[i] = guidOf(h)
	}
	known, err := w.cfg.Known.Known(ctx, guids...)
	if err != nil {
		return 0, fmt.Errorf("look up deliveries: %w", err)
	}
	w.mu.Lock()
	before, over := w.over[name], map[string]bool{}
	w.over[name] = over
	w.mu.Unlock()
	for i, h := range list {
		if known[guids[i]] {
			continue
		}
		over[guids[i]] = true
		if before[guids[i]] {
			continue
		}
		outcome, err := w.cfg.Receiver.Take(ctx, guids[i], h.Event, h.Payload)
		switch {
		case nod.CodeOf(err) == nod.Invalid && err != nil:
			w.cfg.Log.WarnContext(ctx, "what happened makes no sense", "delivery", guids[i], "event", h.Event, "err", err)
		case err != nil:
			delete(over, guids[i])
			return stored, fmt.Errorf("take what happened: %w", err)
		case outcome == Accepted:
			stored++
		}
	}
	if next == mark {
		return stored, nil
	}
	if err := w.cfg.Marks.SetMark(ctx, name, next); err != nil {
		return stored, fmt.Errorf("keep mark: %w", err)
	}
	return stored, nil
}

// guidOf is the GUID of a delivery that GitHub never made. It has a colon in it, which
// no delivery by HTTP can have.
func guidOf(h nod.Happening) string { return "poll:" + nod.Digest([]byte(h.Key))[:32] }

// repeat calls f, and again every so often, until ctx ends. After failures it waits
// ever longer, up to mostWait, or as long as GitHub asked for.
func repeat(ctx context.Context, every time.Duration, after func(error) (time.Duration, bool), f func(context.Context) error, failed func(err error, wait time.Duration)) {
	wait := every
	for {
		pause := every
		switch err := f(ctx); {
		case ctx.Err() != nil:
			return
		case err == nil:
			wait = every
		default:
			wait = min(2*wait, max(mostWait, every))
			pause = wait
			if after != nil {
				if asked, ok := after(err); ok {
					pause = max(pause, asked)
				}
			}
			failed(err, pause)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}
