package store_test

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nod"
	"nod/store"
)

// tampered opens a filled store's file behind its back, without triggers.
type tampered struct {
	*testing.T
	store *store.Store
	raw   *sql.DB
	heads []string // of the chain, after each step
}

// verify accepts one fixed signature, so that a test can break it.
func verify(_ nod.Decision, _ nod.Answer, as nod.Assertion) error {
	if string(as.Signature) != "good" {
		return nod.E(nod.Forbidden, "bad signature", nil)
	}
	return nil
}

// newTampered makes a store with a task, two chains of its events, a transcript
// and a signed answer.
func newTampered(t *testing.T) *tampered {
	path := filepath.Join(t.TempDir(), "nod.db")
	s, err := store.Open(t.Context(), store.Config{Path: path, VerifyAssertion: verify})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(raw.Close(), s.Close()); err != nil {
			t.Error(err)
		}
	})
	x := &tampered{T: t, store: s, raw: raw}
	ctx, by := t.Context(), nod.Supervisor()
	apply := func(c *nod.Change) {
		t.Helper()
		c.By = by
		if err := s.Apply(ctx, c); err != nil {
			t.Fatal(err)
		}
		x.heads = append(x.heads, x.report("").Head)
	}
	task := &nod.Task{ID: "t1", Repo: nod.Repo{Host: "h", Owner: "o", Name: "n"}, Issue: 1, State: nod.TaskQueued, Approved: true}
	apply(&nod.Change{Tasks: []*nod.Task{task}})
	said := nod.NewEvent("t1", nod.Transcript, nod.EventMessage, by, nod.Message{Text: "hi"})
	apply(&nod.Change{Events: []*nod.Event{&said}})
	d := &nod.Decision{ID: "d1", Task: "t1", Kind: nod.Approval, Cause: nod.CauseTool, State: nod.DecisionOpen, Deadline: time.Now().Add(time.Hour)}
	d.SetInput("make")
	other := &nod.Decision{ID: "d2", Task: "t1", Kind: nod.Approval, Cause: nod.CauseTool, State: nod.DecisionOpen, Deadline: time.Now().Add(time.Hour)}
	other.SetInput("make all")
	apply(&nod.Change{Decisions: []*nod.Decision{d, other}})
	x.enrolAndAnswer(*d)
	task.State = nod.TaskRunning
	apply(&nod.Change{Tasks: []*nod.Task{task}})
	for _, trigger := range []string{"events_never_change", "events_are_kept", "audit_chain_never_changes", "audit_chain_is_kept", "streams_never_go_back", "streams_are_kept"} {
		x.exec("DROP TRIGGER " + trigger)
	}
	if r := x.report(""); !r.Verified || r.Signatures != 1 {
		t.Fatalf("before tampering: %+v", r)
	}
	return x
}

func (x *tampered) enrolAndAnswer(d nod.Decision) {
	x.Helper()
	ctx, later := x.Context(), time.Now().Add(time.Minute)
	public := make([]byte, ed25519.PublicKeySize)
	c := nod.Challenge{ID: "c2", Kind: nod.ChallengeAnswer, Nonce: "n", Decision: d.ID, Answer: nod.Allow, ExpiresAt: later,
		Bytes: nod.AnswerChallenge(d, nod.Allow, "", "n")}
	for _, err := range []error{
		x.store.CreateEnrolment(ctx, nod.Enrolment{TokenDigest: "e", Name: "phone", ExpiresAt: later}),
		x.store.SaveChallenge(ctx, nod.Challenge{ID: "c1", Kind: nod.ChallengeEnrol, Bytes: make([]byte, 32), Enrolment: "e", ExpiresAt: later}),
		x.store.Enrol(ctx, "c1", nod.Passkey{ID: "p", PublicKey: public}),
		x.store.SaveChallenge(ctx, c),
	} {
		if err != nil {
			x.Fatal(err)
		}
	}
	if _, err := x.store.RecordAnswer(ctx, nod.Answer{Decision: d.ID, Answer: nod.Allow, Challenge: "c2", By: nod.Actor{Kind: nod.ActorPasskey, Passkey: "p"},
		Assertion: &nod.Assertion{Credential: "p", PublicKey: public, Nonce: "n", Signature: []byte("good"), SignCount: 1}}); err != nil {
		x.Fatal(err)
	}
}

