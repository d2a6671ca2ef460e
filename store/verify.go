package store

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"nod"
)

// VerifyChain recomputes the audit chain and reports the first thing that is
// wrong: an entry that was changed, removed, inserted, reordered or left out of
// the chain, a stream whose end is missing, an answer whose signature does not
// hold or whose key was never enrolled, and a stored decision that says something
// else than its audit event. An error means that it could not be read at all.
//
// expectedHead, when not empty, is a hash that was written down earlier; it must
// still be in the chain. Only that finds a chain that was recomputed as a whole.
func (s *Store) VerifyChain(ctx context.Context, expectedHead string) (nod.ChainReport, error) {
	report := nod.ChainReport{At: moment(s.now())}
	err := s.read(ctx, func(tx *sql.Tx) error {
		v := newVerifier(&report, expectedHead, s.verify, s.verifyAct)
		for _, check := range []func(context.Context, *sql.Tx) error{v.walk, v.ends, v.decisions} {
			if err := check(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nod.ChainReport{}, err
	}
	report.Verified = report.Problem == ""
	return report, nil
}

// Verify checks the signature of a passkey answer; see Config.VerifyAssertion.
type Verify func(d nod.Decision, a nod.Answer, as nod.Assertion) error

// VerifyAct checks the signature of an act by a passkey.
type VerifyAct func(nod.Act) error

type verifier struct {
	report   *nod.ChainReport
	expected string
	verify   Verify
	act      VerifyAct
	last     map[string]int64        // seq of each stream's last audit event
	opened   map[string]nod.Decision // as they were asked
	closed   map[string]nod.Decision // as their audit events left them
	allowed  map[string][]nod.Actor  // by decision: passkeys that were seen to allow it
	repos    map[string]nod.Repo     // of each task
	keys     map[string]nod.Passkey  // enrolled and not revoked, by credential
}

func newVerifier(report *nod.ChainReport, expectedHead string, verify Verify, act VerifyAct) *verifier {
	return &verifier{report: report, expected: expectedHead, verify: verify, act: act, last: map[string]int64{},
		allowed: map[string][]nod.Actor{}, repos: map[string]nod.Repo{}, opened: map[string]nod.Decision{}, closed: map[string]nod.Decision{}, keys: map[string]nod.Passkey{}}
}

// problem keeps the first one.
func (v *verifier) problem(format string, args ...any) {
	if v.report.Problem == "" {
		v.report.Problem = fmt.Sprintf(format, args...)
	}
}

// walk follows the chain in the order of event ids, over all that is an audit
// event or is linked.
func (v *verifier) walk(ctx context.Context, tx *sql.Tx) error {
	rows, err := tx.QueryContext(ctx, `SELECT ids.id, e.id, e.stream, e.seq, e.tier, e.kind, e.actor, e.at, e.data, e.commit_sha, c.previous, c.hash
		FROM (SELECT id FROM events WHERE tier = 'audit' UNION SELECT event FROM audit_chain) AS ids
		LEFT JOIN events AS e ON e.id = ids.id LEFT JOIN audit_chain AS c ON c.event = ids.id ORDER BY ids.id`)
	if err != nil {
		return err
	}
	seen := v.expected == ""
	for rows.Next() {
		var id int64
		var event sql.NullInt64
		var actor, previous, hash string
		var linked sql.NullString
		e := nod.Event{}
		if err := rows.Scan(&id, &event, toText{(*string)(&e.Stream)}, toInt{&e.Seq}, toText{(*string)(&e.Tier)}, toText{(*string)(&e.Kind)},
			toText{&actor}, toTime{&e.At}, toRaw{&e.Data}, toText{&e.Commit}, &linked, toText{&hash}); err != nil {
			return errors.Join(err, rows.Close())
		}
		e.ID, previous = id, linked.String
		if event.Valid && json.Unmarshal([]byte(actor), &e.By) != nil {
			v.problem("event %d does not say who acted", id)
		}
		switch {
		case !event.Valid:
			v.problem("event %d was removed: the chain has an entry for it", id)
		case !linked.Valid:
			v.problem("event %d is not in the chain: it was inserted, or its entry was removed", id)
		case previous != v.report.Head:
			v.problem("event %d does not follow the one before it: an entry was removed, inserted or moved", id)
		case hash != chainHash(previous, id, e.Stream, e.Seq, eventHash(e, actor)):
			v.problem("event %d was changed", id)
		case e.Seq <= v.last[e.Stream]:
			v.problem("event %d is out of order in its stream", id)
		default:
			v.content(e)
		}
		if v.report.Problem != "" {
			break
		}
		v.last[e.Stream] = e.Seq
		v.report.Entries++
		v.report.Head = hash
		seen = seen || hash == v.expected
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	if !seen {
		v.problem("the expected head is not in the chain: it was cut or written anew")
	}
	return nil
}

// content re-verifies what an event is evidence of.
func (v *verifier) content(e nod.Event) {
	switch e.Kind {
	case nod.EventPasskeyEnrolled:
		var p nod.Passkey
		if err := json.Unmarshal(e.Data, &p); err != nil || p.ID == "" {
			v.problem("event %d does not say which passkey was enrolled", e.ID)
			return
		}
		v.keys[p.ID] = p
	case nod.EventPasskeyRevoked:
		var p nod.Passkey
		if err := json.Unmarshal(e.Data, &p); err != nil || p.ID == "" {
			v.problem("event %d does not say which passkey was revoked", e.ID)
			return
		}
		delete(v.keys, p.ID)
	case nod.EventDecisionOpened:
		var d nod.Decision
		if err := json.Unmarshal(e.Data, &d); err != nil || d.Valid() != nil {
			v.problem("event %d does not hold a decision", e.ID)
			return
		}
		v.opened[d.ID] = d
	case nod.EventActWanted:
		v.acted(e)
	case nod.EventTaskCreated:
		var t nod.Task
		if err := json.Unmarshal(e.Data, &t); err != nil || t.ID != e.Stream {
			v.problem("event %d does not hold its task", e.ID)
			return
		}
		v.repos[t.ID] = t.Repo
	case nod.EventDecisionClosed, nod.EventDecisionAllowed:
		var c Closed
		if err := json.Unmarshal(e.Data, &c); err != nil || c.Decision.Valid() != nil {
			v.problem("event %d does not hold a decision", e.ID)
			return
		}
		asked, ok := v.opened[c.Decision.ID]
		if !ok || !sameQuestion(asked, c.Decision) || asked.Subject != c.Decision.Subject || asked.Input != c.Decision.Input {
			v.problem("event %d closes a decision that was not asked like this", e.ID)
			return
		}
		before := v.allowed[c.Decision.ID]
		if e.Kind == nod.EventDecisionAllowed {
			v.allowed[c.Decision.ID] = c.Decision.ApprovedBy
			v.allows(e, c, before)
			return
		}
		if !slices.Equal(c.Decision.ApprovedBy, before) {
			v.problem("event %d counts other approvals than there were", e.ID)
			return
		}
		v.closed[c.Decision.ID] = c.Decision
		v.answer(e, c)
	}
}

func (v *verifier) answer(e nod.Event, c Closed) {
	d := c.Decision
	if d.State != nod.DecisionAnswered {
		if c.Answer != nil {
			v.problem("event %d answers a decision that it says was not answered", e.ID)
		}
		return
	}
	if c.Answer == nil || c.Answer.Decision != d.ID || c.Answer.Answer != d.Answer || c.Answer.Reason != d.Reason || c.Answer.By != d.AnsweredBy || e.By != d.AnsweredBy {
		if c.Answer == nil {
			v.problem("event %d holds no answer", e.ID)
			return
		}
		v.problem("event %d holds another answer than its decision", e.ID)
		return
	}
	if !d.AnsweredAt.Equal(e.At) || d.Late(e.At) {
		v.problem("event %d says that its decision was answered at another time, or too late", e.ID)
		return
	}
	several := d.Permits() && d.Approvals > 1
	if several && d.Approved(d.AnsweredBy.Passkey) {
		v.problem("event %d counts one passkey twice", e.ID)
		return
	}
	if d.AnsweredBy.Kind == nod.ActorHost && c.Answer.Assertion == nil && !several {
		return
	}
	v.signed(e, d, *c.Answer)
}

// allows checks one of several approvals. before are those there were already.
func (v *verifier) allows(e nod.Event, c Closed, before []nod.Actor) {
	d := c.Decision
	n := len(d.ApprovedBy) - 1
	if d.State != nod.DecisionOpen || c.Answer == nil || n < 0 || n+1 >= d.Approvals || !slices.Equal(d.ApprovedBy[:n], before) ||
		c.Answer.Decision != d.ID || c.Answer.Answer != nod.Allow || c.Answer.By != d.ApprovedBy[n] || e.By != c.Answer.By ||
		slices.ContainsFunc(before, func(a nod.Actor) bool { return a.Passkey == e.By.Passkey }) || d.Late(e.At) {
		v.problem("event %d does not add one approval to those there were", e.ID)
		return
	}
	v.signed(e, d, *c.Answer)
}

// acted checks an act as an answer is.
func (v *verifier) acted(e nod.Event) {
	var a nod.Act
	if err := json.Unmarshal(e.Data, &a); err != nil || a.Valid() != nil || a.Task != e.Stream || a.By != e.By || !a.CreatedAt.Equal(e.At) {
		v.problem("event %d does not hold an act", e.ID)
		return
	}
	if a.By.Kind == nod.ActorHost && a.Assertion == nil {
		return
	}
	v.evidence(e, a.Task, a.By, a.Assertion, v.act != nil, func() error { return v.act(a) })
}

// signed checks that an answer was signed by an enrolled passkey that may.
func (v *verifier) signed(e nod.Event, d nod.Decision, a nod.Answer) {
	v.evidence(e, d.Task, a.By, a.Assertion, v.verify != nil, func() error { return v.verify(d, a, *a.Assertion) })
}

// evidence checks that what e records about task was signed by a passkey that was
// enrolled and covers it.
func (v *verifier) evidence(e nod.Event, task string, by nod.Actor, as *nod.Assertion, checked bool, check func() error) {
	repo, ok := v.repos[task]
	switch {
	case as == nil || by.Kind != nod.ActorPasskey || as.Credential != by.Passkey:
		v.problem("the answer in event %d is not signed by who gave it", e.ID)
	case !bytes.Equal(v.keys[as.Credential].PublicKey, as.PublicKey) || len(as.PublicKey) == 0:
		v.problem("the key of the answer in event %d was never enrolled, or was revoked before", e.ID)
	case !ok || task != e.Stream || !v.keys[as.Credential].Covers(repo):
		v.problem("the key of the answer in event %d is not for the repository of its task", e.ID)
	case !checked:
	default:
		if err := check(); err != nil {
			v.problem("the signature of the answer in event %d does not hold: %s", e.ID, nod.PublicMessage(err))
			return
		}
		v.report.Signatures++
	}
}

// ends finds events that were cut off the end of a stream.
func (v *verifier) ends(ctx context.Context, tx *sql.Tx) error {
	type end struct {
		stream     string
		given, got int64
	}
	ends, err := list(ctx, tx, func(r scanner) (x end, err error) {
		err = r.Scan(&x.stream, &x.given, &x.got)
		return x, err
	}, `SELECT s.stream, s.last_seq, coalesce((SELECT max(seq) FROM events AS e WHERE e.stream = s.stream), 0) FROM streams AS s ORDER BY s.stream`)
	if err != nil {
		return err
	}
	for _, x := range ends {
		if x.given != x.got {
			v.problem("stream %s ends at %d but %d was given out: its last events were removed", x.stream, x.got, x.given)
		}
	}
	return nil
}

// decisions compares the decisions as stored with the events that closed them.
func (v *verifier) decisions(ctx context.Context, tx *sql.Tx) error {
	if v.report.Problem != "" {
		return nil
	}
	rows, err := list(ctx, tx, scanDecision, `SELECT `+decisionColumns+` FROM decisions ORDER BY n`)
	if nod.CodeOf(err) == nod.Internal && err != nil && ctx.Err() == nil {
		var broken *nod.Error
		if errors.As(err, &broken) {
			v.problem("%s", broken.Error())
			return nil
		}
	}
	if err != nil {
		return err
	}
	for _, d := range rows {
		c, ok := v.closed[d.ID]
		switch {
		case d.State == nod.DecisionOpen && !ok && slices.Equal(d.ApprovedBy, v.allowed[d.ID]):
		case !ok || c.State != d.State || c.Answer != d.Answer || c.Reason != d.Reason || c.AnsweredBy != d.AnsweredBy ||
			!slices.Equal(c.ApprovedBy, d.ApprovedBy) || !sameQuestion(c, d):
			v.problem("decision %s is stored as %s but the audit log says otherwise", d.ID, d.State)
		}
	}
	return nil
}
