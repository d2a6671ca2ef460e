package answer

import (
	"context"

	"nod"
)

// Decisions is what the page shows and records.
type Decisions interface {
	// Decision returns one decision, or NotFound.
	Decision(ctx context.Context, id string) (nod.Decision, error)
	// OpenDecisions returns all that wait, blocking ones first, then oldest first.
	OpenDecisions(ctx context.Context) ([]nod.Decision, error)
	// RecordAnswer records a verified answer in one transaction: the challenge is
	// consumed, the passkey's counter is stored, the decision is compared and
	// swapped, the audit event with the assertion is appended. The same answer
	// again returns the decision as it is; a different one is a Conflict that says
	// who answered and when; a late one expires the decision and is Expired.
	RecordAnswer(ctx context.Context, a nod.Answer) (nod.Decision, error)
	// Case returns a task and what is under way for it, or NotFound.
	Case(ctx context.Context, task string) (nod.Case, error)
	// Blob returns the bytes kept under digest, or NotFound.
	Blob(ctx context.Context, digest string) ([]byte, error)
}

// Acts is where what people want done is recorded.
type Acts interface {
	// RecordAct records a verified act in one transaction, as RecordAnswer does an
	// answer. It is done later, by the conductor.
	RecordAct(ctx context.Context, a nod.Act) (nod.Act, error)
}

// Witness is where is kept what happens on the page besides answers and acts.
type Witness interface {
	// See records, once, that the holder of a passkey opened a decision.
	See(ctx context.Context, decision, passkey string) error
	// RefuseAnswer records an answer that was turned away before RecordAnswer. It
	// came from a session of passkey, which proves nothing.
	RefuseAnswer(ctx context.Context, decision, answer, passkey string, why *nod.Error) error
	// Tappable reports whether a test push was tapped; NotFound when there is none.
	Tappable(ctx context.Context, tokenDigest string) (tapped bool, err error)
	// Tap records that a test push was tapped, or is NotFound.
	Tap(ctx context.Context, tokenDigest string) error
}

// Streams is what the page follows.
type Streams interface {
	// Tasks returns the tasks in any of states; all of them when none is given.
	Tasks(ctx context.Context, states ...nod.TaskState) ([]nod.Task, error)
	// Events returns up to limit events of a task after seq, oldest first.
	Events(ctx context.Context, task string, afterSeq int64, limit int) ([]nod.Event, error)
	// Wait blocks until an event with an id above after is committed in stream
	// (any stream when empty), and returns up to 1,000 of them, oldest first.
	Wait(ctx context.Context, stream string, after int64) ([]nod.Event, error)
}

// Passkeys is where credentials are kept.
type Passkeys interface {
	// Passkeys returns every passkey that is not revoked.
	Passkeys(ctx context.Context) ([]nod.Passkey, error)
	// Enrolment returns an unexpired, unused enrolment, or NotFound.
	Enrolment(ctx context.Context, tokenDigest string) (nod.Enrolment, error)
	// SaveChallenge keeps a challenge until it is consumed or expires.
	SaveChallenge(ctx context.Context, c nod.Challenge) error
	// Challenge returns an unexpired challenge without consuming it, or NotFound.
	Challenge(ctx context.Context, id string) (nod.Challenge, error)
	// Enrol consumes the challenge and its enrolment and stores the passkey, with
	// its audit event, in one transaction.
	Enrol(ctx context.Context, challenge string, p nod.Passkey) error
}

// Sessions is where signed-in browsers are kept.
type Sessions interface {
	// SignIn consumes the challenge, stores the passkey's new counter and opens
	// the session, in one transaction. A counter that went backwards (WebAuthn
	// level 3, section 7.2, step 22) is Forbidden.
	SignIn(ctx context.Context, challenge string, signCount uint32, backedUp bool, s nod.Session) error
	// Session returns a session that is neither over nor idle for too long and whose
	// passkey is not revoked, and stores that it was seen now; NotFound otherwise.
	Session(ctx context.Context, tokenDigest string) (nod.Session, error)
	// Peek is Session, but leaves when it was seen as it is.
	Peek(ctx context.Context, tokenDigest string) (nod.Session, error)
	// Sessions returns every session that Session would, most recently seen first.
	Sessions(ctx context.Context) ([]nod.Session, error)
	// SignOut ends a session. Ending one that is not there is no error.
	SignOut(ctx context.Context, tokenDigest string) error
}
