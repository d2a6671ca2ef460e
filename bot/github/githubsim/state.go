package githubsim

import (
	"encoding/json"
	"strings"
	"time"
)

// This file is what changes issues. Every function expects s.mu to be held, keeps
// the issue's event list, and emits the webhooks.

// rawJSON is JSON whose shape is not known yet.
type rawJSON []byte

func (r *rawJSON) UnmarshalJSON(b []byte) error { *r = append((*r)[:0], b...); return nil }
func (r rawJSON) into(v any) error              { return json.Unmarshal(r, v) }

func (s *Server) openIssue(r *repo, by *user, title, body string) (*issue, error) {
	if strings.TrimSpace(title) == "" {
		return nil, invalid("Issue", "title", "missing_field", "")
	}
	if err := checkText("Issue", "body", body); err != nil {
		return nil, err
	}
	i := &issue{id: s.id(), number: len(r.issues) + 1, title: title, body: body, author: by, created: s.stamp(), updated: s.stamp()}
	r.issues = append(r.issues, i)
	s.emit(r, by, "issues", "opened", obj{"issue": s.issueJSON(r, i)})
	return i, nil
}

func (s *Server) changeIssue(r *repo, i *issue, by *user, title, body, state *string) error {
	if body != nil {
		if err := checkText("Issue", "body", *body); err != nil {
			return err
		}
	}
	changes := obj{}
	if title != nil && *title != i.title {
		changes["title"] = obj{"from": i.title}
		i.title = *title
	}
	if body != nil && *body != i.body {
		changes["body"] = obj{"from": i.body}
		i.body = *body
	}
	if len(changes) > 0 {
		i.updated = s.stamp()
		s.emitIssue(r, i, by, "edited", obj{"changes": changes})
	}
	if state == nil || *state == stateOf(i) {
		return nil
	}
	return s.setState(r, i, by, *state == "closed")
}

func (s *Server) setState(r *repo, i *issue, by *user, closed bool) error {
	if i.closed == closed {
		return nil
	}
	if i.pull != nil && i.pull.merged {
		return invalid("PullRequest", "state", "invalid", "a merged pull request cannot be reopened")
	}
	i.closed, i.updated = closed, s.stamp()
	kind := "reopened"
	i.closeAt = time.Time{}
	if closed {
		kind, i.closeAt = "closed", s.stamp()
	}
	s.record(i, by, kind, nil)
	s.emitIssue(r, i, by, kind, obj{})
	return nil
}

func (s *Server) record(i *issue, by *user, kind string, l *label) {
	i.events = append(i.events, &event{id: s.id(), kind: kind, by: by, label: l, at: s.stamp()})
}

// emitIssue emits an issues event, or a pull_request one where i is one.
func (s *Server) emitIssue(r *repo, i *issue, by *user, action string, extra obj) {
	if i.pull != nil {
		extra["number"], extra["pull_request"] = i.number, s.pullJSON(r, i)
		s.emit(r, by, "pull_request", action, extra)
		return
	}
	extra["issue"] = s.issueJSON(r, i)
	s.emit(r, by, "issues", action, extra)
}

// setLabel adds a label to an issue and makes it where the repository lacks it.
func (s *Server) setLabel(r *repo, i *issue, by *user, name string) error {
	if i.has(name) >= 0 {
		return nil
	}
	l := r.label(name)
	if l == nil {
		var err error
		if l, err = s.newLabel(r, name); err != nil {
			return err
		}
	}
	i.labels, i.updated = append(i.labels, l), s.stamp()
	s.record(i, by, "labeled", l)
	s.emitIssue(r, i, by, "labeled", obj{"label": s.labelJSON(r, l)})
	return nil
}

func (s *Server) dropLabel(r *repo, i *issue, by *user, name string) bool {
	at := i.has(name)
	if at < 0 {
		return false
	}
	l := i.labels[at]
	i.labels = append(i.labels[:at:at], i.labels[at+1:]...)
	i.updated = s.stamp()
	s.record(i, by, "unlabeled", l)
	s.emitIssue(r, i, by, "unlabeled", obj{"label": s.labelJSON(r, l)})
	return true
}

func (s *Server) addComment(r *repo, i *issue, by *user, body string) (*comment, error) {
	if strings.TrimSpace(body) == "" {
		return nil, invalid("IssueComment", "body", "missing_field", "body can't be blank")
	}
	if err := checkText("IssueComment", "body", body); err != nil {
		return nil, err
	}
	cm := &comment{id: s.id(), body: body, author: by, created: s.stamp(), updated: s.stamp()}
	i.comments, i.updated = append(i.comments, cm), s.stamp()
	s.emit(r, by, "issue_comment", "created", obj{"issue": s.issueJSON(r, i), "comment": s.commentJSON(r, i, cm)})
	return cm, nil
}
