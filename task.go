package nod

import (
	"fmt"
	"strings"
	"time"
)

// Repo names one repository on one GitHub host.
type Repo struct {
	Host  string `json:"host"`
	Owner string `json:"owner"`
	Name  string `json:"name"`
}

// String is owner/name, as people write it.
func (r Repo) String() string { return r.Owner + "/" + r.Name }

// Key identifies the repository across hosts; GitHub compares owner and name
// without case, so Key folds them.
func (r Repo) Key() string {
	return strings.ToLower(r.Host + "/" + r.Owner + "/" + r.Name)
}

// TaskState is where one issue's work stands.
type TaskState string

const (
	TaskQueued           TaskState = "queued"
	TaskRunning          TaskState = "running"
	TaskAwaitingGuidance TaskState = "awaiting_guidance" // a blocking decision is open
	TaskReadyForReview   TaskState = "ready_for_review"  // the pull request was read back
	TaskCompleted        TaskState = "completed"         // GitHub says that it was merged
	TaskFailed           TaskState = "failed"
	TaskCancelled        TaskState = "cancelled"
)

// TaskEvent moves a task.
type TaskEvent string

const (
	TaskStart    TaskEvent = "start"
	TaskAsk      TaskEvent = "ask"      // a blocking decision was opened
	TaskAnswered TaskEvent = "answered" // no blocking decision is open any more
	TaskDeliver  TaskEvent = "deliver"  // branch and pull request were read back
	TaskRework   TaskEvent = "rework"
	TaskMerge    TaskEvent = "merge"
	TaskFail     TaskEvent = "fail"
	TaskCancel   TaskEvent = "cancel"
)

// TaskMachine is every transition of a task.
var TaskMachine = Machine[TaskState, TaskEvent]{
	Noun: "task", Start: TaskQueued,
	Table: map[TaskState]map[TaskEvent]TaskState{
		TaskQueued: {TaskStart: TaskRunning, TaskCancel: TaskCancelled},
		TaskRunning: {TaskAsk: TaskAwaitingGuidance, TaskDeliver: TaskReadyForReview,
			TaskFail: TaskFailed, TaskCancel: TaskCancelled},
		TaskAwaitingGuidance: {TaskAnswered: TaskRunning, TaskFail: TaskFailed, TaskCancel: TaskCancelled},
		TaskReadyForReview:   {TaskRework: TaskRunning, TaskMerge: TaskCompleted, TaskCancel: TaskCancelled},
	},
}

// Task is one issue's work in one repository.
type Task struct {
	ID           string    `json:"id"` // "t" and 16 hex digits
	Version      int64     `json:"version"`
	Repo         Repo      `json:"repo"`
	Installation int64     `json:"installation"` // GitHub App installation id
	Issue        int       `json:"issue"`
	Title        string    `json:"title"` // untrusted
	State        TaskState `json:"state"`
	Agent        string    `json:"agent"` // adapter name: "claude", "scripted"
	RequestedBy  Actor     `json:"requested_by"`
	Untrusted    bool      `json:"untrusted"`        // an outsider's words are in the input; never cleared
	InputDigest  string    `json:"input_digest"`     // SHA-256 of the frozen snapshot blob
	BaseRef      string    `json:"base_ref"`         // branch the pull request goes into
	Branch       string    `json:"branch"`           // head branch, under nod/
	Approved     bool      `json:"approved"`         // may start: by verdict or by an answered untrusted_start
	Briefing     string    `json:"briefing"`         // what the next run is told first: a retry's or a rework's reason
	Rework       string    `json:"rework,omitempty"` // what was asked for that no run has been told of yet; a task in review goes back to work for it
	Reason       string    `json:"reason,omitempty"` // why it failed or was cancelled, or what is odd about its branch now
	CommentID    int64     `json:"comment_id,omitempty"`
	Terms        string    `json:"terms,omitempty"`       // the settings of its repository that it began with, as JSON, which nothing loosens for it; set once
	LabelEvent   int64     `json:"label_event,omitempty"` // GitHub's id of the newest event that set the trigger label by then; set once
	AskedAt      time.Time `json:"asked_at,omitzero"`     // when it was asked for, by GitHub's clock; set once
	CreatedAt    time.Time `json:"created_at"`
	UpdatedAt    time.Time `json:"updated_at"`
}

// Late is how long after it was asked for the task began, 0 where nobody knows.
func (t Task) Late() time.Duration {
	if t.AskedAt.IsZero() || t.CreatedAt.IsZero() {
		return 0
	}
	return max(0, t.CreatedAt.Sub(t.AskedAt))
}

// Short is the id that fits on a phone: the first eight characters.
func (t Task) Short() string { return t.ID[:min(8, len(t.ID))] }

// Where names the issue as people do: owner/name#12.
func (t Task) Where() string { return fmt.Sprintf("%s#%d", t.Repo, t.Issue) }

// On applies event on, or returns a Conflict error and leaves t unchanged.
func (t *Task) On(on TaskEvent) error {
	to, err := TaskMachine.Next(t.State, on)
	if err != nil {
		return err
	}
	t.State = to
	return nil
}

// Done reports whether nothing can happen to t any more.
func (t Task) Done() bool { return TaskMachine.Terminal(t.State) }

// Snapshot is the frozen text that an agent may read of an issue, and its
// authors. It is stored as a blob under its own digest.
type Snapshot struct {
	Repo      Repo      `json:"repo"`
	Issue     int       `json:"issue"`
	Title     string    `json:"title"`
	Body      string    `json:"body"`
	Author    Standing  `json:"author"`
	Labeller  Standing  `json:"labeller"`
	Comments  []Comment `json:"comments,omitempty"`
	UpdatedAt time.Time `json:"updated_at"` // of the issue, by GitHub's clock
	// Changed is set on a snapshot that took the place of another before the start:
	// the lines that went (−) and came (+).
	Changed string `json:"changed,omitempty"`
}

// Comment is one issue comment in a snapshot.
type Comment struct {
	ID        int64     `json:"id"`
	Body      string    `json:"body"`
	Author    Standing  `json:"author"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Issue is an issue as GitHub reports it now.
type Issue struct {
	Repo     Repo      `json:"repo"`
	Number   int       `json:"number"`
	Title    string    `json:"title"` // untrusted
	Body     string    `json:"body"`  // untrusted
	Author   Actor     `json:"author"`
	Open     bool      `json:"open"`
	Pull     bool      `json:"pull"` // it is a pull request
	Labels   []string  `json:"labels"`
	Comments []Comment `json:"comments"`          // Author.Tier is not resolved yet
	Editor   Actor     `json:"editor,omitzero"`   // who last edited the body, when known
	Labeller Actor     `json:"labeller,omitzero"` // who set the trigger label last, when asked for
	// LabelEvent is GitHub's id of the event by which Labeller set it, at LabelledAt;
	// 0 when it could not be found.
	LabelEvent int64     `json:"label_event,omitempty"`
	LabelledAt time.Time `json:"labelled_at,omitzero"`
	UpdatedAt  time.Time `json:"updated_at"`
	URL        string    `json:"url"`
	// Installation is the App's installation that reaches the repository, where a
	// call was made without knowing it.
	Installation int64 `json:"installation,omitempty"`
}
