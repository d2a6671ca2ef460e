package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"nod"
)

// ExportFormat names the layout of an Export, and is the first thing checked.
const ExportFormat = "nod.audit.export.v1"

// Export is the evidence of one task, for somebody without the database. Chain
// is the whole audit chain: the events of the task and of the supervisor in
// full, of every other one only its place and its hash. Keys and Decisions
// repeat what those events say, for reading.
type Export struct {
	Format    string          `json:"format"`
	Task      string          `json:"task"`
	Head      string          `json:"head"` // hash of the last entry
	Keys      []nod.Passkey   `json:"keys"` // as enrolled, without counters since
	Decisions []Closed        `json:"decisions"`
	Inputs    []ExportedInput `json:"inputs"` // what the decisions were about, whole
	Chain     []ExportedEntry `json:"chain"`
}

// ExportedInput is the whole of what decisions with this digest were about.
type ExportedInput struct {
	Digest string `json:"digest"`
	Text   []byte `json:"text"`
}

// ExportedEntry is one entry of the chain. Hash follows from the Hash of the entry
// before it and from the rest; see ARCHITECTURE.md.
type ExportedEntry struct {
	ID      int64          `json:"id"`
	Stream  string         `json:"stream"`
	Seq     int64          `json:"seq"`
	Content string         `json:"content"` // hash of what the event says
	Hash    string         `json:"hash"`
	Event   *ExportedEvent `json:"event,omitempty"` // nil when it is of another task
}

// ExportedEvent is what an event says, byte for byte as it was hashed.
type ExportedEvent struct {
	Tier   nod.EventTier `json:"tier"`
	Kind   nod.EventKind `json:"kind"`
	Actor  string        `json:"actor"` // JSON
	At     int64         `json:"at"`    // UTC milliseconds
	Data   string        `json:"data"`  // JSON
	Raw    []byte        `json:"raw,omitempty"`
	Commit string        `json:"commit,omitempty"`
}

func (x ExportedEvent) event(in ExportedEntry) nod.Event {
	data := []byte(x.Data)
	if x.Raw != nil {
		data = x.Raw
	}
	return nod.Event{ID: in.ID, Stream: in.Stream, Seq: in.Seq, Tier: x.Tier, Kind: x.Kind, At: time.UnixMilli(x.At).UTC(), Data: data, Commit: x.Commit}
}

// ExportTask returns the evidence of a task as JSON that VerifyExport checks, or
// NotFound. It shows nothing that other tasks' events say.
func (s *Store) ExportTask(ctx context.Context, task string) ([]byte, error) {
	var x Export
	err := s.read(ctx, func(tx *sql.Tx) error {
		if _, err := one("task", tx.QueryRowContext(ctx, `SELECT `+taskColumns+` FROM tasks WHERE id = ?`, task), scanTask); err != nil {
			return err
		}
		chain, err := list(ctx, tx, func(r scanner) (ExportedEntry, error) { return scanEntry(r, task) },
			`SELECT e.id, e.stream, e.seq, e.tier, e.kind, e.actor, e.at, e.data, e.commit_sha, c.hash
			FROM audit_chain AS c JOIN events AS e ON e.id = c.event ORDER BY c.event`)
		if err != nil {
			return err
		}
		if x, err = derive(task, chain); err != nil {
			return err
		}
		x.Inputs, err = inputs(ctx, tx, x.Decisions)
		return err
	})
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(x)
	if err != nil {
		return nil, nod.E(nod.Internal, "the evidence cannot be written as JSON", err)
	}
	return append(raw, '\n'), nil
}

func scanEntry(r scanner, task string) (ExportedEntry, error) {
	var in ExportedEntry
	var x ExportedEvent
	var data []byte
	if err := r.Scan(&in.ID, &in.Stream, &in.Seq, &x.Tier, &x.Kind, &x.Actor, &x.At, &data, &x.Commit, &in.Hash); err != nil {
		return in, err
	}
	if x.Data = string(data); !utf8.Valid(data) {
		x.Data, x.Raw = "", data
	}
	in.Content = eventHash(x.event(in), x.Actor)
	if in.full(task) {
		in.Event = &x
	}
	return in, nil
}

// full reports whether the event itself must be in the evidence of task: a task's
// own, and what says which passkeys there were.
func (in ExportedEntry) full(task string) bool {
	return in.Stream == task || in.Stream == nod.SupervisorStream
}

// derive reads out of a chain what an export repeats of it.
func derive(task string, chain []ExportedEntry) (Export, error) {
	x := Export{Format: ExportFormat, Task: task, Keys: []nod.Passkey{}, Decisions: []Closed{}, Chain: chain}
	for _, in := range chain {
		x.Head = in.Hash
		if in.Event == nil {
			continue
		}
		e := in.Event.event(in)
		switch e.Kind {
		case nod.EventPasskeyEnrolled:
			var p nod.Passkey
			if err := json.Unmarshal(e.Data, &p); err != nil {
				return x, nod.E(nod.Internal, fmt.Sprintf("event %d does not say which passkey was enrolled", in.ID), err)
			}
			x.Keys = append(x.Keys, p)
		case nod.EventDecisionClosed:
			var c Closed
			if err := json.Unmarshal(e.Data, &c); err != nil {
				return x, nod.E(nod.Internal, fmt.Sprintf("event %d does not hold a decision", in.ID), err)
			}
			x.Decisions = append(x.Decisions, c)
		}
	}
	return x, nil
}

