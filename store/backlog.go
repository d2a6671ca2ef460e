package store

import (
	"context"
	"time"

	"nod"
)

// Backlog is what waits to be done.
type Backlog struct {
	Deliveries     int64     `json:"deliveries"`               // pending or leased
	OldestDelivery time.Time `json:"oldest_delivery,omitzero"` // when the oldest of them was received
	Dead           int64     `json:"dead"`                     // deliveries that were given up
	Effects        int64     `json:"effects"`                  // intended
	OldestEffect   time.Time `json:"oldest_effect,omitzero"`
	Unknown        int64     `json:"unknown"`   // effects of which nobody can tell whether they happened
	Decisions      int64     `json:"decisions"` // open
}

// Backlog counts what waits, at one moment.
func (s *Store) Backlog(ctx context.Context) (Backlog, error) {
	var b Backlog
	err := s.readers.QueryRowContext(ctx, `SELECT
		(SELECT count(*) FROM deliveries WHERE state IN ('pending', 'leased')),
		(SELECT min(received_at) FROM deliveries WHERE state IN ('pending', 'leased')),
		(SELECT count(*) FROM deliveries WHERE state = 'dead'),
		(SELECT count(*) FROM effects WHERE state = 'intended'),
		(SELECT min(created_at) FROM effects WHERE state = 'intended'),
		(SELECT count(*) FROM effects WHERE state = 'unknown'),
		(SELECT count(*) FROM decisions WHERE state = 'open')`).
		Scan(&b.Deliveries, toTime{&b.OldestDelivery}, &b.Dead, &b.Effects, toTime{&b.OldestEffect}, &b.Unknown, &b.Decisions)
	if err != nil {
		return Backlog{}, mapped(ctx, err)
	}
	return b, nil
}

// Path returns where the database is, for doctor and backups.
func (s *Store) Path() string { return s.path }

// Check runs SQLite's own integrity check and returns Internal when it finds
// damage.
func (s *Store) Check(ctx context.Context) error {
	found, err := list(ctx, s.readers, func(r scanner) (line string, err error) {
		err = r.Scan(&line)
		return line, err
	}, `PRAGMA quick_check(1)`)
	switch {
	case err != nil:
		return mapped(ctx, err)
	case len(found) != 1 || found[0] != "ok":
		return &nod.Error{Code: nod.Internal, Msg: "the database file is damaged", Hint: "stop nod and restore a copy"}
	}
	return nil
}
