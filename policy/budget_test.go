package policy_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"nod"
	"nod/policy"
)

func TestBudgetsTellWhatWasReached(t *testing.T) {
	b := compile(t, policy.Settings{Budgets: map[string]policy.Limit{
		"run": {SoftTokens: 10, HardTokens: 20}, "task": {HardUSD: 1}, "repo": {SoftUSD: 0.5}, "day": {SoftTokens: 100}}}).Budgets
	for _, c := range []struct {
		spent nod.Spending
		want  []string
	}{
		{nod.Spending{}, nil},
		{nod.Spending{Run: nod.Spent{Tokens: 9}}, nil},
		{nod.Spending{Run: nod.Spent{Tokens: 10}}, []string{"soft this run has used 10 tokens of 10"}},
		{nod.Spending{Run: nod.Spent{Tokens: 20}, Repo: nod.Spent{USD: 0.5}}, []string{"hard this run has used 20 tokens of 20", "soft this repository today has used $0.50 of $0.50"}},
		{nod.Spending{Task: nod.Spent{USD: 2}, Day: nod.Spent{Tokens: math.MaxInt64}},
			[]string{"hard this task has used $2.00 of $1.00", "soft nod today, in all repositories, has used 9223372036854775807 tokens of 100"}},
	} {
		var got []string
		for _, x := range policy.Budget(b, c.spent) {
			got = append(got, map[bool]string{true: "hard ", false: "soft "}[x.Hard]+x.Text)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.spent, got, c.want)
		}
	}
	if got := policy.Budget(policy.Budgets{}, nod.Spending{Run: nod.Spent{Tokens: math.MaxInt64}}); got != nil {
		t.Errorf("without limits: %v", got)
	}
}

func TestBadBudgetsAreRefused(t *testing.T) {
	for want, budgets := range map[string]map[string]policy.Limit{
		"not a budget":     {"week": {HardTokens: 1}},
		"negative":         {"run": {HardTokens: -1}},
		"no number":        {"run": {HardUSD: math.NaN()}},
		"above the hard":   {"run": {SoftTokens: 2, HardTokens: 1}},
		"no limit is set":  {"run": {}},
		"budgets.day: the": {"day": {SoftUSD: 2, HardUSD: 1}},
	} {
		if _, err := policy.Compile(policy.Settings{Budgets: budgets}); nod.CodeOf(err) != nod.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", budgets, err)
		}
	}
}

// TestUsingMoreNeverFreesABudget: what was reached stays reached.
func TestUsingMoreNeverFreesABudget(t *testing.T) {
	b := compile(t, policy.Settings{Budgets: map[string]policy.Limit{"run": {SoftTokens: 5, HardTokens: 50}, "day": {SoftUSD: 1, HardUSD: 2}}}).Budgets
	scopes := func(s nod.Spending) map[policy.Scope]bool {
		out := map[policy.Scope]bool{}
		for _, x := range policy.Budget(b, s) {
			out[x.Scope] = x.Hard
		}
		return out
	}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) nod.Spent {
			return nod.Spent{Tokens: rapid.Int64Range(0, math.MaxInt64).Draw(t, name+" tokens"), USD: rapid.Float64Range(0, math.MaxFloat64).Draw(t, name+" usd")}
		}
		before := nod.Spending{}.Plus(draw("first"))
		was, is := scopes(before), scopes(before.Plus(draw("more")))
		for scope, hard := range was {
			if now, ok := is[scope]; !ok || hard && !now {
				t.Fatalf("%s was reached (hard %v) and is not any more: %v", scope, hard, is)
			}
		}
	})
}

func TestDollarsAloneNeedAPrice(t *testing.T) {
	for want, limits := range map[policy.Scope]map[string]policy.Limit{
		"":               {"run": {HardTokens: 9, HardUSD: 1}, "task": {SoftTokens: 9}, "day": {SoftUSD: 1, HardTokens: 9}},
		policy.ScopeDay:  {"run": {HardTokens: 9}, "day": {HardUSD: 1}},
		policy.ScopeTask: {"task": {HardUSD: 1, SoftTokens: 9}},
		policy.ScopeRepo: {"repo": {SoftUSD: 1}},
	} {
		r, err := policy.Compile(policy.Settings{Budgets: limits})
		if got := r.Budgets.NeedsPrice(); err != nil || got != want {
			t.Errorf("%v: %q, %v, wants %q", limits, got, err, want)
		}
	}
}
