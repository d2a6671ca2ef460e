package github

import (
	"slices"
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
