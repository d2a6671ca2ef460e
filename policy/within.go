package policy

import (
	"maps"
	"slices"

	"nod"
)

// Within returns what holds for a task that began under started, when the
// configuration now says now: of each rule the stricter one. Budgets are those of
// now: they bound what is spent, not what is permitted.
func Within(started, now Rules) Rules {
	r := now
	r.Preset = Applies(started.Preset, now.Preset)
	if now.Table != nil {
		t := &Table{preset: r.Preset, modes: now.Table.modes, started: map[ActionName]Mode{}}
		for a := range floors {
			t.started[a] = Action(started.Table, a, false).Mode
		}
		r.Table = t
	}
	began := started.Tools
	r.Tools.started = &began
	r.Start.Tiers = maps.Clone(now.Start.Tiers)
	if r.Start.Tiers == nil {
		r.Start.Tiers = map[nod.Tier]Mode{}
	}
	for tier, mode := range started.Start.Tiers {
		if set, ok := r.Start.Tiers[tier]; ok {
			mode = strictest(mode, set)
		}
		r.Start.Tiers[tier] = mode
	}
	r.Start.Blocked = both(started.Start.Blocked, now.Start.Blocked)
	return r
}

func both(a, b []int64) []int64 {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
