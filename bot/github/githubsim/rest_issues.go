package githubsim

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxText is how many characters a comment or a body may have, as on GitHub.
const MaxText = 65536

func checkText(resource, field, text string) error {
	if utf8.RuneCountInString(text) > MaxText {
		return invalid(resource, field, "custom", fmt.Sprintf("%s is too long (maximum is %d characters)", field, MaxText))
	}
	return nil
}

func listIssues(c *call) (int, any, error) {
	q := c.r.URL.Query()
	state := q.Get("state")
	if state == "" {
		state = "open"
	}
	var found []*issue
	for _, i := range inOrder(c, c.repo.issues, func(i *issue) (time.Time, time.Time) { return i.created, i.updated }) {
		if state != "all" && state != stateOf(i) || c.before(i.updated) {
			continue
		}
		fits := true
		for _, l := range strings.Split(q.Get("labels"), ",") {
			fits = fits && (l == "" || i.has(l) >= 0)
		}
		if fits {
			found = append(found, i)
		}
	}
	out := []obj{}
	for _, i := range paginate(c, found) {
		out = append(out, c.issueJSON(c.repo, i))
	}
	return http.StatusOK, out, nil
}

func createIssue(c *call) (int, any, error) {
	var in struct {
		Title, Body string
		Labels      []string
	}
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	i, err := c.openIssue(c.repo, c.by, in.Title, in.Body)
	if err != nil {
		return 0, nil, err
	}
	for _, l := range in.Labels {
		if err := c.setLabel(c.repo, i, c.by, l); err != nil {
			return 0, nil, err
		}
	}
	return http.StatusCreated, c.issueJSON(c.repo, i), nil
}

func getIssue(c *call) (int, any, error) {
	i, err := c.issue()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, c.issueJSON(c.repo, i), nil
}

func editIssue(c *call) (int, any, error) {
	i, err := c.issue()
	if err != nil {
		return 0, nil, err
	}
	var in struct{ Title, Body, State *string }
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if err := c.changeIssue(c.repo, i, c.by, in.Title, in.Body, in.State); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, c.issueJSON(c.repo, i), nil
}

func listEvents(c *call) (int, any, error) {
	i, err := c.issue()
	if err != nil {
		return 0, nil, err
	}
	out := []obj{}
	for _, e := range paginate(c, i.events) {
		out = append(out, c.eventJSON(c.repo, e))
	}
	return http.StatusOK, out, nil
}

// listRepoEvents lists what happened to all issues and pull requests, newest first,
// each with its issue.
func listRepoEvents(c *call) (int, any, error) {
	type happened struct {
		*event
		on *issue
	}
	var all []happened
	for _, i := range c.repo.issues {
		for _, e := range i.events {
			all = append(all, happened{e, i})
		}
	}
	slices.SortFunc(all, func(a, b happened) int { return cmp.Compare(b.id, a.id) })
	out := []obj{}
	for _, e := range paginate(c, all) {
		one := c.eventJSON(c.repo, e.event)
		one["issue"] = c.issueJSON(c.repo, e.on)
		out = append(out, one)
	}
	return http.StatusOK, out, nil
}

// inOrder returns items as sort, direction and their defaults say: by creation,
// newest first. Items come oldest first.
func inOrder[T any](c *call, items []T, times func(T) (created, updated time.Time)) []T {
	q := c.r.URL.Query()
	sorted := slices.Clone(items)
	slices.SortStableFunc(sorted, func(a, b T) int {
		created, updated := times(a)
		otherCreated, otherUpdated := times(b)
		if q.Get("sort") == "updated" {
			return updated.Compare(otherUpdated)
		}
		return created.Compare(otherCreated)
	})
	if q.Get("direction") != "asc" {
		slices.Reverse(sorted)
	}
	return sorted
}

// before reports whether at lies before the time that since asks for.
func (c *call) before(at time.Time) bool {
	return c.r.URL.Query().Get("since") > at.UTC().Format("2006-01-02T15:04:05Z")
}

