package webhooks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	"nod"
)

// row is what a delivery's row and its log line need to know. Everything but guid
// and event is empty when the payload does not say it in the form expected; what
// the payload means is for Parser to judge.
type row struct {
	guid, event, action string
	repo                nod.Repo
	number              int    // of the issue or pull request
	at                  string // when it last changed, as GitHub writes it
	label               string
	comment             int64
	installation        int64
	sender              account
	app                 int64 // the App that wrote the comment, opened the issue or ran the checks that this event is about
	review, suite       int64
}

type account struct {
	ID   int64  `json:"id"`
	Type string `json:"type"`
}

// read reads a payload, which must be a JSON object.
func read(host, guid, event string, payload []byte) (row, error) {
	r := row{guid: guid, event: event}
	var top struct {
		Action       json.RawMessage `json:"action"`
		Issue        json.RawMessage `json:"issue"`
		PullRequest  json.RawMessage `json:"pull_request"`
		Repository   json.RawMessage `json:"repository"`
		Label        json.RawMessage `json:"label"`
		Comment      json.RawMessage `json:"comment"`
		Installation json.RawMessage `json:"installation"`
		Sender       json.RawMessage `json:"sender"`
		Review       json.RawMessage `json:"review"`
		CheckSuite   json.RawMessage `json:"check_suite"`
	}
	if !bytes.HasPrefix(bytes.TrimLeft(payload, " \t\r\n"), []byte("{")) {
		return r, nod.E(nod.Invalid, "the body is not a JSON object", nil)
	}
	if err := json.Unmarshal(payload, &top); err != nil {
		return r, nod.E(nod.Invalid, "the body is not a JSON object", err)
	}
	type thing struct {
		ID        int64           `json:"id"`
		Number    int             `json:"number"`
		UpdatedAt json.RawMessage `json:"updated_at"`
		ClosedAt  json.RawMessage `json:"closed_at"`
		Name      string          `json:"name"`
		App       account         `json:"performed_via_github_app"`
	}
	issue, pull, comment := loosely[thing](top.Issue), loosely[thing](top.PullRequest), loosely[thing](top.Comment)
	repo := loosely[struct {
		FullName string `json:"full_name"`
	}](top.Repository)

	r.action = loosely[string](top.Action)
	r.repo = repoNamed(host, repo.FullName)
	r.label = loosely[thing](top.Label).Name
	r.installation = loosely[thing](top.Installation).ID
	r.sender = loosely[account](top.Sender)
	r.number, r.at = issue.Number, loosely[string](issue.UpdatedAt)
	if pull.Number != 0 {
		r.number, r.at = pull.Number, loosely[string](pull.UpdatedAt)
	}
	if closed := cmp.Or(loosely[string](pull.ClosedAt), loosely[string](issue.ClosedAt)); r.action == "closed" && closed != "" {
		r.at = closed // the same whoever tells of it, unlike the last change
	}
	switch event + "." + r.action {
	case string(nod.ReviewSubmitted):
		r.review = loosely[thing](top.Review).ID
	case string(nod.ReviewCommentCreated):
		r.review = loosely[struct {
			ID int64 `json:"pull_request_review_id"`
		}](top.Comment).ID
	case string(nod.CheckSuiteCompleted):
		suite := loosely[struct {
			thing
			App account `json:"app"`
		}](top.CheckSuite)
		r.suite, r.app, r.at = suite.ID, suite.App.ID, loosely[string](suite.UpdatedAt)
	case "issue_comment.created":
		r.comment, r.app = comment.ID, comment.App.ID
	case "issues.opened":
		r.app = issue.App.ID
	}
	return r, nil
}

// loosely reads raw as a T, or returns a zero T when it is something else.
func loosely[T any](raw json.RawMessage) T {
	var v, none T
	if json.Unmarshal(raw, &v) != nil {
		return none
	}
	return v
}

// repoNamed reads owner/name; the result is zero when full is anything else.
func repoNamed(host, full string) nod.Repo {
	owner, name, ok := strings.Cut(full, "/")
	if !ok || owner == "" || name == "" || strings.Contains(name, "/") {
		return nod.Repo{}
	}
	return nod.Repo{Host: host, Owner: owner, Name: name}
}

// causedBy reports whether nod itself caused the event. What counts is ids: the
// sender is the App's own bot user, or a bot whose comment or issue GitHub
// attributes to the App. Names and suffixes count for nothing.
//
// Checks of others on nod's own push are sent as by nod: there the App that ran them
// counts.
func (r row) causedBy(app, botUser int64) bool {
	if r.event == "check_suite" {
		return r.app == app
	}
	if botUser != 0 && r.sender.ID == botUser {
		return true
	}
	return r.sender.Type == "Bot" && r.app == app
}

// semanticKey is equal for one event that two hooks reported under two GUIDs. A
// delivery without an installation was not sent by the App's hook and is of no use
// (see Parser), so it must not stand in the way of the one that was.
func (r row) semanticKey() string {
	own := "guid/" + r.guid
	if r.suite != 0 && r.installation != 0 && r.repo != (nod.Repo{}) && r.at != "" {
		return fmt.Sprintf("%s/suite/%d/%s", r.repo.Key(), r.suite, r.at)
	}
	if r.installation == 0 || r.repo == (nod.Repo{}) || r.number == 0 {
		return own
	}
	where := r.thread()
	switch kind := nod.OccurrenceKind(r.event + "." + r.action); {
	case kind == nod.CommentCreated && r.comment != 0:
		return fmt.Sprintf("%s/comment/%d", where, r.comment)
	case r.review != 0: // its comments are reported one by one as well
		return fmt.Sprintf("%s/review/%d", where, r.review)
	case (kind == nod.IssueLabeled || kind == nod.IssueUnlabeled) && r.label != "" && r.at != "":
		return fmt.Sprintf("%s/%s/%s/%s", where, r.action, strings.ToLower(r.label), r.at)
	case (kind == nod.IssueClosed || kind == nod.PullRequestClosed) && r.at != "":
		return fmt.Sprintf("%s/%s/%s", where, r.action, r.at)
	}
	return own
}

// order is equal for deliveries that are handled one after the other.
func (r row) order() string {
	switch {
	case r.repo != (nod.Repo{}) && r.number != 0:
		return r.thread()
	case r.repo != (nod.Repo{}):
		return r.repo.Key()
	case r.installation != 0:
		return fmt.Sprintf("installation/%d", r.installation)
	}
	return "guid/" + r.guid
}

// thread names the issue or pull request, which share their numbers.
func (r row) thread() string { return fmt.Sprintf("%s#%d", r.repo.Key(), r.number) }

// attrs are the fields of the log line.
func (r row) attrs() []slog.Attr {
	attrs := []slog.Attr{slog.String("delivery", r.guid), slog.String("event", r.event)}
	if r.action != "" {
		attrs = append(attrs, slog.String("action", r.action))
	}
	if r.repo != (nod.Repo{}) {
		attrs = append(attrs, slog.String("repo", r.repo.String()))
	}
	if r.number != 0 {
		attrs = append(attrs, slog.Int("issue", r.number))
	}
	return attrs
}
