package nod

import (
	"errors"
	"time"
)

// RevisionState is where a prepared result stands.
type RevisionState string

const (
	RevisionPrepared   RevisionState = "prepared"
	RevisionApproved   RevisionState = "approved" // for exactly this SHA
	RevisionPushed     RevisionState = "pushed"   // the branch was read back at SHA
	RevisionPublished  RevisionState = "published"
	RevisionRefused    RevisionState = "refused"
	RevisionSuperseded RevisionState = "superseded"
)

// RevisionEvent moves a revision.
type RevisionEvent string

const (
	RevisionApprove   RevisionEvent = "approve"
	RevisionPush      RevisionEvent = "push"
	RevisionPublish   RevisionEvent = "publish"
	RevisionRefuse    RevisionEvent = "refuse"
	RevisionLose      RevisionEvent = "lose" // the branch is gone again
	RevisionSupersede RevisionEvent = "supersede"
)

// RevisionMachine is every transition of a revision.
var RevisionMachine = Machine[RevisionState, RevisionEvent]{
	Noun: "revision", Start: RevisionPrepared,
	Table: map[RevisionState]map[RevisionEvent]RevisionState{
		RevisionPrepared: {RevisionApprove: RevisionApproved, RevisionRefuse: RevisionRefused, RevisionSupersede: RevisionSuperseded},
		RevisionApproved: {RevisionPush: RevisionPushed, RevisionRefuse: RevisionRefused, RevisionSupersede: RevisionSuperseded},
		RevisionPushed:   {RevisionPublish: RevisionPublished, RevisionLose: RevisionApproved, RevisionSupersede: RevisionSuperseded},
	},
}

// Revision is a prepared result: what exactly would be, and then was, published.
type Revision struct {
	SHA         string        `json:"sha"` // head commit, 40 hex digits; with Task the identity
	Version     int64         `json:"version"`
	Task        string        `json:"task"`
	Run         string        `json:"run"`
	State       RevisionState `json:"state"`
	BaseRef     string        `json:"base_ref"`
	BaseSHA     string        `json:"base_sha"` // what it was rebased onto
	Branch      string        `json:"branch"`
	Tree        string        `json:"tree"`
	Commits     []Commit      `json:"commits"`
	Files       []FileChange  `json:"files"`
	DiffDigest  string        `json:"diff_digest"` // blob with the unified diff
	Check       CheckReceipt  `json:"check"`
	PullRequest PullRequest   `json:"pull_request,omitzero"`
	CreatedAt   time.Time     `json:"created_at"`
	UpdatedAt   time.Time     `json:"updated_at"`
}

// Published is the head commit as GitHub holds it: SHA itself, unless GitHub signed
// the commits anew.
func (r Revision) Published() string {
	if n := len(r.Commits); n > 0 {
		return r.Commits[n-1].OnGitHub()
	}
	return r.SHA
}

// Publish takes down which commit GitHub holds for each prepared one.
func (r *Revision) Publish(published map[string]string) {
	commits := append([]Commit(nil), r.Commits...)
	for i := range commits {
		commits[i].Published = published[commits[i].SHA]
	}
	r.Commits = commits
}

// On applies event on, or returns a Conflict error and leaves r unchanged.
func (r *Revision) On(on RevisionEvent) error {
	to, err := RevisionMachine.Next(r.State, on)
	if err != nil {
		return err
	}
	r.State = to
	return nil
}

// Commit is one prepared commit.
type Commit struct {
	SHA      string   `json:"sha"`
	Tree     string   `json:"tree"`
	Parents  []string `json:"parents"`
	Subject  string   `json:"subject"` // untrusted
	Message  string   `json:"message"` // untrusted, whole
	Verified bool     `json:"verified"`

	// Published is the commit that GitHub made of this one, with the same tree,
	// message and, made likewise, parents. Empty: it is there as SHA, or not at all.
	Published string `json:"published,omitempty"`
}

// OnGitHub is the commit's id there once it is published.
func (c Commit) OnGitHub() string {
	if c.Published != "" {
		return c.Published
	}
	return c.SHA
}

// CommitChange is a prepared commit with what it changes against its one parent.
type CommitChange struct {
	Commit  Commit
	Changes []TreeChange
}

// TreeChange is one path that a commit changes.
type TreeChange struct {
	Path string // untrusted, any bytes but NUL
	Mode string // as git writes it, six digits; "" where the path is gone
	Blob string // object id; "" where the path is gone
	Size int64  // bytes
}

// FileChange is one path that differs between base and head.
type FileChange struct {
	Path    string `json:"path"` // untrusted, any bytes but NUL
	Status  string `json:"status"`
	OldMode string `json:"old_mode"`
	NewMode string `json:"new_mode"`
	Added   int    `json:"added"`   // lines; -1 for a binary file
	Deleted int    `json:"deleted"` // lines; -1 for a binary file
}

// CheckReceipt is what the repository's own check said about one SHA.
type CheckReceipt struct {
	SHA      string        `json:"sha"`
	Command  []string      `json:"command,omitempty"` // empty: no check ran
	Source   string        `json:"source,omitempty"`  // where the command comes from
	ExitCode int           `json:"exit_code"`
	Duration time.Duration `json:"duration_ns"`
	Tail     string        `json:"tail,omitempty"` // last 64 KiB of its output, untrusted
}

// Passed reports whether a check ran for sha and exited 0.
func (c CheckReceipt) Passed(sha string) bool {
	return len(c.Command) > 0 && c.SHA == sha && c.ExitCode == 0
}

// PullRequest is a pull request as GitHub reports it.
type PullRequest struct {
	Number  int    `json:"number"`
	URL     string `json:"url"`
	HeadRef string `json:"head_ref"`
	HeadSHA string `json:"head_sha"`
	BaseRef string `json:"base_ref"`
	State   string `json:"state"` // "open" or "closed"
	Merged  bool   `json:"merged"`
	Draft   bool   `json:"draft"`
}

// PrepareSpec says how an imported head becomes a Revision.
type PrepareSpec struct {
	Task     Task
	Head     string   // imported commit
	BaseRef  string   // branch to rebase onto, at its newest
	Trailers []string // added to the last commit's message, "Key: value"
}

// ErrMessages is in the error of preparing a series whose commit messages alone are in
// the way: whoever made the commits can write them anew.
var ErrMessages = errors.New("commit messages")

// Prepared is a Revision before anyone was asked about it.
type Prepared struct {
	Revision Revision // SHA, bases, tree, commits and files are set
	Diff     []byte   // unified, base to head
}

// Delivered is what GitHub says of a published revision, read back.
type Delivered struct {
	BranchSHA   string      `json:"branch_sha"` // "" when there is no such branch
	PullRequest PullRequest `json:"pull_request"`
	BaseSHA     string      `json:"base_sha,omitempty"` // of the target branch; read where there is no pull request
	// Commits are the pull request's, or the revision's own where there is none, Verified
	// as GitHub says.
	Commits []Commit `json:"commits"`
}