// listRepoComments lists the comments of all issues and pull requests.
func listRepoComments(c *call) (int, any, error) {
	type said struct {
		*comment
		on *issue
	}
	var all []said
	for _, i := range c.repo.issues {
		for _, cm := range i.comments {
			if !c.before(cm.updated) {
				all = append(all, said{cm, i})
			}
		}
	}
	slices.SortFunc(all, func(a, b said) int { return cmp.Compare(a.id, b.id) })
	if c.r.URL.Query().Get("sort") == "" { // GitHub then lists them by ascending id
		c.r.URL.RawQuery += "&direction=asc"
	}
	out := []obj{}
	for _, cm := range paginate(c, inOrder(c, all, func(s said) (time.Time, time.Time) { return s.created, s.updated })) {
		out = append(out, c.commentJSON(c.repo, cm.on, cm.comment))
	}
	return http.StatusOK, out, nil
}

func listIssueLabels(c *call) (int, any, error) {
	i, err := c.issue()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, c.labelsJSON(c.repo, paginate(c, i.labels)), nil
}

func addLabels(c *call) (int, any, error) {
	i, err := c.issue()
	if err != nil {
		return 0, nil, err
	}
	var names []string
	var in struct{ Labels []string }
	if c.r.ContentLength != 0 {
		// GitHub takes a bare array and an object alike.
		var raw rawJSON
		if err := c.decode(&raw); err != nil {
			return 0, nil, err
		}
		if raw.into(&names) != nil && raw.into(&in) != nil {
			return 0, nil, &apiError{status: http.StatusUnprocessableEntity, msg: "Invalid request."}
		}
	}
	for _, name := range append(names, in.Labels...) {
		if err := c.setLabel(c.repo, i, c.by, name); err != nil {
			return 0, nil, err
		}
	}
	return http.StatusOK, c.labelsJSON(c.repo, i.labels), nil
}

func removeLabel(c *call) (int, any, error) {
	i, err := c.issue()
	if err != nil {
		return 0, nil, err
	}
	if !c.dropLabel(c.repo, i, c.by, c.r.PathValue("name")) {
		return 0, nil, &apiError{status: http.StatusNotFound, msg: "Label does not exist"}
	}
	return http.StatusOK, c.labelsJSON(c.repo, i.labels), nil
}

func listComments(c *call) (int, any, error) {
	i, err := c.issue()
	if err != nil {
		return 0, nil, err
	}
	out := []obj{}
	for _, cm := range paginate(c, i.comments) {
		out = append(out, c.commentJSON(c.repo, i, cm))
	}
	return http.StatusOK, out, nil
}

func createComment(c *call) (int, any, error) {
	i, err := c.issue()
	if err != nil {
		return 0, nil, err
	}
	if i.locked {
		return 0, nil, &apiError{status: http.StatusForbidden, msg: "Unable to create comment because issue is locked."}
	}
	var in struct{ Body string }
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	cm, err := c.addComment(c.repo, i, c.by, in.Body)
	if err != nil {
		return 0, nil, err
	}
	cm.viaApp = c.by == c.app.user
	return http.StatusCreated, c.commentJSON(c.repo, i, cm), nil
}

// comment finds the comment of {id} anywhere in the repository.
func (c *call) comment() (*issue, *comment, error) {
	for _, i := range c.repo.issues {
		for _, cm := range i.comments {
			if cm.id == int64(c.int("id")) {
				return i, cm, nil
			}
		}
	}
	return nil, nil, errNotFound
}

func getComment(c *call) (int, any, error) {
	i, cm, err := c.comment()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, c.commentJSON(c.repo, i, cm), nil
}

func editComment(c *call) (int, any, error) {
	i, cm, err := c.comment()
	if err != nil {
		return 0, nil, err
	}
	var in struct{ Body string }
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if err := checkText("IssueComment", "body", in.Body); err != nil {
		return 0, nil, err
	}
	cm.body, cm.updated = in.Body, c.stamp()
	c.emit(c.repo, c.by, "issue_comment", "edited", obj{"issue": c.issueJSON(c.repo, i), "comment": c.commentJSON(c.repo, i, cm)})
	return http.StatusOK, c.commentJSON(c.repo, i, cm), nil
}

func deleteComment(c *call) (int, any, error) {
	i, cm, err := c.comment()
	if err != nil {
		return 0, nil, err
	}
	i.comments = slices.DeleteFunc(i.comments, func(x *comment) bool { return x == cm })
	c.emit(c.repo, c.by, "issue_comment", "deleted", obj{"issue": c.issueJSON(c.repo, i), "comment": c.commentJSON(c.repo, i, cm)})
	return http.StatusNoContent, nil, nil
}
