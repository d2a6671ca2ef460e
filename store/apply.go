package store

import (
	"context"
	"fmt"
	"slices"

	"nod"
)

// Apply writes c in one transaction, or nothing of it: see nod.Change. Every
// change of state, every intent and every outcome gets its audit event in the
// same transaction, by c.By; c.Events are appended after those.
//
// What is Conflict: a version that moved on, a transition that the table of its
// noun does not hold, a change to something that has ended, and the coupling
// rules. What is RateLimited: one open decision of a run too many. What is
// Forbidden: answering a decision.
func (s *Store) Apply(ctx context.Context, c *nod.Change) error {
	if c == nil || c.By.Kind == "" {
		return invalid("a change does not say who makes it")
	}
	return s.write(ctx, func(t *txn) error { return t.apply(c) })
}

// apply writes what may be referred to before what refers to it.
func (t *txn) apply(c *nod.Change) error {
	before, err := t.before(c)
	if err != nil {
		return err
	}
	if err := t.putBlobs(c.Blobs); err != nil {
		return err
	}
	if err := each(c.By, c.Tasks, func(v *nod.Task) int64 { return v.Version }, t.putTask); err != nil {
		return err
	}
	if err := each(c.By, c.Environments, func(v *nod.Environment) int64 { return v.Version }, t.putEnvironment); err != nil {
		return err
	}
	if err := each(c.By, c.Runs, func(v *nod.Run) int64 { return v.Version }, t.putRun); err != nil {
		return err
	}
	if err := each(c.By, c.Decisions, func(v *nod.Decision) int64 { return v.Version }, t.putDecision); err != nil {
		return err
	}
	if err := each(c.By, c.Revisions, func(v *nod.Revision) int64 { return v.Version }, t.putRevision); err != nil {
		return err
	}
	if err := each(c.By, c.Effects, func(v *nod.Effect) int64 { return v.Version }, t.putEffect); err != nil {
		return err
	}
	for _, d := range unique(c.Deliveries) {
		if err := t.putDelivery(d); err != nil {
			return err
		}
	}
	if err := t.putEvents(c.By, c.Events); err != nil {
		return err
	}
	return t.coupled(c, before)
}

// each puts every value once, those that are stored already first: what a change
// ends makes room for what it begins.
func each[T any](by nod.Actor, values []*T, version func(*T) int64, put func(nod.Actor, *T) error) error {
	values = unique(values)
	slices.SortStableFunc(values, func(a, b *T) int {
		return order(version(a) == 0) - order(version(b) == 0)
	})
	for _, v := range values {
		if err := put(by, v); err != nil {
			return err
		}
	}
	return nil
}

func order(last bool) int {
	if last {
		return 1
	}
	return 0
}

// unique returns values without nil and without the same pointer twice, in order.
func unique[T any](values []*T) []*T {
	kept := make([]*T, 0, len(values))
	for _, v := range values {
		if v != nil && !slices.Contains(kept, v) {
			kept = append(kept, v)
		}
	}
	return kept
}

// swappable refuses a version other than the stored one.
func swappable(noun, id string, stored, given int64) error {
	if stored != given {
		return conflict(fmt.Sprintf("%s %s moved on: it is at version %d, not %d", noun, id, stored, given))
	}
	return nil
}

// reaches refuses a state that no single event leads to from old.
func reaches[T any, S, E ~string](m nod.Machine[S, E], old *T, to S, on func(*T, E) error, state func(*T) S) error {
	if state(old) == to {
		return nil
	}
	for _, event := range m.Events() {
		next := *old
		if on(&next, event) == nil && state(&next) == to {
			return nil
		}
	}
	return conflict(fmt.Sprintf("a %s that is %q cannot become %q", m.Noun, state(old), to))
}
