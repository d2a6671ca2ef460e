package policy

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"nod"
)

// Scope is what a budget covers.
type Scope string

const (
	ScopeRun  Scope = "run"  // one execution of an agent
	ScopeTask Scope = "task" // every run of a task
	ScopeRepo Scope = "repo" // the repository, in one day
	ScopeDay  Scope = "day"  // every repository, in one day
)

// scopes is every scope and what stands before "has used".
var scopes = map[Scope]string{ScopeRun: "this run", ScopeTask: "this task", ScopeRepo: "this repository today", ScopeDay: "nod today, in all repositories,"}

// Limit bounds what may be used of models. Zero is no limit. At a soft limit a
// person is told; at a hard one the work ends. Tokens are those in and out together;
// USD counts only what agents tell a price of.
type Limit struct {
	SoftTokens int64   `json:"soft_tokens,omitempty"`
	HardTokens int64   `json:"hard_tokens,omitempty"`
	SoftUSD    float64 `json:"soft_usd,omitempty"`
	HardUSD    float64 `json:"hard_usd,omitempty"`
}

// Budgets are limits by scope. Compile makes them; none is no limit.
type Budgets struct{ limits map[Scope]Limit }

// NeedsPrice returns the first scope whose limits count dollars where they count no
// tokens: for an agent that tells no price they are none. It is empty when every
// limit holds for every agent.
func (b Budgets) NeedsPrice() Scope {
	for _, scope := range slices.Sorted(maps.Keys(b.limits)) {
		if l := b.limits[scope]; l.HardUSD > 0 && l.HardTokens == 0 || l.SoftUSD > 0 && l.SoftTokens == 0 && l.HardTokens == 0 {
			return scope
		}
	}
	return ""
}

// Excess is a limit that was reached.
type Excess struct {
	Scope Scope  `json:"scope"`
	Hard  bool   `json:"hard"`
	Text  string `json:"text"` // fixed words and numbers
}

// Budget returns the limits that s reaches, hard ones first.
func Budget(b Budgets, s nod.Spending) []Excess {
	var hard, soft []Excess
	for _, scope := range slices.Sorted(maps.Keys(b.limits)) {
		l, used := b.limits[scope], map[Scope]nod.Spent{ScopeRun: s.Run, ScopeTask: s.Task, ScopeRepo: s.Repo, ScopeDay: s.Day}[scope]
		switch {
		case l.HardTokens > 0 && used.Tokens >= l.HardTokens:
			hard = append(hard, Excess{scope, true, tokens(scope, used, l.HardTokens)})
		case l.HardUSD > 0 && used.USD >= l.HardUSD:
			hard = append(hard, Excess{scope, true, dollars(scope, used, l.HardUSD)})
		case l.SoftTokens > 0 && used.Tokens >= l.SoftTokens:
			soft = append(soft, Excess{scope, false, tokens(scope, used, l.SoftTokens)})
		case l.SoftUSD > 0 && used.USD >= l.SoftUSD:
			soft = append(soft, Excess{scope, false, dollars(scope, used, l.SoftUSD)})
		}
	}
	return append(hard, soft...)
}

func tokens(s Scope, used nod.Spent, limit int64) string {
	return fmt.Sprintf("%s has used %d tokens of %d", scopes[s], used.Tokens, limit)
}

func dollars(s Scope, used nod.Spent, limit float64) string {
	return fmt.Sprintf("%s has used $%.2f of $%.2f", scopes[s], used.USD, limit)
}

func compileBudgets(all map[string]Limit) (Budgets, error) {
	b := Budgets{limits: map[Scope]Limit{}}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		scope, l := Scope(key), all[key]
		if _, ok := scopes[scope]; !ok {
			return Budgets{}, unknown("budgets", "budget", key, scopes)
		}
		switch {
		case l.SoftTokens < 0 || l.HardTokens < 0 || !(l.SoftUSD >= 0) || !(l.HardUSD >= 0) || math.IsInf(l.SoftUSD, 0) || math.IsInf(l.HardUSD, 0):
			return Budgets{}, invalid("budgets.%s: a limit is negative or no number", key)
		case l.HardTokens > 0 && l.SoftTokens > l.HardTokens, l.HardUSD > 0 && l.SoftUSD > l.HardUSD:
			return Budgets{}, invalid("budgets.%s: the soft limit is above the hard one", key)
		case l == Limit{}:
			return Budgets{}, invalid("budgets.%s: no limit is set", key)
		}
		b.limits[scope] = l
	}
	return b, nil
}
