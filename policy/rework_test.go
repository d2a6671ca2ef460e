package policy_test

import (
	"testing"

	"nod"
	"nod/policy"
)

func TestReworkFollowsTheStartMatrix(t *testing.T) {
	for name, c := range map[string]struct {
		by        nod.Standing
		set       policy.StartSettings
		want      policy.Mode
		untrusted bool
	}{
		"owner":                  {olga, policy.StartSettings{}, policy.Auto, false},
		"writer":                 {wim, policy.StartSettings{}, policy.Auto, false},
		"triager":                {tess, policy.StartSettings{}, policy.Ask, true},
		"outsider":               {otto, policy.StartSettings{}, policy.Ask, true},
		"bot":                    {robot, policy.StartSettings{}, policy.Ask, true},
		"nobody":                 {nod.Standing{}, policy.StartSettings{}, policy.Forbid, true},
		"blocked":                {otto, policy.StartSettings{Blocked: []int64{otto.Actor.ID}}, policy.Forbid, true},
		"writers made to ask":    {wim, policy.StartSettings{Tiers: map[nod.Tier]policy.Mode{nod.Writer: policy.Ask}}, policy.Ask, false},
		"outsiders not loosened": {otto, policy.StartSettings{Tiers: map[nod.Tier]policy.Mode{nod.Outsider: policy.Auto}}, policy.Ask, true},
	} {
		if v := policy.Rework(c.set, c.by); v.Mode != c.want || v.Untrusted != c.untrusted {
			t.Errorf("%s: %s untrusted=%v\n%s", name, v.Mode, v.Untrusted, v.Because)
		}
	}
}

func TestRedChecksAreBounded(t *testing.T) {
	for before, want := range []policy.Mode{policy.Auto, policy.Auto, policy.Ask, policy.Ask} {
		if v := policy.Checks(before, 2); v.Mode != want || !v.Untrusted {
			t.Errorf("after %d: %s", before, v.Mode)
		}
	}
	if v := policy.Checks(0, -1); v.Mode != policy.Ask {
		t.Errorf("with none allowed: %s", v.Mode)
	}
}
