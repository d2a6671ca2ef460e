package bot

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"nod"
)

// Ledger is the durable state. Apply is atomic; see nod.Change.
type Ledger interface {
	Apply(ctx context.Context, c *nod.Change) error
	// Case returns a task and what is under way for it, or NotFound.
	Case(ctx context.Context, task string) (nod.Case, error)
	// Tasks returns the tasks in any of states; all of them when none is given.
	Tasks(ctx context.Context, states ...nod.TaskState) ([]nod.Task, error)
	// TaskOf returns the newest task of an issue, or NotFound.
	TaskOf(ctx context.Context, repo nod.Repo, issue int) (nod.Task, error)
	// Blob returns the bytes kept under digest, or NotFound.
	Blob(ctx context.Context, digest string) ([]byte, error)
}

// Queues are the tables that work is taken from.
type Queues interface {
	// LeaseDelivery takes the oldest due delivery whose Order is not leased, for
	// ttl, or returns NotFound when there is none.
	LeaseDelivery(ctx context.Context, ttl time.Duration) (nod.Delivery, error)
	// DueEffects returns intended effects whose NotBefore has passed, oldest
	// first, the first of each Repo only.
	DueEffects(ctx context.Context) ([]nod.Effect, error)
	// BeginEffect counts an attempt of an intended effect before it is performed.
	BeginEffect(ctx context.Context, e *nod.Effect) error
	// ExpireDecisions expires every open decision past its deadline, with its
	// audit event, and returns them.
	ExpireDecisions(ctx context.Context) ([]nod.Decision, error)
	// Wait blocks until an event with an id above after is committed in stream
	// (any stream when empty), and returns up to 1,000 of them, oldest first.
	Wait(ctx context.Context, stream string, after int64) ([]nod.Event, error)
}

// Closings are waits for people.
type Closings interface {
	// Closed blocks until a decision is not open any more and returns it, or NotFound.
	// Nobody else is woken by its end before told is called, or only after a while.
	Closed(ctx context.Context, decision string) (d nod.Decision, told func(), err error)
}

// Usage sums what agents have used of their models.
type Usage interface {
	// Spending is what counts towards a run, its task and, since a time, its
	// repository and all of them.
	Spending(ctx context.Context, task nod.Task, run string, since time.Time) (nod.Spending, error)
}

// Acts are what people want done, unasked.
type Acts interface {
	// WantedActs returns what is not done yet, oldest first.
	WantedActs(ctx context.Context) ([]nod.Act, error)
	// FinishAct says how one went.
	FinishAct(ctx context.Context, id string, state nod.ActState, note string) error
}

// Sights tell what people have looked at.
type Sights interface {
	// Unseen returns the open decisions that fewer people have opened than must allow
	// them, oldest first.
	Unseen(ctx context.Context) ([]nod.Decision, error)
}

// GitHub is what the bot reads there. Writes are effects.
type GitHub interface {
	// Standing resolves an actor's tier. It never fails: what cannot be resolved
	// is an outsider, with the reason.
	Standing(ctx context.Context, installation int64, repo nod.Repo, a nod.Actor) nod.Standing
	// Issue reads an issue as it is now.
	Issue(ctx context.Context, installation int64, repo nod.Repo, number int) (nod.Issue, error)
	// Labelled lists the open issues that carry label, their Installation set.
	Labelled(ctx context.Context, repo nod.Repo, label string) ([]nod.Issue, error)
	// DefaultBranch is read each time it decides something.
	DefaultBranch(ctx context.Context, installation int64, repo nod.Repo) (string, error)
	// Delivered reads a published revision back.
	Delivered(ctx context.Context, t nod.Task, r nod.Revision) (nod.Delivered, error)
}

// Feedback is what is said on GitHub about what was published.
type Feedback interface {
	// Review reads a submitted review of pull request number with all its comments,
	// or NotFound.
	Review(ctx context.Context, t nod.Task, number int, id int64) (nod.PullReview, error)
	// FailedChecks reads the checks that are red for a commit, but for nod's own.
	FailedChecks(ctx context.Context, t nod.Task, sha string) ([]nod.FailedCheck, error)
}

// Preflight looks for what would refuse a result, before any work on it starts.
type Preflight interface {
	// Preflight returns one sentence for each thing that would, none when nothing
	// is known to.
	Preflight(ctx context.Context, t nod.Task, sign nod.SignMode) ([]string, error)
}

// Performer performs effects of one kind.
type Performer interface {
	// Perform does it and returns the outcome. An Unavailable or RateLimited
	// error means "later"; any other code is a refusal for good.
	Perform(ctx context.Context, t nod.Task, e nod.Effect) (json.RawMessage, error)
	// Lookup tells whether e, begun before a crash, has happened: its outcome, or
	// nil when it certainly has not. An error with code NeedsHuman means that
	// nobody can tell.
	Lookup(ctx context.Context, t nod.Task, e nod.Effect) (json.RawMessage, error)
}

// Git is the supervisor's own git. It never touches a tree an agent can write.
type Git interface {
	// Seed fetches the repository and clones ref into dir, which must not exist.
	// It returns the commit that was checked out.
	Seed(ctx context.Context, t nod.Task, ref, dir string) (string, error)
	// Import checks a bundle and takes its one ref as the task's head.
	Import(ctx context.Context, t nod.Task, bundle io.Reader) (string, error)
	// Prepare rebases, rewrites and signs. A conflict is an error with code
	// Conflict whose message names the paths; an empty result is NotFound.
	Prepare(ctx context.Context, s nod.PrepareSpec) (nod.Prepared, error)
	// Bundle writes a bundle of tip, a commit or a branch at its newest, without base,
	// for the check inside the environment.
	Bundle(ctx context.Context, t nod.Task, base, tip string, w io.Writer) error
	// Forget removes what was kept for an ended task.
	Forget(ctx context.Context, t nod.Task) error
}

// Texts reads files of a repository.
type Texts interface {
	// Texts returns those of names that are plain files of at most most bytes in a
	// commit of the task's repository.
	Texts(ctx context.Context, t nod.Task, sha string, names []string, most int64) (map[string]string, error)
}

// Environments are hardened places.
type Environments interface {
	// Start provisions what is not there yet and starts it, never over a running one.
	Start(ctx context.Context, s nod.EnvironmentSpec) (nod.Attestation, error)
	Exec(ctx context.Context, id string, c nod.Command) (nod.Process, error)
	Stop(ctx context.Context, id string) error
	Delete(ctx context.Context, id string) error
	// List returns the ids of every environment of this supervisor.
	List(ctx context.Context) ([]string, error)
}

// Agents starts agent sessions by adapter name.
type Agents interface {
	Start(ctx context.Context, name string, ex nod.Executor, s nod.AgentSpec) (nod.AgentSession, error)
}

// Parser turns a delivery into what it means, or nil when nod has nothing to do
// with it.
type Parser func(d nod.Delivery) (*nod.Occurrence, error)
