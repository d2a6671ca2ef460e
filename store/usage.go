package store

import (
	"context"
	"encoding/json"

	"nod"
)

const usageQuery = `SELECT data FROM events WHERE stream = ? AND kind = 'usage' ORDER BY id`

// usage sums up what the runs of a task used. Tokens are given by turn; a price is
// the sum of its session so far, so one that falls begins another session.
func usage(ctx context.Context, q querier, task string) (nod.Usage, error) {
	turns, err := list(ctx, q, func(r scanner) (u nod.Usage, err error) {
		var raw []byte
		if err = r.Scan(&raw); err == nil {
			err = json.Unmarshal(raw, &u)
		}
		return u, err
	}, usageQuery, task)
	if err != nil {
		return nod.Usage{}, err
	}
	var all nod.Usage
	var before, session float64
	for _, u := range turns {
		all.InputTokens += u.InputTokens
		all.OutputTokens += u.OutputTokens
		if u.CostUSD == nil {
			continue
		}
		if *u.CostUSD < session {
			before += session
		}
		session = *u.CostUSD
		sum := before + session
		all.CostUSD = &sum
	}
	return all, nil
}
