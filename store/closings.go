package store

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"nod"
)

// closings are the waits of this process for decisions to close.
type closings struct {
	mu sync.Mutex
	of map[string][]chan nod.Decision // by decision
}

func (c *closings) join(id string) chan nod.Decision {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string][]chan nod.Decision{}
	}
	ch := make(chan nod.Decision, 1)
	c.of[id] = append(c.of[id], ch)
	return ch
}

func (c *closings) leave(id string, ch chan nod.Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[id] = slices.DeleteFunc(c.of[id], func(x chan nod.Decision) bool { return x == ch }); len(c.of[id]) == 0 {
		delete(c.of, id)
	}
}

// hand gives d, which never changes any more, to everyone who waits for it, and lets
// them run before the caller goes on.
func (c *closings) hand(d nod.Decision) {
	c.mu.Lock()
	for _, ch := range c.of[d.ID] {
		ch <- d // it has room: a decision is closed once, and who was given it is taken out
	}
	delete(c.of, d.ID)
	c.mu.Unlock()
	runtime.Gosched()
}

// Closed blocks until a decision is not open any more and returns it, or NotFound.
// Whoever waits is given what this process wrote when that is durable, before anybody
// else is woken and without another look at the file: an agent waits for an answer.
// What another process wrote is noticed with Config.Beside only. Closed does not
// watch the deadline. When ctx ends it returns ctx.Err().
func (s *Store) Closed(ctx context.Context, id string) (nod.Decision, error) {
	own := s.closings.join(id)
	defer s.closings.leave(id, own)
	for {
		beside := s.others.next()
		d, err := s.Decision(ctx, id)
		switch {
		case ctx.Err() != nil:
			return nod.Decision{}, ctx.Err()
		case err != nil || d.State != nod.DecisionOpen:
			return d, err
		}
		select {
		case d := <-own:
			return d, nil
		case <-beside:
		case <-ctx.Done():
			return nod.Decision{}, ctx.Err()
		}
	}
}

// closed records that d was closed, and by what answer if by one.
func (t *txn) closed(by nod.Actor, d nod.Decision, a *nod.Answer) error {
	t.committed(func() { t.s.closings.hand(d) })
	return t.audit(d.Task, nod.EventDecisionClosed, by, d.CommitSHA, Closed{Decision: d, Answer: a})
}
