package nod

import (
	"math"
	"time"
)

// TurnUsage is the Data of EventUsage: what one turn of an agent used of its model.
// What nobody told is nil, and never a guess.
type TurnUsage struct {
	Run          string   `json:"run"`
	InputTokens  *int64   `json:"input_tokens,omitempty"`
	OutputTokens *int64   `json:"output_tokens,omitempty"`
	CostUSD      *float64 `json:"cost_usd,omitempty"` // of this turn, the agent's own estimate
	Measured     bool     `json:"measured,omitempty"` // the tokens were counted on the way to the model, not told by the agent
}

// Spent is a sum of usage. It never overflows.
type Spent struct {
	Tokens int64   `json:"tokens"` // in and out together
	USD    float64 `json:"usd"`    // of the turns that tell a price
}

// Add adds what u tells.
func (s Spent) Add(u TurnUsage) Spent {
	for _, n := range []*int64{u.InputTokens, u.OutputTokens} {
		if n != nil {
			s.Tokens = AddTokens(s.Tokens, *n)
		}
	}
	if u.CostUSD != nil {
		s.USD = AddUSD(s.USD, *u.CostUSD)
	}
	return s
}

// Plus adds two sums.
func (s Spent) Plus(o Spent) Spent {
	return Spent{Tokens: AddTokens(s.Tokens, o.Tokens), USD: AddUSD(s.USD, o.USD)}
}

// Spending is what was used in everything that a run counts towards.
type Spending struct {
	Run, Task Spent
	Repo, Day Spent // since the day's beginning: in the task's repository, and in all of them
}

// Plus adds the same to every sum of s.
func (s Spending) Plus(o Spent) Spending {
	return Spending{Run: s.Run.Plus(o), Task: s.Task.Plus(o), Repo: s.Repo.Plus(o), Day: s.Day.Plus(o)}
}

// DayOf is the beginning of the day that t counts towards, in UTC.
func DayOf(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }

// AddTokens adds what a program says it used: nothing negative, and never past the
// end of the type.
func AddTokens(sum int64, more ...int64) int64 {
	for _, n := range more {
		switch {
		case n <= 0:
		case sum > math.MaxInt64-n:
			sum = math.MaxInt64
		default:
			sum += n
		}
	}
	return sum
}

// AddUSD adds what is a price, and never past the end of the type.
func AddUSD(sum, more float64) float64 {
	if math.IsNaN(more) || more <= 0 {
		return sum
	}
	return min(sum+more, math.MaxFloat64)
}
