package store

import (
	"context"
	"sync"
	"time"

	"nod"
)

const (
	// maxTogether is how many deliveries share one transaction, and so one sync.
	maxTogether = 256
	// acceptTime bounds such a transaction: it belongs to several callers, so no
	// one of them can cancel it.
	acceptTime = 10 * time.Second
)

// accepts is the queue of deliveries that wait to be made durable. Whoever comes
// while a transaction is under way waits for it and then shares the next one with
// everybody else who came meanwhile; one of them leads it.
type accepts struct {
	mu      sync.Mutex
	waiting []*acceptance
	led     bool // somebody leads a transaction
}

type acceptance struct {
	delivery nod.Delivery
	fresh    bool
	err      error
	lead     chan struct{} // told to lead the next transaction
	done     chan struct{} // fresh and err are set
}

// acceptTogether makes d durable in a transaction that it may share.
func (s *Store) acceptTogether(ctx context.Context, d nod.Delivery) (fresh bool, err error) {
	a := &acceptance{delivery: d, lead: make(chan struct{}), done: make(chan struct{})}
	q := &s.accepts
	q.mu.Lock()
	q.waiting = append(q.waiting, a)
	first := !q.led
	q.led = true
	q.mu.Unlock()
	if !first {
		select {
		case <-a.done:
			return a.fresh, a.err
		case <-a.lead:
		}
	}
	q.mu.Lock()
	batch := q.waiting[:min(len(q.waiting), maxTogether)]
	q.waiting = append([]*acceptance(nil), q.waiting[len(batch):]...)
	q.mu.Unlock()
	s.acceptAll(ctx, batch)
	q.mu.Lock()
	if q.led = len(q.waiting) > 0; q.led {
		close(q.waiting[0].lead)
	}
	q.mu.Unlock()
	return a.fresh, a.err
}

// acceptAll makes a batch durable. A delivery that the database refuses leaves the
// others alone.
func (s *Store) acceptAll(ctx context.Context, batch []*acceptance) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), acceptTime)
	defer cancel()
	err := s.write(ctx, func(t *txn) error {
		for _, a := range batch {
			d := a.delivery
			if d.ReceivedAt.IsZero() {
				d.ReceivedAt = t.now
			}
			var duplicate bool
			err := t.row(acceptQuery,
				d.GUID, d.SemanticKey, d.Event, d.Action, d.Order, d.Payload, d.ReceivedAt.UnixMilli(), d.State, millis(d.NotBefore), d.Note).Scan(&duplicate)
			switch {
			case isNone(err): // the GUID is known
			case err != nil:
				a.err = mapped(ctx, err)
			default:
				a.fresh = !duplicate
			}
		}
		return nil
	})
	for _, a := range batch {
		if err != nil {
			a.fresh, a.err = false, err
		}
		close(a.done)
	}
}
