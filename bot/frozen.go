package bot

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"nod"
	"nod/policy"
)

// mayStart asks whether work may start on a frozen issue.
func mayStart(frozen []byte) func(nod.Task) (nod.Decision, string) {
	return func(t nod.Task) (nod.Decision, string) {
		return nod.Decision{Kind: nod.Question, Cause: nod.CauseUntrustedStart, Blocking: true,
			Subject: t.Where(), Options: []string{nod.Allow, nod.Deny}}, string(frozen)
	}
}

// queued starts what may start, and ends what may not. An answer counts for the
// very text that it was given about, and the text on GitHub must still be that one.
func (b *Bot) queued(ctx context.Context, c nod.Case, set RepoSettings) (bool, error) {
	start := c.Task.Approved
	for _, d := range c.Decisions {
		if d.Cause != nod.CauseUntrustedStart || d.InputDigest != c.Task.InputDigest {
			continue
		}
		switch {
		case d.State == nod.DecisionOpen:
			return false, nil
		case d.Permits():
			start = true
		default:
			return true, b.giveUp(ctx, c, "the start was not allowed")
		}
	}
	if !start {
		return true, b.giveUp(ctx, c, c.Task.Reason)
	}
	if changed, err := b.thaw(ctx, c, set); changed || err != nil {
		return changed, err
	}
	_, err := b.update(ctx, nod.Supervisor(), c.Task.ID, func(now *nod.Case, ch *nod.Change) (bool, error) {
		if now.Task.State != nod.TaskQueued || now.Task.InputDigest != c.Task.InputDigest {
			return false, nil
		}
		now.Task.Approved = true
		return true, b.move(now, ch, nod.TaskStart)
	})
	return true, err
}

// thaw reads the issue once more before the start. Where its frozen text was edited,
// the new text takes its place and the owner is asked about it, with the difference,
// whoever made it. Comments that came since are not read by the agent and change
// nothing.
func (b *Bot) thaw(ctx context.Context, c nod.Case, set RepoSettings) (bool, error) {
	raw, err := b.Ledger.Blob(ctx, c.Task.InputDigest)
	if err != nil {
		return false, fmt.Errorf("read the frozen issue: %w", err)
	}
	var was nod.Snapshot
	if err := json.Unmarshal(raw, &was); err != nil {
		return false, nod.E(nod.Internal, "the frozen issue cannot be read", err)
	}
	issue, err := b.GitHub.Issue(ctx, c.Task.Installation, c.Task.Repo, c.Task.Issue)
	switch {
	case err != nil && nod.CodeOf(err) == nod.NotFound:
		return true, b.giveUp(ctx, c, "the issue is gone")
	case err != nil:
		return false, fmt.Errorf("read issue again: %w", err)
	case !issue.Open:
		return true, b.giveUp(ctx, c, "the issue was closed")
	}
	issue.Comments = slices.DeleteFunc(issue.Comments, func(m nod.Comment) bool {
		return !slices.ContainsFunc(was.Comments, func(old nod.Comment) bool { return old.ID == m.ID })
	})
	o := nod.Occurrence{Repo: c.Task.Repo, Installation: c.Task.Installation, Issue: c.Task.Issue, Sender: c.Task.RequestedBy}
	facts, now := b.facts(ctx, set, o, issue)
	now.Changed = difference(was, now)
	if now.Changed == "" {
		return false, nil
	}
	facts.Untrusted = facts.Untrusted || c.Task.Untrusted
	v := policy.Start(facts)
	frozen, err := json.MarshalIndent(now, "", "  ")
	if err != nil {
		return false, nod.E(nod.Internal, "the issue cannot be frozen", err)
	}
	_, err = b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Task.State != nod.TaskQueued {
			return false, nil
		}
		c.Task.InputDigest, c.Task.Title, c.Task.Approved = nod.Digest(frozen), now.Title, false
		c.Task.Untrusted = v.Mark(c.Task.Untrusted)
		ch.Tasks, ch.Blobs = append(ch.Tasks, &c.Task), append(ch.Blobs, frozen)
		e := nod.NewEvent(c.Task.ID, nod.Audit, nod.EventVerdict, nod.Supervisor(), map[string]any{
			"action": "start", "input_digest": c.Task.InputDigest, "changed_from": nod.Digest(raw), "verdict": v})
		ch.Events = append(ch.Events, &e)
		if !v.Allows() && !v.Asks() {
			return true, b.cancel(c, ch, "policy forbids the start: "+v.Because.String())
		}
		if err := b.open(c, ch, mayStart(frozen)); err != nil {
			return false, err
		}
		return true, b.tell(c, ch, "changed/"+c.Task.InputDigest[:16])
	})
	return true, err
}

// difference is what an agent would read otherwise, or "".
func difference(was, now nod.Snapshot) string {
	var w strings.Builder
	compare := func(what, a, b string) {
		if a != b {
			fmt.Fprintf(&w, "%s:\n%s", what, lines(a, b))
		}
	}
	compare("title", was.Title, now.Title)
	compare("body", was.Body, now.Body)
	for _, old := range was.Comments {
		body := ""
		for _, m := range now.Comments {
			if m.ID == old.ID {
				body = m.Body
			}
		}
		compare(fmt.Sprintf("comment %d", old.ID), old.Body, body)
	}
	return w.String()
}

// lines shows what lies between the lines that a and b begin and end with.
func lines(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	var w strings.Builder
	for _, l := range x {
		w.WriteString("− " + l + "\n")
	}
	for _, l := range y {
		w.WriteString("+ " + l + "\n")
	}
	return w.String()
}
