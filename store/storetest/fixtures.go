package storetest

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"nod"
)

// clock is a clock that only its test moves.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2030, 1, 2, 3, 4, 5, 6_000_000, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

var (
	by   = nod.Supervisor()
	host = nod.Actor{Kind: nod.ActorHost}
	repo = nod.Repo{Host: "github.test", Owner: "Acme", Name: "Web"}
)

// fixture is an open store with a clock, and short ways to fill it.
type fixture struct {
	testing.TB
	ctx context.Context
	Store
	*clock
	n int
}

func newFixture(t testing.TB, open Open, setup Setup) *fixture {
	c := newClock()
	if setup.Now == nil {
		setup.Now = c.now
	}
	return &fixture{TB: t, ctx: t.Context(), Store: open(t, setup), clock: c}
}

func (f *fixture) apply(c nod.Change) {
	f.Helper()
	c.By = by
	if err := f.Apply(f.ctx, &c); err != nil {
		f.Fatalf("apply: %v", err)
	}
}

// refuses fails the test unless c is refused with code and leaves nothing behind.
func (f *fixture) refuses(why string, code nod.Code, c nod.Change) {
	f.Helper()
	if c.By.Kind == "" {
		c.By = by
	}
	before := f.head()
	err := f.Apply(f.ctx, &c)
	wants(f, why, err, code)
	if f.head() != before {
		f.Errorf("%s: the refused change left events behind", why)
	}
}

func wants(t testing.TB, why string, err error, code nod.Code) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error, want %s", why, code)
	} else if nod.CodeOf(err) != code {
		t.Errorf("%s: %v is %s, want %s", why, err, nod.CodeOf(err), code)
	}
}

// head verifies the chain and returns its head.
func (f *fixture) head() string {
	f.Helper()
	r, err := f.VerifyChain(f.ctx, "")
	if err != nil || !r.Verified {
		f.Fatalf("verify chain: %+v, %v", r, err)
	}
	return r.Head
}

func (f *fixture) caseOf(task string) nod.Case {
	f.Helper()
	c, err := f.Case(f.ctx, task)
	if err != nil {
		f.Fatalf("case of %s: %v", task, err)
	}
	return c
}

// kinds returns the kinds of a stream's events.
func (f *fixture) kinds(stream string) []nod.EventKind {
	f.Helper()
	events, err := f.Events(f.ctx, stream, 0, 1000)
	if err != nil {
		f.Fatalf("events: %v", err)
	}
	var kinds []nod.EventKind
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func (f *fixture) id(prefix string) string {
	f.n++
	return fmt.Sprintf("%s%08d", prefix, f.n)
}

// task stores a queued task of an issue of its own.
func (f *fixture) task() *nod.Task {
	f.Helper()
	id := f.id("t")
	t := &nod.Task{ID: id, Repo: repo, Installation: 5, Issue: f.n, Title: "Greet", State: nod.TaskQueued, Agent: "scripted",
		RequestedBy: nod.Actor{Kind: nod.ActorGitHub, Host: "github.test", ID: 7, Login: "ada"}, InputDigest: nod.Digest([]byte("x")),
		BaseRef: "main", Branch: "nod/" + id, Approved: true}
	f.apply(nod.Change{Tasks: []*nod.Task{t}})
	return t
}

// running stores a task at work, with its environment and its first run.
func (f *fixture) running() (*nod.Task, *nod.Environment, *nod.Run) {
	f.Helper()
	t := f.task()
	t.State = nod.TaskRunning
	e := &nod.Environment{ID: f.id("e"), Task: t.ID, Driver: "fake", State: nod.EnvironmentProvisioning}
	r := &nod.Run{ID: f.id("r"), Task: t.ID, Number: 1, Environment: e.ID, Agent: "scripted", State: nod.RunStarting, Attempt: 1}
	f.apply(nod.Change{Tasks: []*nod.Task{t}, Environments: []*nod.Environment{e}, Runs: []*nod.Run{r}})
	return t, e, r
}

// approval makes an open tool approval that blocks nothing.
func (f *fixture) approval(t *nod.Task, run string) *nod.Decision {
	d := &nod.Decision{ID: f.id("d"), Task: t.ID, Run: run, Kind: nod.Approval, Cause: nod.CauseTool, Subject: "Bash",
		State: nod.DecisionOpen, Deadline: f.now().Add(nod.ApprovalDeadline)}
	d.SetInput(`{"command":"make ` + d.ID + `"}`)
	return d
}

// opened stores such an approval for a task of its own.
func (f *fixture) opened() *nod.Decision {
	f.Helper()
	d := f.approval(f.task(), "")
	f.apply(nod.Change{Decisions: []*nod.Decision{d}})
	return d
}

// key is a passkey whose private half the test has.
type key struct {
	f       *fixture
	id      string
	private ed25519.PrivateKey
	public  []byte
	count   uint32
}

// verifyAssertion is the Setup.VerifyAssertion that goes with key.
func verifyAssertion(d nod.Decision, a nod.Answer, as nod.Assertion) error {
	if len(as.PublicKey) != ed25519.PublicKeySize ||
		!ed25519.Verify(as.PublicKey, nod.AnswerChallenge(d, a.Answer, a.Reason, as.Nonce), as.Signature) {
		return nod.E(nod.Forbidden, "the signature does not verify", nil)
	}
	return nil
}

// enrol enrols a new passkey the way the page does.
func (f *fixture) enrol() *key {
	f.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		f.Fatal(err)
	}
	k := &key{f: f, id: base64.RawURLEncoding.EncodeToString(public[:16]), private: private, public: public}
	token, challenge := nod.Digest([]byte(f.id("token"))), f.id("c")
	must(f, f.CreateEnrolment(f.ctx, nod.Enrolment{TokenDigest: token, Name: "phone", ExpiresAt: f.now().Add(time.Hour)}))
	must(f, f.SaveChallenge(f.ctx, nod.Challenge{ID: challenge, Kind: nod.ChallengeEnrol, Bytes: make([]byte, 32), Enrolment: token,
		ExpiresAt: f.now().Add(time.Minute)}))
	must(f, f.Enrol(f.ctx, challenge, nod.Passkey{ID: k.id, UserHandle: []byte("u"), PublicKey: public}))
	return k
}

// answer saves a challenge for an answer and signs it.
func (k *key) answer(d nod.Decision, answer, reason string) nod.Answer {
	k.f.Helper()
	k.count++
	c := nod.Challenge{ID: k.f.id("c"), Kind: nod.ChallengeAnswer, Nonce: strings.Repeat("0", 60) + k.f.id("")[:4], Decision: d.ID, Answer: answer,
		Reason: reason, ExpiresAt: k.f.now().Add(nod.ChallengeLife)}
	c.Bytes = nod.AnswerChallenge(d, answer, reason, c.Nonce)
	must(k.f, k.f.SaveChallenge(k.f.ctx, c))
	return nod.Answer{Decision: d.ID, Answer: answer, Reason: reason, Challenge: c.ID, By: nod.Actor{Kind: nod.ActorPasskey, Passkey: k.id},
		Assertion: &nod.Assertion{Credential: k.id, Signature: ed25519.Sign(k.private, c.Bytes), SignCount: k.count, PublicKey: k.public,
			RPID: "localhost", Origin: "http://localhost", Nonce: c.Nonce}}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
