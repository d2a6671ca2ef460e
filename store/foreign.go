package store

import (
	"context"
	"time"
)

const foreignQuery = `SELECT coalesce(json_extract(CAST(payload AS TEXT), '$.repository.full_name'), ''), count(*) FROM deliveries
	WHERE state = 'dead' AND received_at >= ? AND json_valid(CAST(payload AS TEXT))
	AND json_extract(CAST(payload AS TEXT), '$.installation.id') IS NULL GROUP BY 1`

// ForeignDeliveries counts by repository (owner/name) the deliveries since a time that
// a hook of a repository or an organization sent, and not the App's: such a hook tells
// of everything twice.
func (s *Store) ForeignDeliveries(ctx context.Context, since time.Time) (map[string]int, error) {
	type count struct {
		repo string
		n    int
	}
	counts, err := list(ctx, s.readers, func(r scanner) (c count, err error) {
		err = r.Scan(&c.repo, &c.n)
		return c, err
	}, foreignQuery, since.UnixMilli())
	if err != nil {
		return nil, mapped(ctx, err)
	}
	by := map[string]int{}
	for _, c := range counts {
		by[c.repo] = c.n
	}
	return by, nil
}
