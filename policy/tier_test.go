package policy_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"nod"
	"nod/policy"
)

func account(id int64) nod.Actor {
	return nod.Actor{Kind: nod.ActorGitHub, Host: "github.com", ID: id, Login: "x"}
}

// R06, R07, R08
func TestTiers(t *testing.T) {
	ok := func(permission, role string) policy.TierFacts {
		return policy.TierFacts{Actor: account(5), Status: 200, AnswerID: 5, Permission: permission, RoleName: role}
	}
	with := func(f policy.TierFacts, change func(*policy.TierFacts)) policy.TierFacts { change(&f); return f }
	for name, tc := range map[string]struct {
		facts  policy.TierFacts
		want   nod.Tier
		reason string
	}{
		"owner, no call needed": {policy.TierFacts{Actor: account(5), Owners: []int64{4, 5}}, nod.Owner, "listed by id"},
		"admin":                 {ok("admin", "admin"), nod.Writer, "admin"},
		"maintain":              {ok("write", "maintain"), nod.Writer, "maintain"},
		"write":                 {ok("write", "write"), nod.Writer, "write"},
		"triage":                {ok("read", "triage"), nod.Triager, "triage"},
		"read":                  {ok("read", "read"), nod.Outsider, "cannot write"},
		"none":                  {ok("none", "none"), nod.Outsider, "cannot write"},
		"custom on write":       {ok("write", "Release captain"), nod.Writer, "Release captain"},
		"custom on admin":       {ok("admin", "Superhero"), nod.Writer, "Superhero"},
		"custom on triage":      {with(ok("read", "Sorter"), func(f *policy.TierFacts) { f.Permissions = map[string]bool{"triage": true} }), nod.Triager, "Sorter"},
		"custom on read":        {ok("read", "Looker"), nod.Outsider, "Looker"},
		"custom named write":    {ok("read", "write"), nod.Outsider, "cannot write"},
		"no role name":          {ok("write", ""), nod.Writer, "write"},
		"flag without base":     {with(ok("none", "none"), func(f *policy.TierFacts) { f.Permissions = map[string]bool{"triage": true} }), nod.Outsider, "cannot write"},
		"unknown permission":    {ok("push", ""), nod.Outsider, "does not know: push"},
		"no permission":         {ok("", "admin"), nod.Outsider, "names no permission"},
		"404":                   {with(ok("", ""), func(f *policy.TierFacts) { f.Status = 404 }), nod.Outsider, "404"},
		"403":                   {with(ok("admin", ""), func(f *policy.TierFacts) { f.Status = 403 }), nod.Outsider, "does not let the App"},
		"502":                   {with(ok("admin", ""), func(f *policy.TierFacts) { f.Status = 502 }), nod.Outsider, "could not tell their permission (502)"},
		"429":                   {with(ok("admin", ""), func(f *policy.TierFacts) { f.Status = 429 }), nod.Outsider, "429"},
		"no answer":             {with(ok("admin", ""), func(f *policy.TierFacts) { f.Status = 0 }), nod.Outsider, "no answer"},
		"login taken over":      {with(ok("admin", ""), func(f *policy.TierFacts) { f.AnswerID = 6 }), nod.Outsider, "another account"},
		"ghost":                 {with(ok("admin", ""), func(f *policy.TierFacts) { f.Actor.ID = 0; f.Owners = []int64{0} }), nod.Outsider, "gone"},
		"bot by type":           {with(ok("admin", ""), func(f *policy.TierFacts) { f.AccountType = "Bot" }), nod.Bot, "Bot"},
		"bot by event":          {with(ok("admin", ""), func(f *policy.TierFacts) { f.Actor.Bot = true }), nod.Bot, "not a user"},
		"bot listed as owner":   {policy.TierFacts{Actor: account(5), AccountType: "Bot", Owners: []int64{5}}, nod.Bot, "Bot"},
		"organization":          {with(ok("admin", ""), func(f *policy.TierFacts) { f.AccountType = "Organization" }), nod.Bot, "Organization"},
		"suffix means nothing":  {with(ok("write", "write"), func(f *policy.TierFacts) { f.Actor.Login = "x[bot]"; f.AccountType = "User" }), nod.Writer, "write"},
		"no GitHub account":     {policy.TierFacts{Actor: nod.Actor{Kind: nod.ActorHost, ID: 5}, Owners: []int64{5}}, nod.Outsider, "not a GitHub account"},
	} {
		t.Run(name, func(t *testing.T) {
			got := policy.Tier(tc.facts)
			if got.Tier != tc.want || !strings.Contains(got.Reason, tc.reason) || got.Actor != tc.facts.Actor {
				t.Errorf("%+v, want %s because %s", got, tc.want, tc.reason)
			}
		})
	}
}

func TestTierIsTrustedOnlyByIdOrByA200(t *testing.T) {
	word := rapid.SampledFrom([]string{"", "admin", "maintain", "write", "triage", "read", "none", "custom"})
	rapid.Check(t, func(t *rapid.T) {
		f := policy.TierFacts{
			Actor: account(rapid.Int64Range(-1, 3).Draw(t, "id")), Owners: rapid.SliceOf(rapid.Int64Range(0, 3)).Draw(t, "owners"),
			AccountType: rapid.SampledFrom([]string{"", "User", "Bot", "Mannequin"}).Draw(t, "type"),
			Status:      rapid.SampledFrom([]int{0, 200, 204, 301, 403, 404, 500, 599}).Draw(t, "status"),
			AnswerID:    rapid.Int64Range(0, 3).Draw(t, "answer"), Permission: word.Draw(t, "permission"), RoleName: word.Draw(t, "role"),
		}
		f.Actor.Bot = rapid.Bool().Draw(t, "bot")
		s := policy.Tier(f)
		if s.Reason == "" {
			t.Fatal("no reason")
		}
		if s.Tier.Rank() == 0 {
			return
		}
		listed := false
		for _, o := range f.Owners {
			listed = listed || o == f.Actor.ID
		}
		if f.Actor.ID <= 0 || f.Actor.Bot || f.AccountType == "Bot" || f.AccountType == "Mannequin" || !listed && f.Status != 200 {
			t.Fatalf("trusted: %+v as %+v", f, s)
		}
	})
}
