// Package storetest is the conformance suite of the store: what every store of
// nod's state must hold, told as tests. It must never look behind the methods of
// Store, except through what Setup hands it.
package storetest

import (
	"context"
	"testing"
	"time"

	"nod"
)

// Store is everything the suite asks of a store.
type Store interface {
	Apply(ctx context.Context, c *nod.Change) error
	Case(ctx context.Context, task string) (nod.Case, error)
	Tasks(ctx context.Context, states ...nod.TaskState) ([]nod.Task, error)
	TaskOf(ctx context.Context, repo nod.Repo, issue int) (nod.Task, error)
	Blob(ctx context.Context, digest string) ([]byte, error)

	AcceptDelivery(ctx context.Context, d nod.Delivery) (bool, error)
	LeaseDelivery(ctx context.Context, ttl time.Duration) (nod.Delivery, error)
	DeliveriesByState(ctx context.Context) (map[nod.DeliveryState]int64, error)
	Known(ctx context.Context, guids ...string) (map[string]bool, error)
	Mark(ctx context.Context, name string) (string, error)
	SetMark(ctx context.Context, name, mark string) error

	DueEffects(ctx context.Context) ([]nod.Effect, error)
	BeginEffect(ctx context.Context, e *nod.Effect) error

	Decision(ctx context.Context, id string) (nod.Decision, error)
	OpenDecisions(ctx context.Context) ([]nod.Decision, error)
	Closed(ctx context.Context, id string) (d nod.Decision, told func(), err error)
	ExpireDecisions(ctx context.Context) ([]nod.Decision, error)
	RecordAnswer(ctx context.Context, a nod.Answer) (nod.Decision, error)
	See(ctx context.Context, decision, passkey string) error
	Unseen(ctx context.Context) ([]nod.Decision, error)

	Passkeys(ctx context.Context) ([]nod.Passkey, error)
	CreateEnrolment(ctx context.Context, e nod.Enrolment) error
	Enrolment(ctx context.Context, tokenDigest string) (nod.Enrolment, error)
	SaveChallenge(ctx context.Context, c nod.Challenge) error
	Challenge(ctx context.Context, id string) (nod.Challenge, error)
	Enrol(ctx context.Context, challenge string, p nod.Passkey) error
	RevokePasskey(ctx context.Context, id string, by nod.Actor) error
	SignIn(ctx context.Context, challenge string, signCount uint32, backedUp bool, s nod.Session) error
	Session(ctx context.Context, tokenDigest string) (nod.Session, error)
	SignOut(ctx context.Context, tokenDigest string) error

	Events(ctx context.Context, task string, afterSeq int64, limit int) ([]nod.Event, error)
	EventsOfCommit(ctx context.Context, sha string) ([]nod.Event, error)
	Wait(ctx context.Context, stream string, after int64) ([]nod.Event, error)
	Purge(ctx context.Context, task string, by nod.Actor) error
	VerifyChain(ctx context.Context, expectedHead string) (nod.ChainReport, error)
	Close() error
}

// Setup is what the suite wants a store opened with.
type Setup struct {
	Now             func() time.Time
	Secrets         []nod.Secret
	VerifyAssertion func(nod.Decision, nod.Answer, nod.Assertion) error
}

// Open makes an empty store that is closed when t ends.
type Open func(t testing.TB, s Setup) Store

// Run runs the suite.
func Run(t *testing.T, open Open) {
	for _, part := range []struct {
		name string
		run  func(*testing.T, Open)
	}{
		{"Changes", changes}, {"Coupling", coupling}, {"Decisions", decisions}, {"Closings", closings}, {"Answers", answers}, {"Sights", sights}, {"Effects", effects},
		{"Deliveries", deliveries}, {"Events", events}, {"Passkeys", passkeys}, {"Redaction", redaction}, {"Model", model},
	} {
		t.Run(part.name, func(t *testing.T) { part.run(t, open) })
	}
}
