package agent

import (
	"context"

	"nod"
)

// MaxPrompts is how many requests of one session may be with the approver at once;
// one more is denied. How many may wait for a person is for the approver to say
// (nod.MaxWaiting): an agent reads a dozen files at once, which a rule allows.
const MaxPrompts = 64

// prompt is one permission request that waits for an answer.
type prompt struct {
	cancel context.CancelFunc
	group  string
}

// Refusals of a prompt that is not put to the approver.
const (
	refusedTwice  = "Denied: the same request came twice."
	refusedEnding = "Denied: the session is ending."
	refusedEarly  = "Denied: the session is not open."
	refusedCrowd  = "Denied: too many requests wait for an answer. Ask for one thing at a time."
	refusedLate   = "Nobody answered in time."
)

// Ask hands a permission request to the approver in a goroutine of its own, or
// denies it at once. answer is called with what came of it, unless the request was
// withdrawn or voided meanwhile: a late answer is no answer. What answer sends is in
// the program's input, as a rule, before the approver's context ends. group is the
// part of the session that asks, for Void.
func (l *Live) Ask(r nod.ApprovalRequest, group string, answer func(nod.ApprovalAnswer)) {
	digest := nod.Digest(r.Input)
	settled := func(outcome, why string) nod.ApprovalSettled {
		return nod.ApprovalSettled{ID: r.ID, CallID: r.CallID, Kind: r.Kind, Tool: r.Tool, InputDigest: digest, Outcome: outcome, Reason: why}
	}
	ctx, cancel := context.WithCancel(l.ctx)
	p := &prompt{cancel: cancel, group: group}
	if why := l.admit(r.ID, p); why != "" {
		cancel()
		l.Emit(nod.EventApproval, settled(nod.SettledDenied, why))
		answer(nod.ApprovalAnswer{Reason: why})
		return
	}
	l.work.Go(func() {
		defer cancel()
		a := l.approve(ctx, r)
		if !l.take(r.ID, p) {
			l.Emit(nod.EventApproval, settled(nod.SettledWithdrawn, ""))
			return
		}
		if ctx.Err() != nil {
			a = nod.ApprovalAnswer{Reason: refusedLate}
		}
		outcome, why := nod.SettledAllowed, ""
		if !a.Allow {
			outcome, why = nod.SettledDenied, a.Reason
		}
		// Its event stands before whatever the program says then, but the program hears
		// before anybody is woken.
		l.hold(nod.EventApproval, settled(outcome, why))
		answer(a)
		l.heard()
		cancel()
		l.release()
	})
}

// admit takes p into the waiting prompts, or says why it is denied unasked.
func (l *Live) admit(id string, p *prompt) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch double := l.prompts[id]; {
	case double != nil:
		delete(l.prompts, id)
		double.cancel()
		return refusedTwice
	case l.state.ending || l.state.broken != nil:
		return refusedEnding
	case !l.state.Open:
		return refusedEarly
	case len(l.prompts) >= MaxPrompts:
		return refusedCrowd
	}
	l.prompts[id] = p
	return ""
}

// take removes p if it still waits under id.
func (l *Live) take(id string, p *prompt) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.prompts[id] != p {
		return false
	}
	delete(l.prompts, id)
	return true
}

// Withdraw forgets a request that the program no longer waits for, and reports
// whether it waited.
func (l *Live) Withdraw(id string) bool {
	l.mu.Lock()
	p := l.prompts[id]
	delete(l.prompts, id)
	l.mu.Unlock()
	if p != nil {
		p.cancel()
	}
	return p != nil
}

// Void withdraws every request, or with a filter those of the groups it is true
// of, and returns their ids.
func (l *Live) Void(of func(group string) bool) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []string
	for id, p := range l.prompts {
		if of != nil && !of(p.group) {
			continue
		}
		delete(l.prompts, id)
		p.cancel()
		ids = append(ids, id)
	}
	return ids
}
