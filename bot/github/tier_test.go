package github

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"nod"
)

// More permission never means less trust, and nothing means more than GitHub said.
func TestTierNeverExceedsPermission(t *testing.T) {
	order := []string{"", "none", "read", "triage", "write", "maintain", "admin"}
	rapid.Check(t, func(t *rapid.T) {
		permission := rapid.SampledFrom(append(order, "owner", "Admin", "WRITE")).Draw(t, "permission")
		role := rapid.OneOf(rapid.SampledFrom(order), rapid.String()).Draw(t, "role")
		triage := rapid.Bool().Draw(t, "triage")
		tier, why := tierOf(permission, role, map[string]bool{"triage": triage, "push": true, "admin": true})
		if tier == nod.Owner || tier == nod.Bot || why == "" {
			t.Fatalf("tier %s, reason %q", tier, why)
		}
		if tier == nod.Writer && slices.Index(order, permission) < slices.Index(order, "write") {
			t.Fatalf("permission %q made a writer", permission)
		}
		if tier.Rank() > nod.Outsider.Rank() && slices.Index(order, permission) < slices.Index(order, "read") {
			t.Fatalf("permission %q made a %s", permission, tier)
		}
	})
}

// What GitHub answers for each base role, and for roles that an organization made up.
func TestTiersFollowTheBaseRole(t *testing.T) {
	sorts := map[string]bool{"triage": true}
	for _, c := range []struct {
		permission, role string
		may              map[string]bool
		want             nod.Tier
	}{
		{"admin", "admin", nil, nod.Writer}, {"write", "maintain", nil, nod.Writer}, {"write", "write", nil, nod.Writer},
		{"read", "triage", nil, nod.Triager}, {"read", "read", nil, nod.Outsider}, {"none", "none", nil, nod.Outsider},
		{"write", "Release captain", nil, nod.Writer}, {"admin", "Superhero", nil, nod.Writer}, {"read", "Looker", nil, nod.Outsider},
		{"read", "Sorter", sorts, nod.Triager}, // the base of triage is read; only the flag tells them apart
		{"read", "write", nil, nod.Outsider},   // a custom role may be called anything
		{"write", "", nil, nod.Writer}, {"none", "none", sorts, nod.Outsider}, {"push", "", nil, nod.Outsider}, {"", "admin", nil, nod.Outsider},
		{"write", "read", nil, nod.Outsider}, {"admin", "triage", nil, nod.Triager}, // they disagree: the lower one counts
	} {
		got, why := tierOf(c.permission, c.role, c.may)
		if got != c.want || !strings.Contains(why, c.role) || !strings.Contains(why, c.permission) {
			t.Errorf("%q, %q, %v: %s because %s, want %s", c.permission, c.role, c.may, got, why, c.want)
		}
	}
}