// inputs reads what decisions were about. One that a secret was taken out of is
// left out, since nothing could tell any more whether it is the right one.
func inputs(ctx context.Context, tx *sql.Tx, decisions []Closed) ([]ExportedInput, error) {
	kept := []ExportedInput{}
	for _, c := range decisions {
		digest := c.Decision.InputDigest
		if digest == "" || slices.ContainsFunc(kept, func(in ExportedInput) bool { return in.Digest == digest }) {
			continue
		}
		var text []byte
		err := tx.QueryRowContext(ctx, `SELECT bytes FROM blobs WHERE digest = ? AND redacted = 0`, digest).Scan(&text)
		if isNone(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		kept = append(kept, ExportedInput{digest, append([]byte{}, text...)})
	}
	return kept, nil
}

// VerifyExport checks what ExportTask wrote, and needs nothing else: that every
// entry follows from the one before it, that no event of the task or of the
// supervisor is left out, that every answer holds as VerifyChain says, and that
// every byte but white space is as it was written.
//
// expectedHead is as for VerifyChain. Without one, nothing shows that the chain as
// a whole was not written anew, but the answers still cannot have been: those are
// signed. An error means that raw is no export at all.
func VerifyExport(raw []byte, expectedHead string, verify Verify, act VerifyAct) (nod.ChainReport, error) {
	var x Export
	var as bytes.Buffer
	if err := errors.Join(json.Unmarshal(raw, &x), json.Compact(&as, raw)); err != nil {
		return nod.ChainReport{}, nod.E(nod.Invalid, "the file is not JSON as nod audit export writes it", err)
	}
	if x.Format != ExportFormat || x.Task == "" || x.Task == nod.SupervisorStream {
		return nod.ChainReport{}, nod.E(nod.Invalid, "the file is not an export of this nod", nil)
	}
	report := nod.ChainReport{At: moment(time.Now())}
	v := newVerifier(&report, expectedHead, verify, act)
	v.entries(x)
	v.repeated(x, as.Bytes())
	report.Verified = report.Problem == ""
	return report, nil
}

// entries follows the chain of an export.
func (v *verifier) entries(x Export) {
	seen, began := v.expected == "", false
	for _, in := range x.Chain {
		switch {
		case in.Seq <= v.last[in.Stream]:
			v.problem("event %d is out of order in its stream", in.ID)
		case in.Hash != chainHash(v.report.Head, in.ID, in.Stream, in.Seq, in.Content):
			v.problem("event %d was changed, or an entry before it was removed, inserted or moved", in.ID)
		case in.full(x.Task) != (in.Event != nil):
			v.problem("event %d is not shown, or is shown and should not be", in.ID)
		}
		if in.Event != nil && v.report.Problem == "" {
			e := in.Event.event(in)
			if json.Unmarshal([]byte(in.Event.Actor), &e.By) != nil {
				v.problem("event %d does not say who acted", in.ID)
			}
			if in.Content != eventHash(e, in.Event.Actor) {
				v.problem("event %d was changed", in.ID)
			}
			if in.Stream == x.Task && !began {
				if began = true; e.Kind != nod.EventTaskCreated || e.Seq != 1 {
					v.problem("the task does not begin with event %d", in.ID)
				}
			}
			v.content(e)
		}
		if v.report.Problem != "" {
			return
		}
		v.last[in.Stream] = in.Seq
		v.report.Entries++
		v.report.Head = in.Hash
		seen = seen || in.Hash == v.expected
	}
	if !began {
		v.problem("there is no event of the task")
	}
	if !seen {
		v.problem("the expected head is not in the chain: it was cut or written anew")
	}
}

// repeated checks that an export says nothing but what its chain says.
func (v *verifier) repeated(x Export, compact []byte) {
	if v.report.Problem != "" {
		return
	}
	for _, in := range x.Inputs {
		if nod.Digest(in.Text) != in.Digest {
			v.problem("the input %s was changed", in.Digest)
			return
		}
	}
	same, err := derive(x.Task, x.Chain)
	if err != nil {
		v.problem("%s", nod.PublicMessage(err))
		return
	}
	for _, in := range x.Inputs {
		if !slices.ContainsFunc(same.Decisions, func(c Closed) bool { return c.Decision.InputDigest == in.Digest }) {
			v.problem("the input %s belongs to no decision", in.Digest)
			return
		}
	}
	same.Inputs = x.Inputs
	if raw, err := json.Marshal(same); err != nil || !bytes.Equal(raw, compact) {
		v.problem("the file says something else than its chain")
	}
}
