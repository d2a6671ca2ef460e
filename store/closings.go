package store

import (
	"context"
	"slices"
	"sync"
	"time"

	"nod"
)

// handOver bounds how long a commit that closes a decision keeps to itself for those
// who were given the decision.
const handOver = 5 * time.Millisecond

// closings are the waits of this process for decisions to close.
type closings struct {
	mu sync.Mutex
	of map[string][]*closing // by decision
}

// closing is one such wait.
type closing struct {
	given chan nod.Decision // has room for the one
	told  chan struct{}     // closed by tell
	once  sync.Once
}

func (w *closing) tell() { w.once.Do(func() { close(w.told) }) }

func (c *closings) join(id string) *closing {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		c.of = map[string][]*closing{}
	}
	w := &closing{given: make(chan nod.Decision, 1), told: make(chan struct{})}
	c.of[id] = append(c.of[id], w)
	return w
}

func (c *closings) leave(id string, w *closing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[id] = slices.DeleteFunc(c.of[id], func(x *closing) bool { return x == w }); len(c.of[id]) == 0 {
		delete(c.of, id)
	}
}

// hand gives each of closed, which never change any more, to everyone who waits for
// it, and returns when all of them have told whom they had to, or after handOver.
func (c *closings) hand(closed []nod.Decision) {
	var all []*closing
	c.mu.Lock()
	for _, d := range closed {
		for _, w := range c.of[d.ID] {
			w.given <- d // a decision is closed once, and who was given it is taken out
		}
		all = append(all, c.of[d.ID]...)
		delete(c.of, d.ID)
	}
	c.mu.Unlock()
	if len(all) == 0 {
		return
	}
	limit := time.NewTimer(handOver)
	defer limit.Stop()
	for _, w := range all {
		select {
		case <-w.told:
		case <-limit.C:
			return
		}
	}
}

// Closed blocks until a decision is not open any more and returns it, or NotFound.
// Whoever waits is given what this process wrote when that is durable, without another
// look at the file, and before anybody else is woken: an agent waits for an answer.
// The others follow once told is called, which is never nil and may be called late or
// twice, or after 5 ms. What another process wrote is noticed with Config.Beside only.
// Closed does not watch the deadline. When ctx ends it returns ctx.Err().
func (s *Store) Closed(ctx context.Context, id string) (d nod.Decision, told func(), err error) {
	own := s.closings.join(id)
	defer func() {
		s.closings.leave(id, own)
		if err != nil {
			own.tell()
		}
	}()
	for {
		beside := s.others.next()
		d, err := s.Decision(ctx, id)
		switch {
		case ctx.Err() != nil:
			return nod.Decision{}, own.tell, ctx.Err()
		case err != nil || d.State != nod.DecisionOpen:
			return d, own.tell, err
		}
		select {
		case d := <-own.given:
			return d, own.tell, nil
		case <-beside:
		case <-ctx.Done():
			return nod.Decision{}, own.tell, ctx.Err()
		}
	}
}

// closed records that d was closed, and by what answer if by one.
func (t *txn) closed(by nod.Actor, d nod.Decision, a *nod.Answer) error {
	t.handed = append(t.handed, d)
	return t.audit(d.Task, nod.EventDecisionClosed, by, d.CommitSHA, Closed{Decision: d, Answer: a})
}
