package store

import (
	"context"
	"sync"
	"time"

	"nod"
)

// maxEvents is how many events one call returns at most.
const maxEvents = 1000

// broadcast wakes everyone who waits, each time it is sent.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

// next is closed by the next send.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}

// lookBeside wakes whoever waits when another process has committed something.
// The version that it compares is one that the connection's own commits leave
// alone (https://sqlite.org/pragma.html#pragma_data_version).
func (s *Store) lookBeside(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var known int64
	for {
		var version int64
		switch err := s.writer.QueryRowContext(ctx, `PRAGMA data_version`).Scan(&version); {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.log.Error("look for commits of other processes", "err", err)
		case version != known:
			known = version
			s.others.send()
			s.commits.send()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Committed is closed by the next commit, whatever it wrote; of another process
// only with Config.Beside. Take it before looking, wait on it after.
func (s *Store) Committed() <-chan struct{} { return s.commits.next() }

const waitStreamQuery = `SELECT ` + eventColumns + ` FROM events WHERE stream = ? AND id > ? ORDER BY id LIMIT ?`

// Wait blocks until an event with an id above after is committed in stream (any
// stream when empty) and returns up to 1,000 of them, oldest first. It wakes by
// commits; those of another process are noticed only with Config.Beside. When ctx
// ends it returns ctx.Err().
func (s *Store) Wait(ctx context.Context, stream string, after int64) ([]nod.Event, error) {
	for {
		more := s.commits.next()
		events, err := s.eventsAfter(ctx, stream, after)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			return nil, mapped(ctx, err)
		}
		if len(events) > 0 {
			return events, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (s *Store) eventsAfter(ctx context.Context, stream string, after int64) ([]nod.Event, error) {
	if stream == "" {
		return list(ctx, s.readers, scanEvent, `SELECT `+eventColumns+` FROM events WHERE id > ? ORDER BY id LIMIT ?`, after, maxEvents)
	}
	return list(ctx, s.readers, scanEvent, waitStreamQuery, stream, after, maxEvents)
}
