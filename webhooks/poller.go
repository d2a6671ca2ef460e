package webhooks

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"nod"
)

const (
	// DefaultReach is how long GitHub keeps deliveries.
	DefaultReach = 3 * 24 * time.Hour
	// overlap is how far before the last look the next one begins: a delivery is
	// listed only after GitHub tried to deliver it.
	overlap = 15 * time.Minute
	// mostListed bounds one look; mostWait bounds the time between two.
	mostListed = 5000
	mostWait   = 15 * time.Minute
	pollerMark = "deliveries"
)

// Past is a delivery as GitHub remembers it, whether or not anyone took it.
type Past struct {
	ID          int64 // GitHub's, to ask for the payload by
	GUID, Event string
	At          time.Time
}

// History is GitHub's list of the App's deliveries.
type History interface {
	// Past lists deliveries after since, at most limit, newest first.
	Past(ctx context.Context, since time.Time, limit int) ([]Past, error)
	// Payload returns what was delivered; NotFound when GitHub has it no more.
	Payload(ctx context.Context, id int64) ([]byte, error)
}

// Known tells which GUIDs are stored.
type Known interface {
	Known(ctx context.Context, guids ...string) (map[string]bool, error)
}

// PollerConfig is what a Poller needs to know.
type PollerConfig struct {
	History  History       // required
	Known    Known         // required
	Marks    Marks         // required
	Receiver *Receiver     // required; its table is what the poller fills
	Every    time.Duration // between two looks; default 1 min, longer after failures
	Reach    time.Duration // how far back the first look goes; default DefaultReach
	Log      *slog.Logger  // required
	Now      func() time.Time
	// RetryAfter is how long GitHub asked to wait; may be nil.
	RetryAfter func(err error) (time.Duration, bool)
}

// Poller fetches deliveries that never arrived: the hook's URL did not answer, or
// there is none. It may run beside the receiver; what one of them has stored the
// other leaves alone.
type Poller struct {
	cfg  PollerConfig
	seen map[string]time.Time // GUIDs that are done with but have no row: own events, lost payloads
}

// NewPoller checks cfg and makes a Poller.
func NewPoller(cfg PollerConfig) (*Poller, error) {
	if cfg.History == nil || cfg.Known == nil || cfg.Marks == nil || cfg.Receiver == nil || cfg.Log == nil || cfg.Every < 0 || cfg.Reach < 0 {
		return nil, nod.E(nod.Invalid, "the delivery poller needs a history, a store, a receiver and a logger", nil)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Every = cmp.Or(cfg.Every, time.Minute)
	cfg.Reach = cmp.Or(cfg.Reach, DefaultReach)
	return &Poller{cfg: cfg, seen: map[string]time.Time{}}, nil
}

// Run polls until ctx ends. It does not return before the look under way has ended.
func (p *Poller) Run(ctx context.Context) {
	repeat(ctx, p.cfg.Every, p.cfg.RetryAfter, func(ctx context.Context) error {
		_, err := p.Poll(ctx)
		return err
	}, func(err error, wait time.Duration) {
		p.cfg.Log.WarnContext(ctx, "poll deliveries", "err", err, "again_in", wait)
	})
}

// Poll looks once and returns how many deliveries it stored. After an error, or a
// crash, the next look goes as far back as this one. It must not be called twice at
// once.
func (p *Poller) Poll(ctx context.Context) (stored int, err error) {
	start := p.cfg.Now()
	since, err := p.since(ctx, start)
	if err != nil {
		return 0, err
	}
	lacking, err := p.lacking(ctx, since)
	if err != nil {
		return 0, err
	}
	for _, d := range lacking {
		fresh, err := p.fetch(ctx, d)
		if err != nil {
			return stored, err
		}
		if fresh {
			stored++
		}
	}
	if err := p.cfg.Marks.SetMark(ctx, pollerMark, start.UTC().Format(time.RFC3339)); err != nil {
		return stored, fmt.Errorf("keep mark: %w", err)
	}
	for guid, at := range p.seen {
		if at.Before(start.Add(-overlap)) {
			delete(p.seen, guid)
		}
	}
	return stored, nil
}

// since is how far back a look goes: some time before the last one, in this process or
// an earlier one, but no farther than GitHub remembers.
func (p *Poller) since(ctx context.Context, now time.Time) (time.Time, error) {
	earliest := now.Add(-p.cfg.Reach)
	mark, err := p.cfg.Marks.Mark(ctx, pollerMark)
	if err != nil {
		return time.Time{}, fmt.Errorf("read mark: %w", err)
	}
	last, err := time.Parse(time.RFC3339, mark)
	if err != nil || last.Add(-overlap).Before(earliest) || last.After(now) {
		return earliest, nil
	}
	return last.Add(-overlap), nil
}

// lacking lists the deliveries since then that matter and are not stored, oldest
// first, each GUID once: a redelivery is as old as what it repeats.
func (p *Poller) lacking(ctx context.Context, since time.Time) ([]Past, error) {
	past, err := p.cfg.History.Past(ctx, since, mostListed)
	if err != nil {
		return nil, fmt.Errorf("list deliveries: %w", err)
	}
	if len(past) >= mostListed {
		p.cfg.Log.WarnContext(ctx, "more deliveries than one look takes", "limit", mostListed, "since", since)
	}
	past = slices.SortedStableFunc(slices.Values(past), func(a, b Past) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	once := map[string]bool{}
	past = slices.DeleteFunc(past, func(d Past) bool {
		_, done := p.seen[d.GUID]
		skip := done || once[d.GUID] || !matters(d.Event)
		once[d.GUID] = true
		return skip
	})
	guids := make([]string, len(past))
	for i, d := range past {
		guids[i] = d.GUID
	}
	known, err := p.cfg.Known.Known(ctx, guids...)
	if err != nil {
		return nil, fmt.Errorf("look up deliveries: %w", err)
	}
	return slices.DeleteFunc(past, func(d Past) bool { return known[d.GUID] }), nil
}

// fetch stores one delivery. What is lost or makes no sense is noted and left; an
// error means that it may work later.
func (p *Poller) fetch(ctx context.Context, d Past) (fresh bool, err error) {
	payload, err := p.cfg.History.Payload(ctx, d.ID)
	outcome := Outcome("")
	if err == nil {
		outcome, err = p.cfg.Receiver.Take(ctx, d.GUID, d.Event, payload)
	}
	switch code := nod.CodeOf(err); {
	case err == nil:
	case code == nod.NotFound || code == nod.Invalid:
		p.cfg.Log.WarnContext(ctx, "delivery is lost", "delivery", d.GUID, "event", d.Event, "err", err)
	default:
		return false, fmt.Errorf("fetch delivery %s: %w", d.GUID, err)
	}
	if outcome != Accepted {
		p.seen[d.GUID] = d.At
		return false, nil
	}
	p.cfg.Log.InfoContext(ctx, "delivery came late", "delivery", d.GUID, "event", d.Event, "late_ms", p.cfg.Now().Sub(d.At).Milliseconds())
	return true, nil
}

// matters reports whether Parser makes anything of event.
func matters(event string) bool {
	switch event {
	case "issues", "issue_comment", "pull_request", "pull_request_review", "pull_request_review_comment", "check_suite", "push", "installation", "installation_repositories":
		return true
	}
	return false
}
