package store

import (
	"context"
	"encoding/json"
	"strconv"

	"nod"
)

// kinds says in which tier an event of a known kind is kept. Every kind that is
// not in here may be in either.
var kinds = map[nod.EventKind]nod.EventTier{
	nod.EventAttested: nod.Audit, nod.EventVerdict: nod.Audit, nod.EventEgressDenied: nod.Audit,
	nod.EventUsage: nod.Audit, nod.EventBudget: nod.Audit, nod.EventTerminalOpened: nod.Audit, nod.EventTerminalClosed: nod.Audit, nod.EventInstallation: nod.Audit,
	nod.EventSession: nod.Transcript, nod.EventMessage: nod.Transcript, nod.EventToolCall: nod.Transcript,
	nod.EventToolResult: nod.Transcript, nod.EventAgentUsage: nod.Transcript, nod.EventAgentError: nod.Transcript,
	nod.EventResult: nod.Transcript, nod.EventDiff: nod.Transcript, nod.EventTestResult: nod.Transcript,
	nod.EventApproval: nod.Transcript, nod.EventSignedOut: nod.Transcript, nod.EventQuota: nod.Transcript,
}

// own are the kinds that only the store writes, so that there is exactly one per
// change of state and none without.
var own = map[nod.EventKind]bool{
	nod.EventTaskCreated: true, nod.EventTaskState: true, nod.EventRunState: true, nod.EventEnvironment: true,
	nod.EventDecisionOpened: true, nod.EventDecisionClosed: true, nod.EventDecisionAllowed: true, nod.EventActWanted: true, nod.EventActFinished: true, nod.EventActRefused: true, nod.EventAnswerRefused: true, nod.EventAnswerRepeated: true, nod.EventDecisionSeen: true, nod.EventRevision: true,
	nod.EventEffectIntended: true, nod.EventEffectOutcome: true, nod.EventPasskeyEnrolled: true,
	nod.EventPasskeyRevoked: true, nod.EventPurged: true,
}

const eventColumns = `id, stream, seq, tier, kind, actor, at, data, commit_sha`

func scanEvent(r scanner) (e nod.Event, err error) {
	err = r.Scan(&e.ID, &e.Stream, &e.Seq, &e.Tier, &e.Kind, toJSON{&e.By}, toTime{&e.At}, toRaw{&e.Data}, &e.Commit)
	return e, err
}

// putEvents appends what the caller of Apply wants recorded besides the changes
// of state.
func (t *txn) putEvents(by nod.Actor, events []*nod.Event) error {
	for _, e := range unique(events) {
		if own[e.Kind] {
			return invalid("events of kind " + string(e.Kind) + " are written by the store alone")
		}
		if tier, ok := kinds[e.Kind]; ok && tier != e.Tier {
			return invalid("an event of kind " + string(e.Kind) + " belongs to tier " + string(tier))
		}
		stored := *e
		if stored.By.Kind == "" {
			stored.By = by
		}
		if len(stored.Data) == 0 {
			stored.Data = json.RawMessage(`{}`)
		}
		if !json.Valid(stored.Data) {
			return invalid("the data of an event is not JSON")
		}
		stored.Data = t.s.redact.json(stored.Data)
		if err := t.append(&stored); err != nil {
			return err
		}
		t.committed(func() { *e = stored })
	}
	return nil
}

// audit appends one of the store's own events. data must be clean of secrets.
func (t *txn) audit(stream string, kind nod.EventKind, by nod.Actor, commit string, data any) error {
	raw, err := json.Marshal(data)
	if err != nil {
		return nod.E(nod.Internal, "an audit event cannot be written as JSON", err)
	}
	if stream == "" {
		stream = nod.SupervisorStream
	}
	return t.append(&nod.Event{Stream: stream, Tier: nod.Audit, Kind: kind, By: by, Data: raw, Commit: commit})
}

// append gives e its place in its stream and, when it is an audit event, in the
// chain.
func (t *txn) append(e *nod.Event) error {
	switch {
	case e.Stream == "" || e.Kind == "":
		return invalid("an event has no stream or no kind")
	case e.Tier != nod.Audit && e.Tier != nod.Transcript:
		return invalid("event tier " + strconv.Quote(string(e.Tier)) + " is unknown")
	case e.By.Kind == "":
		return invalid("an event does not say who acted")
	}
	by, err := asJSON(e.By)
	if err != nil {
		return err
	}
	e.At = t.now
	if err := t.row(`INSERT INTO streams (stream, last_seq) VALUES (?, 1)
		ON CONFLICT (stream) DO UPDATE SET last_seq = last_seq + 1 RETURNING last_seq`, e.Stream).Scan(&e.Seq); err != nil {
		return err
	}
	if err := t.row(`INSERT INTO events (stream, seq, tier, kind, actor, at, data, commit_sha) VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		e.Stream, e.Seq, e.Tier, e.Kind, by, e.At.UnixMilli(), string(e.Data), e.Commit).Scan(&e.ID); err != nil {
		return err
	}
	if e.Tier != nod.Audit {
		return nil
	}
	return t.link(*e, by)
}

// Events returns up to limit (at most 1,000) events of a task after seq, oldest
// first. The supervisor's stream is read by its name.
func (s *Store) Events(ctx context.Context, task string, afterSeq int64, limit int) ([]nod.Event, error) {
	events, err := list(ctx, s.readers, scanEvent, `SELECT `+eventColumns+` FROM events WHERE stream = ? AND seq > ? ORDER BY seq LIMIT ?`,
		task, afterSeq, min(max(limit, 0), maxEvents))
	return events, mapped(ctx, err)
}

// EventsOfCommit returns the events that concern a commit, oldest first, at most
// 1,000.
func (s *Store) EventsOfCommit(ctx context.Context, sha string) ([]nod.Event, error) {
	if sha == "" {
		return nil, invalid("no commit was named")
	}
	events, err := list(ctx, s.readers, scanEvent, `SELECT `+eventColumns+` FROM events WHERE commit_sha = ? ORDER BY id LIMIT ?`, sha, maxEvents)
	return events, mapped(ctx, err)
}

// Purge deletes the transcript of a task and records how much that was, and by
// whom, as an audit event. Audit events stay; sequence numbers are not reused.
func (s *Store) Purge(ctx context.Context, task string, by nod.Actor) error {
	if by.Kind == "" {
		return invalid("a purge does not say who acted")
	}
	return s.write(ctx, func(t *txn) error {
		if _, err := one("task", t.row(`SELECT `+taskColumns+` FROM tasks WHERE id = ?`, task), scanTask); err != nil {
			return err
		}
		if _, err := t.exec(`INSERT INTO purging (stream) VALUES (?)`, task); err != nil {
			return err
		}
		n, err := t.exec(`DELETE FROM events WHERE stream = ? AND tier = 'transcript'`, task)
		if err != nil {
			return err
		}
		if _, err := t.exec(`DELETE FROM purging WHERE stream = ?`, task); err != nil {
			return err
		}
		return t.audit(task, nod.EventPurged, by, "", Purged{Events: n})
	})
}

// Purged is the Data of EventPurged.
type Purged struct {
	Events int64 `json:"events"` // transcript rows that were deleted
}
