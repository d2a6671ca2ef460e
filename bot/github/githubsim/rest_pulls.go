package githubsim

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// pull returns the pull request of {number}.
func (c *call) pull() (*issue, error) {
	i, err := c.issue()
	if err != nil || i.pull == nil {
		return nil, errNotFound
	}
	return i, nil
}

func listPulls(c *call) (int, any, error) {
	q := c.r.URL.Query()
	state := q.Get("state")
	if state == "" {
		state = "open"
	}
	out := []obj{}
	for _, i := range inOrder(c, c.repo.issues, func(i *issue) (time.Time, time.Time) { return i.created, i.updated }) {
		if i.pull == nil || state != "all" && state != stateOf(i) {
			continue
		}
		if head := q.Get("head"); strings.Contains(head, ":") && head != c.repo.owner.login+":"+i.pull.head {
			continue
		}
		if base := q.Get("base"); base != "" && base != i.pull.base {
			continue
		}
		out = append(out, c.pullJSON(c.repo, i))
	}
	return http.StatusOK, paginate(c, out), nil
}

func createPull(c *call) (int, any, error) {
	var in struct {
		Title, Body, Head, Base string
		Draft                   bool
	}
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	i, err := c.openPull(c.repo, c.by, in.Title, in.Body, strings.TrimPrefix(in.Head, c.repo.owner.login+":"), in.Base, in.Draft)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusCreated, c.fullPull(i), nil
}

// fullPull has what only the single pull request has.
func (c *call) fullPull(i *issue) obj {
	out := c.pullJSON(c.repo, i).with(0, "additions", "deletions", "changed_files", "review_comments", "commits")
	out["mergeable"], out["mergeable_state"], out["maintainer_can_modify"] = !i.closed, "unknown", false
	if list, err := c.commits(c.repo, i.pull.baseSHA, i.pull.headSHA); err == nil {
		out["commits"] = len(list)
	}
	return out
}

// openPull opens a pull request with the refusals of GitHub. The caller holds s.mu.
func (s *Server) openPull(r *repo, by *user, title, body, head, base string, draft bool) (*issue, error) {
	if strings.TrimSpace(title) == "" {
		return nil, invalid("PullRequest", "title", "missing_field", "")
	}
	if err := checkText("PullRequest", "body", body); err != nil {
		return nil, err
	}
	headSHA, baseSHA := s.head(r, head), s.head(r, base)
	if headSHA == "" {
		return nil, invalid("PullRequest", "head", "invalid", "")
	}
	if baseSHA == "" {
		return nil, invalid("PullRequest", "base", "invalid", "")
	}
	for _, i := range r.issues {
		if p := i.pull; p != nil && !i.closed && p.head == head && p.base == base {
			return nil, invalid("PullRequest", "", "custom", "A pull request already exists for "+r.owner.login+":"+head+".")
		}
	}
	if s.ancestor(r, headSHA, baseSHA) {
		return nil, invalid("PullRequest", "", "custom", "No commits between "+base+" and "+head)
	}
	i := &issue{id: s.id(), number: len(r.issues) + 1, title: title, body: body, author: by, created: s.stamp(), updated: s.stamp(),
		pull: &pull{head: head, base: base, headSHA: headSHA, baseSHA: baseSHA, draft: draft}}
	r.issues = append(r.issues, i)
	if err := s.keepHead(r, i); err != nil {
		return nil, err
	}
	s.emitIssue(r, i, by, "opened", obj{})
	return i, nil
}

func getPull(c *call) (int, any, error) {
	i, err := c.pull()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, c.fullPull(i), nil
}

func editPull(c *call) (int, any, error) {
	i, err := c.pull()
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
	return http.StatusOK, c.fullPull(i), nil
}

func listPullCommits(c *call) (int, any, error) {
	i, err := c.pull()
	if err != nil {
		return 0, nil, err
	}
	list, err := c.commits(c.repo, i.pull.baseSHA, i.pull.headSHA)
	if err != nil {
		return 0, nil, err
	}
	out := []obj{}
	for _, cm := range paginate(c, list) {
		out = append(out, c.commitJSON(c.repo, cm))
	}
	return http.StatusOK, out, nil
}

// ready ends a pull request's life as a draft. The caller holds s.mu.
func (s *Server) ready(r *repo, i *issue, by *user) {
	if i.pull.draft && !i.closed {
		i.pull.draft = false
		s.emitIssue(r, i, by, "ready_for_review", obj{})
	}
}

// merge merges a pull request with a merge commit that GitHub signs. The caller
// holds s.mu.
func (s *Server) merge(r *repo, i *issue, by *user) error {
	p := i.pull
	base := s.head(r, p.base)
	if i.closed || p.draft || base == "" || p.headSHA == "" {
		return &apiError{status: http.StatusMethodNotAllowed, msg: "Pull Request is not mergeable"}
	}
	tree, err := s.git(r.dir, nil, "merge-tree", "--write-tree", "--no-messages", base, p.headSHA)
	if err != nil {
		return &apiError{status: http.StatusMethodNotAllowed, msg: "Pull Request is not mergeable"}
	}
	c := commit{tree: strings.TrimSpace(string(tree)), parents: []string{base, p.headSHA},
		message: "Merge pull request #" + strconv.Itoa(i.number) + " from " + r.owner.login + "/" + p.head + "\n\n" + i.title,
		author:  person{by.login, by.noreply(), s.stamp()}, committer: person{"GitHub", webFlowEmail, s.stamp()}}
	sha, err := s.writeCommit(r, c, &s.webFlow)
	if err != nil {
		return err
	}
	if _, err := s.git(r.dir, nil, "update-ref", "refs/heads/"+p.base, sha, base); err != nil {
		return &apiError{status: http.StatusConflict, msg: "Base branch was modified. Review and try the merge again."}
	}
	return s.observe(r, by)
}
