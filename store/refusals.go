package store

import (
	"context"
	"encoding/json"
	"fmt"

	"nod"
)

const refusedQuery = `SELECT data, at FROM events WHERE stream = ? AND tier = 'audit' AND kind = '` + string(nod.EventEgressDenied) + `' ORDER BY id`

// Refused returns each host that the task's environment was refused because no
// list held it, the first refused first, with the time of the last refusal. The
// host that each attestation tries is not among them.
func (s *Store) Refused(ctx context.Context, task string) ([]nod.RefusedHost, error) {
	events, err := list(ctx, s.readers, func(r scanner) (e nod.Event, err error) {
		err = r.Scan(toRaw{&e.Data}, toTime{&e.At})
		return e, err
	}, refusedQuery, task)
	if err != nil {
		return nil, mapped(ctx, err)
	}
	var out []nod.RefusedHost
	place := map[string]int{}
	for _, e := range events {
		var d nod.EgressDenied
		if err := json.Unmarshal(e.Data, &d); err != nil || d.Host == "" || d.Host == nod.ProbeHost || d.Reason != nod.ReasonNotAllowed {
			continue // what has no name that could be allowed
		}
		host := fmt.Sprintf("%s:%d", d.Host, d.Port)
		if i, ok := place[host]; ok {
			out[i].At = e.At
			continue
		}
		place[host] = len(out)
		out = append(out, nod.RefusedHost{Host: host, At: e.At})
	}
	return out, nil
}