func (x *tampered) report(head string) nod.ChainReport {
	x.Helper()
	r, err := x.store.VerifyChain(context.Background(), head)
	if err != nil {
		x.Fatal(err)
	}
	return r
}

func (x *tampered) exec(query string, args ...any) {
	x.Helper()
	if _, err := x.raw.Exec(query, args...); err != nil {
		x.Fatalf("%s: %v", query, err)
	}
}

// TestChainFindsWhatWasTamperedWith holds the promise of nod audit verify: a
// changed, removed, inserted, reordered or unchained entry is found.
func TestChainFindsWhatWasTamperedWith(t *testing.T) {
	const someEvent = `(SELECT id FROM events WHERE kind = 'decision.opened' LIMIT 1)`
	for name, c := range map[string]struct {
		queries []string
		problem string
	}{
		"data changed":      {[]string{`UPDATE events SET data = '{}' WHERE id = ` + someEvent}, "was changed"},
		"actor changed":     {[]string{`UPDATE events SET actor = '{"kind":"host"}' WHERE id = ` + someEvent}, "was changed"},
		"time changed":      {[]string{`UPDATE events SET at = at + 1 WHERE id = ` + someEvent}, "was changed"},
		"kind changed":      {[]string{`UPDATE events SET kind = 'usage' WHERE id = ` + someEvent}, "was changed"},
		"tier changed":      {[]string{`UPDATE events SET tier = 'transcript' WHERE id = ` + someEvent}, "was changed"},
		"commit changed":    {[]string{`UPDATE events SET commit_sha = 'abc' WHERE id = ` + someEvent}, "was changed"},
		"event removed":     {[]string{`DELETE FROM events WHERE id = ` + someEvent}, "was removed"},
		"link removed":      {[]string{`DELETE FROM audit_chain WHERE event = ` + someEvent}, "not in the chain"},
		"both removed":      {[]string{`DELETE FROM audit_chain WHERE event = ` + someEvent, `DELETE FROM events WHERE id = ` + someEvent}, "does not follow"},
		"first removed":     {[]string{`DELETE FROM audit_chain WHERE event = 1`, `DELETE FROM events WHERE id = 1`}, "does not follow"},
		"last removed":      {[]string{`DELETE FROM audit_chain WHERE event = (SELECT max(id) FROM events)`, `DELETE FROM events WHERE id = (SELECT max(id) FROM events)`}, "last events were removed"},
		"unchained insert":  {[]string{`INSERT INTO events SELECT 999, stream, 999, tier, kind, actor, at, data, commit_sha FROM events WHERE id = 1`}, "not in the chain"},
		"insert in between": {[]string{`INSERT INTO events SELECT -1, stream, 999, tier, kind, actor, at, data, commit_sha FROM events WHERE id = 1`}, "not in the chain"},
		"hash changed":      {[]string{`UPDATE audit_chain SET hash = CASE WHEN hash LIKE 'f%' THEN 'e' ELSE 'f' END || substr(hash, 2) WHERE event = 1`}, "was changed"},
		"chained insert": {[]string{`INSERT INTO events SELECT 999, stream, 999, tier, kind, actor, at, data, commit_sha FROM events WHERE id = 1`,
			`INSERT INTO audit_chain SELECT 999, (SELECT hash FROM audit_chain ORDER BY event DESC LIMIT 1), '` + strings.Repeat("0", 64) + `'`}, "was changed"},
		"two swapped": {[]string{
			`CREATE TEMP TABLE two AS SELECT * FROM events WHERE kind = 'decision.opened'`,
			`UPDATE events SET data = (SELECT data FROM two WHERE two.id <> events.id) WHERE kind = 'decision.opened'`}, "was changed"},
		"two links swapped": {[]string{
			`CREATE TEMP TABLE links AS SELECT * FROM audit_chain WHERE event IN (SELECT id FROM events WHERE kind = 'decision.opened')`,
			`DELETE FROM audit_chain WHERE event IN (SELECT event FROM links)`,
			`INSERT INTO audit_chain SELECT (SELECT event FROM links AS o WHERE o.event <> l.event), previous, hash FROM links AS l`}, "does not follow"},
		"decision answered": {[]string{`UPDATE decisions SET state = 'answered', answer = 'allow', answered_by = '{"kind":"host"}', answered_at = 1 WHERE id = 'd2'`}, "says otherwise"},
		"answer changed":    {[]string{`UPDATE decisions SET answer = 'deny' WHERE id = 'd1'`}, "says otherwise"},
		"answer reopened":   {[]string{`UPDATE decisions SET state = 'open', answer = '', answered_at = NULL WHERE id = 'd1'`}, "says otherwise"},
		"question changed":  {[]string{`UPDATE decisions SET input_digest = (SELECT input_digest FROM decisions WHERE id = 'd2') WHERE id = 'd1'`}, "says otherwise"},
		"broken decision":   {[]string{`PRAGMA ignore_check_constraints = 1`, `UPDATE decisions SET deadline = NULL WHERE id = 'd2'`}, "breaks a rule"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newTampered(t)
			x.raw.SetMaxOpenConns(1)
			x.exec(`PRAGMA foreign_keys = 0`)
			for _, q := range c.queries {
				x.exec(q)
			}
			if r := x.report(""); r.Verified || !strings.Contains(r.Problem, c.problem) {
				t.Errorf("report: %+v, want a problem that says %q", r, c.problem)
			}
		})
	}
}

