package githubsim

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
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
	for _, i := range slices.Backward(c.repo.issues) {
		if state != "all" && state != stateOf(i) || q.Get("since") > i.updated.Format("2006-01-02T15:04:05Z") {
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
