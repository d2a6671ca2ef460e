package bot

import (
	"context"
	"fmt"

	"nod"
)

// maxConflicts bounds how often a change is worked out anew because somebody
// else wrote in between.
const maxConflicts = 20

// update loads a task's case, lets build fill a change from it and applies that,
// again from the start when the store moved on in between. build returning false
// leaves everything as it is. The case returned is the one after the change.
func (b *Bot) update(ctx context.Context, by nod.Actor, task string, build func(*nod.Case, *nod.Change) (bool, error)) (nod.Case, error) {
	var last error
	for range maxConflicts {
		c, err := b.Ledger.Case(ctx, task)
		if err != nil {
			return nod.Case{}, err
		}
		ch := &nod.Change{By: by}
		write, err := build(&c, ch)
		if err != nil || !write {
			return c, err
		}
		last = b.Ledger.Apply(ctx, ch)
		if last == nil {
			return b.Ledger.Case(ctx, task)
		}
		if nod.CodeOf(last) != nod.Conflict {
			return nod.Case{}, last
		}
	}
	return nod.Case{}, fmt.Errorf("change task after %d conflicts: %w", maxConflicts, last)
}

// move applies on to c's task and puts it into ch, with the label and the status
// comment that tell of it.
func (b *Bot) move(c *nod.Case, ch *nod.Change, on nod.TaskEvent) error {
	was := label(c.Task.State)
	if err := c.Task.On(on); err != nil {
		return err
	}
	ch.Tasks = append(ch.Tasks, &c.Task)
	what := fmt.Sprintf("%d/%s", c.Task.Version+1, c.Task.State)
	if now := label(c.Task.State); now != was {
		if err := b.relabel(c, ch, what); err != nil {
			return err
		}
	}
	return b.tell(c, ch, what)
}

// supersede closes the open decisions of c that pick chooses. The caller moves
// the task on when none is left open that blocks it.
func supersede(c *nod.Case, ch *nod.Change, pick func(nod.Decision) bool) {
	for i := range c.Decisions {
		d := &c.Decisions[i]
		if d.State == nod.DecisionOpen && pick(*d) {
			d.State = nod.DecisionSuperseded
			ch.Decisions = append(ch.Decisions, d)
		}
	}
}

// unblock answers the task's wait when no blocking decision is open any more.
func (b *Bot) unblock(c *nod.Case, ch *nod.Change) error {
	if c.Task.State != nod.TaskAwaitingGuidance || c.Blocked() {
		return nil
	}
	return b.move(c, ch, nod.TaskAnswered)
}