// TestExpectedHeadFindsARewrittenChain: whoever can recompute every hash is found
// by a head that was written down elsewhere.
func TestExpectedHeadFindsARewrittenChain(t *testing.T) {
	x := newTampered(t)
	for _, head := range x.heads {
		if r := x.report(head); !r.Verified {
			t.Errorf("a head that was noted earlier: %+v", r)
		}
	}
	x.exec(`DELETE FROM audit_chain`)
	x.exec(`DELETE FROM events`)
	x.exec(`DELETE FROM streams`)
	x.exec(`DELETE FROM decisions`)
	if r := x.report(""); !r.Verified || r.Entries != 0 {
		t.Errorf("an empty chain: %+v", r)
	}
	if r := x.report(x.heads[0]); r.Verified || !strings.Contains(r.Problem, "expected head") {
		t.Errorf("report: %+v", r)
	}
}

// TestVerifyChainChecksSignaturesAgain: the evidence is verified, not believed.
func TestVerifyChainChecksSignaturesAgain(t *testing.T) {
	x := newTampered(t)
	strict, err := store.Open(t.Context(), store.Config{Path: x.store.Path(), VerifyAssertion: func(d nod.Decision, a nod.Answer, as nod.Assertion) error {
		if d.ID != "d1" || a.Answer != nod.Allow || as.Credential != "p" {
			t.Errorf("asked about %s, %s, %s", d.ID, a.Answer, as.Credential)
		}
		return nod.E(nod.Forbidden, "no", nil)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer strict.Close()
	if r, err := strict.VerifyChain(t.Context(), ""); err != nil || r.Verified || !strings.Contains(r.Problem, "signature") {
		t.Errorf("report: %+v, %v", r, err)
	}
}

// TestEventsAreAppendOnly holds the triggers against a raw connection.
func TestEventsAreAppendOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nod.db")
	s, err := store.Open(t.Context(), store.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	by := nod.Supervisor()
	audit := nod.Event{Stream: "a", Tier: nod.Audit, Kind: nod.EventVerdict}
	said := nod.NewEvent("a", nod.Transcript, nod.EventMessage, by, nod.Message{Text: "hi"})
	if err := s.Apply(t.Context(), &nod.Change{By: by, Events: []*nod.Event{&audit, &said}}); err != nil {
		t.Fatal(err)
	}
	raw, err := sql.Open("sqlite", "file:"+path+"?_pragma=recursive_triggers(1)")
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	for _, q := range []string{
		`UPDATE events SET data = '{}'`, `DELETE FROM events`, `DELETE FROM events WHERE tier = 'transcript'`,
		`INSERT OR REPLACE INTO events SELECT * FROM events`, `UPDATE audit_chain SET hash = hash`, `DELETE FROM audit_chain`,
		`UPDATE streams SET last_seq = 1`, `DELETE FROM streams`,
		`INSERT INTO purging VALUES ('b'); DELETE FROM events WHERE stream = 'a'`,
		`INSERT OR REPLACE INTO purging VALUES ('a'); DELETE FROM events WHERE stream = 'a' AND tier = 'audit'`,
	} {
		if _, err := raw.Exec(q); err == nil {
			t.Errorf("%s: no error", q)
		}
	}
}
