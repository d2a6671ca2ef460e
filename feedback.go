package nod

import "time"

// PullReview is a submitted review of a pull request with its comments.
type PullReview struct {
	ID       int64         `json:"id"`
	Author   Actor         `json:"author"`
	State    string        `json:"state"` // approved, changes_requested, commented or dismissed
	Body     string        `json:"body"`  // untrusted
	SHA      string        `json:"sha"`   // the commit it is about
	Comments []LineComment `json:"comments,omitempty"`
	At       time.Time     `json:"at"`
}

// LineComment is a comment of a review on lines of a file.
type LineComment struct {
	ID   int64  `json:"id"`
	Path string `json:"path"` // untrusted
	Line int    `json:"line"` // 0 when the lines are gone
	Hunk string `json:"hunk"` // the lines of the diff around it, untrusted
	Body string `json:"body"` // untrusted
}

// FailedCheck is a check that came out red for a commit.
type FailedCheck struct {
	Name       string `json:"name"` // untrusted
	Conclusion string `json:"conclusion"`
	Summary    string `json:"summary"` // what it says itself, untrusted
	Log        string `json:"log"`     // the end of its log, at most LogTail bytes, untrusted; empty where it has none that nod may read
}

// LogTail is how much of a check's log is read, in bytes from its end.
const LogTail = 8 << 10
