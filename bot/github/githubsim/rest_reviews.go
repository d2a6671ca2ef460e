package githubsim

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// review is a submitted review of a pull request.
type review struct {
	id       int64
	by       *user
	state    string // APPROVED, CHANGES_REQUESTED, COMMENTED
	body     string
	sha      string
	comments []*lineComment
	at       time.Time
}

type lineComment struct {
	id                 int64
	path, hunk, body   string
	line               int
	created, updatedAt time.Time
}

// LineComment is a comment of a review.
type LineComment struct {
	Path, Hunk, Body string
	Line             int
}

// SubmitReview submits a review: state is APPROVED, CHANGES_REQUESTED or COMMENTED. As
// on GitHub the review and each of its comments are reported by themselves.
func (s *Server) SubmitReview(by, full string, n int, state, body string, comments ...LineComment) (int64, error) {
	var id int64
	err := s.withIssue(by, full, n, func(r *repo, i *issue, u *user) error {
		switch {
		case i.pull == nil:
			return errNotFound
		case !slices.Contains([]string{"APPROVED", "CHANGES_REQUESTED", "COMMENTED"}, state):
			return fmt.Errorf("githubsim: no review is %q", state)
		case u == i.author && state != "COMMENTED":
			return invalid("PullRequestReview", "event", "custom", "Can not approve or request changes on your own pull request")
		}
		v := &review{id: s.id(), by: u, state: state, body: body, sha: i.pull.headSHA, at: s.stamp()}
		for _, c := range comments {
			v.comments = append(v.comments, &lineComment{s.id(), c.Path, c.Hunk, c.Body, c.Line, s.stamp(), s.stamp()})
		}
		i.pull.reviews = append(i.pull.reviews, v)
		i.updated, id = s.stamp(), v.id
		shown := s.reviewJSON(r, i, v)
		shown["state"] = strings.ToLower(state) // webhooks have it so, the API does not
		s.emit(r, u, "pull_request_review", "submitted", obj{"review": shown, "pull_request": s.pullJSON(r, i)})
		for _, c := range v.comments {
			s.emit(r, u, "pull_request_review_comment", "created", obj{"comment": s.lineCommentJSON(r, i, v, c), "pull_request": s.pullJSON(r, i)})
		}
		return nil
	})
	return id, err
}

func (s *Server) reviewJSON(r *repo, i *issue, v *review) obj {
	html := fmt.Sprintf("%s#pullrequestreview-%d", s.issueURL(r, i), v.id)
	return obj{"id": v.id, "node_id": nodeID("PRR", v.id), "user": s.userJSON(v.by), "body": v.body, "state": v.state, "html_url": html,
		"pull_request_url": s.pullURL(r, i), "submitted_at": when(v.at), "commit_id": v.sha, "author_association": association(r, v.by),
		"_links": obj{"html": obj{"href": html}, "pull_request": obj{"href": s.pullURL(r, i)}}}
}

func (s *Server) lineCommentJSON(r *repo, i *issue, v *review, c *lineComment) obj {
	api := fmt.Sprintf("%s/pulls/comments/%d", s.repoURL(r), c.id)
	html := fmt.Sprintf("%s#discussion_r%d", s.issueURL(r, i), c.id)
	return obj{"id": c.id, "node_id": nodeID("PRRC", c.id), "url": api, "html_url": html, "pull_request_url": s.pullURL(r, i),
		"pull_request_review_id": v.id, "diff_hunk": c.hunk, "path": c.path, "position": 1, "original_position": 1, "line": c.line, "side": "RIGHT",
		"commit_id": v.sha, "original_commit_id": v.sha, "user": s.userJSON(v.by), "body": c.body, "created_at": when(c.created),
		"updated_at": when(c.updatedAt), "author_association": association(r, v.by),
		"_links": obj{"self": obj{"href": api}, "html": obj{"href": html}, "pull_request": obj{"href": s.pullURL(r, i)}}}
}

// review finds the review of {id}.
func (c *call) review() (*issue, *review, error) {
	i, err := c.pull()
	if err != nil {
		return nil, nil, err
	}
	at := slices.IndexFunc(i.pull.reviews, func(v *review) bool { return v.id == int64(c.int("id")) })
	if at < 0 {
		return nil, nil, errNotFound
	}
	return i, i.pull.reviews[at], nil
}

func listReviews(c *call) (int, any, error) {
	i, err := c.pull()
	if err != nil {
		return 0, nil, err
	}
	out := []obj{}
	for _, v := range paginate(c, i.pull.reviews) {
		out = append(out, c.reviewJSON(c.repo, i, v))
	}
	return http.StatusOK, out, nil
}

func getReview(c *call) (int, any, error) {
	i, v, err := c.review()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, c.reviewJSON(c.repo, i, v), nil
}

func listReviewComments(c *call) (int, any, error) {
	i, v, err := c.review()
	if err != nil {
		return 0, nil, err
	}
	out := []obj{}
	for _, one := range paginate(c, v.comments) {
		out = append(out, c.lineCommentJSON(c.repo, i, v, one))
	}
	return http.StatusOK, out, nil
}
