package store

import (
	"context"
	"encoding/json"

	"nod"
)

const usageQuery = `SELECT data FROM events WHERE stream = ? AND kind = 'usage' ORDER BY id`

// usage sums up what the runs of a task used.
func usage(ctx context.Context, q querier, task string) (nod.Usage, error) {
	turns, err := list(ctx, q, func(r scanner) (u nod.TurnUsage, err error) {
		var raw []byte
		if err = r.Scan(&raw); err == nil {
			err = json.Unmarshal(raw, &u)
		}
		return u, err
	}, usageQuery, task)
	var all nod.Usage
	for _, u := range turns {
		if u.InputTokens != nil {
			all.InputTokens = nod.AddTokens(all.InputTokens, *u.InputTokens)
		}
		if u.OutputTokens != nil {
			all.OutputTokens = nod.AddTokens(all.OutputTokens, *u.OutputTokens)
		}
		if u.CostUSD != nil {
			sum := *u.CostUSD
			if all.CostUSD != nil {
				sum = nod.AddUSD(*all.CostUSD, sum)
			}
			all.CostUSD = &sum
		}
	}
	return all, err
}
