package nod

import (
	"fmt"
	"slices"
)

// Machine is a state machine written as data: Table[from][event] = to. What the
// table does not hold is a conflict, so forgetting a row fails closed.
type Machine[S, E ~string] struct {
	Noun  string // for the error message: "task", "run"
	Start S
	Table map[S]map[E]S
}

// Next returns the state after event on in state from, or an Error with code
// Conflict when the table does not allow it.
func (m Machine[S, E]) Next(from S, on E) (S, error) {
	to, ok := m.Table[from][on]
	if !ok {
		var none S
		return none, &Error{Code: Conflict, Msg: fmt.Sprintf("a %s that is %q cannot %q", m.Noun, from, on)}
	}
	return to, nil
}

// Terminal reports whether no event leads out of s. An unknown state is
// terminal: nothing may happen to it.
func (m Machine[S, E]) Terminal(s S) bool { return len(m.Table[s]) == 0 }

// Known reports whether s occurs in the table, as a source or as a target.
func (m Machine[S, E]) Known(s S) bool { return slices.Contains(m.States(), s) }

// States returns every state in the table, sorted.
func (m Machine[S, E]) States() []S {
	states := []S{m.Start}
	for from, row := range m.Table {
		states = append(states, from)
		for _, to := range row {
			states = append(states, to)
		}
	}
	slices.Sort(states)
	return slices.Compact(states)
}

// Events returns every event in the table, sorted.
func (m Machine[S, E]) Events() []E {
	var events []E
	for _, row := range m.Table {
		for on := range row {
			events = append(events, on)
		}
	}
	slices.Sort(events)
	return slices.Compact(events)
}
