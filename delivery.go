package nod

import "time"

// DeliveryState is where one webhook delivery stands.
type DeliveryState string

const (
	DeliveryPending DeliveryState = "pending"
	DeliveryLeased  DeliveryState = "leased"  // a worker has it until LeaseUntil
	DeliveryDone    DeliveryState = "done"    // became what it had to become
	DeliveryIgnored DeliveryState = "ignored" // nothing for nod to do
	DeliveryDead    DeliveryState = "dead"    // gave up; Note says why
)

// DeliveryEvent moves a delivery.
type DeliveryEvent string

const (
	DeliveryLease  DeliveryEvent = "lease"
	DeliveryReturn DeliveryEvent = "return" // the lease ran out, or the attempt failed
	DeliveryFinish DeliveryEvent = "finish"
	DeliveryIgnore DeliveryEvent = "ignore"
	DeliveryBury   DeliveryEvent = "bury"
)

// DeliveryMachine is every transition of a delivery.
var DeliveryMachine = Machine[DeliveryState, DeliveryEvent]{
	Noun: "delivery", Start: DeliveryPending,
	Table: map[DeliveryState]map[DeliveryEvent]DeliveryState{
		DeliveryPending: {DeliveryLease: DeliveryLeased},
		DeliveryLeased: {DeliveryReturn: DeliveryPending, DeliveryFinish: DeliveryDone,
			DeliveryIgnore: DeliveryIgnored, DeliveryBury: DeliveryDead},
	},
}

// Delivery is one webhook delivery as received, durable before it is answered.
type Delivery struct {
	ID          int64         `json:"id"`   // order of arrival
	GUID        string        `json:"guid"` // X-GitHub-Delivery
	SemanticKey string        `json:"semantic_key"`
	Event       string        `json:"event"`  // X-GitHub-Event
	Action      string        `json:"action"` // of the payload
	Order       string        `json:"order"`  // deliveries with equal Order are handled in sequence: repo#issue
	Payload     []byte        `json:"-"`
	ReceivedAt  time.Time     `json:"received_at"`
	State       DeliveryState `json:"state"`
	Attempt     int           `json:"attempt"`
	LeaseUntil  time.Time     `json:"lease_until,omitzero"`
	NotBefore   time.Time     `json:"not_before,omitzero"` // earliest time of the next attempt
	Note        string        `json:"note,omitempty"`
}

// On applies event on, or returns a Conflict error and leaves d unchanged.
func (d *Delivery) On(on DeliveryEvent) error {
	to, err := DeliveryMachine.Next(d.State, on)
	if err != nil {
		return err
	}
	d.State = to
	return nil
}

// Happening is one thing that happened in a repository, read from GitHub's API and put
// into the words of the webhook that tells of it.
type Happening struct {
	Key     string    // its own, and the same whenever it is read
	Event   string    // as X-GitHub-Event has it
	At      time.Time // by GitHub's clock
	Payload []byte
}

// Occurrence is what a delivery means to nod, with the wire format left behind.
type Occurrence struct {
	Kind         OccurrenceKind `json:"kind"`
	Repo         Repo           `json:"repo"`
	Installation int64          `json:"installation"`
	Issue        int            `json:"issue,omitempty"` // also the number of a pull request
	Sender       Actor          `json:"sender"`
	Label        string         `json:"label,omitempty"`
	CommentID    int64          `json:"comment_id,omitempty"`
	CommentBody  string         `json:"comment_body,omitempty"` // untrusted
	Merged       bool           `json:"merged,omitempty"`
	HeadRef      string         `json:"head_ref,omitempty"`
	HeadSHA      string         `json:"head_sha,omitempty"`
	ReviewID     int64          `json:"review_id,omitempty"`    // of both kinds of review events
	ReviewState  string         `json:"review_state,omitempty"` // ReviewSubmitted: approved, changes_requested or commented
	SuiteID      int64          `json:"suite_id,omitempty"`     // CheckSuiteCompleted
	Conclusion   string         `json:"conclusion,omitempty"`   // CheckSuiteCompleted, in GitHub's words
	Forced       bool           `json:"forced,omitempty"`       // BranchMoved: commits went away
	Repos        []Repo         `json:"repos,omitempty"`        // installation kinds: added
	Removed      []Repo         `json:"removed,omitempty"`      // installation kinds: taken away
	At           time.Time      `json:"at"`                     // by GitHub's clock
}

// OccurrenceKind names the kinds nod acts on.
type OccurrenceKind string

const (
	IssueLabeled      OccurrenceKind = "issues.labeled"
	IssueUnlabeled    OccurrenceKind = "issues.unlabeled"
	IssueClosed       OccurrenceKind = "issues.closed"
	CommentCreated    OccurrenceKind = "issue_comment.created"
	PullRequestClosed OccurrenceKind = "pull_request.closed"
	// A review is submitted with any number of comments, each of which is reported by
	// itself as well. All of these are one thing that happened: their ReviewID is the same.
	ReviewSubmitted      OccurrenceKind = "pull_request_review.submitted"
	ReviewCommentCreated OccurrenceKind = "pull_request_review_comment.created"
	CheckSuiteCompleted  OccurrenceKind = "check_suite.completed"
	BranchMoved          OccurrenceKind = "push" // a branch was pushed to, or deleted: then HeadSHA is empty
	InstallationChanged  OccurrenceKind = "installation"
)
