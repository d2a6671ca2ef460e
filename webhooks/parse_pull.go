package webhooks

import (
	"strings"
	"time"

	"github.com/google/go-github/v66/github"

	"nod"
)

// This file reads what happens to a pull request after it was opened.

// headRef is the branch of a pull request, or "" when it is in another repository: a
// fork may name its branch as nod names its own.
func headRef(head *github.PullRequestBranch, repo *github.Repository) string {
	if head.GetRepo().GetID() == 0 || head.GetRepo().GetID() != repo.GetID() {
		return ""
	}
	return head.GetRef()
}

func (p parser) review(e *github.PullRequestReviewEvent) (*nod.Occurrence, error) {
	r := e.GetReview()
	o, err := p.start(nod.ReviewSubmitted, e.GetAction(), e.GetInstallation(), e.GetSender(), r.GetSubmittedAt().Time)
	if err != nil {
		return nil, err
	}
	if o.ReviewID = r.GetID(); o.ReviewID <= 0 {
		return nil, p.bad("no review id", nil)
	}
	o.ReviewState, o.CommentBody, o.HeadSHA = strings.ToLower(r.GetState()), r.GetBody(), r.GetCommitID()
	o.HeadRef = headRef(e.GetPullRequest().GetHead(), e.GetRepo())
	return p.on(o, e.GetRepo(), e.GetPullRequest().GetNumber(), "pull request")
}

func (p parser) reviewComment(e *github.PullRequestReviewCommentEvent) (*nod.Occurrence, error) {
	c := e.GetComment()
	o, err := p.start(nod.ReviewCommentCreated, e.GetAction(), e.GetInstallation(), e.GetSender(), c.GetCreatedAt().Time)
	if err != nil {
		return nil, err
	}
	if o.CommentID, o.ReviewID = c.GetID(), c.GetPullRequestReviewID(); o.CommentID <= 0 || o.ReviewID <= 0 {
		return nil, p.bad("no comment id or no review id", nil)
	}
	o.CommentBody, o.HeadSHA = c.GetBody(), c.GetCommitID()
	o.HeadRef = headRef(e.GetPullRequest().GetHead(), e.GetRepo())
	return p.on(o, e.GetRepo(), e.GetPullRequest().GetNumber(), "pull request")
}

func (p parser) checkSuite(e *github.CheckSuiteEvent) (*nod.Occurrence, error) {
	s := e.GetCheckSuite()
	o, err := p.start(nod.CheckSuiteCompleted, e.GetAction(), e.GetInstallation(), e.GetSender(), s.GetUpdatedAt().Time)
	if err != nil {
		return nil, err
	}
	if o.SuiteID, o.HeadSHA = s.GetID(), s.GetHeadSHA(); o.SuiteID <= 0 || o.HeadSHA == "" {
		return nil, p.bad("no suite id or no commit", nil)
	}
	o.HeadRef, o.Conclusion = s.GetHeadBranch(), s.GetConclusion()
	return p.at(o, e.GetRepo().GetFullName())
}

func (p parser) push(e *github.PushEvent) (*nod.Occurrence, error) {
	branch, ok := strings.CutPrefix(e.GetRef(), "refs/heads/")
	if !ok {
		return nil, nil // a tag
	}
	o, err := p.start(nod.BranchMoved, "", e.GetInstallation(), e.GetSender(), time.Time{})
	if err != nil {
		return nil, err
	}
	o.HeadRef, o.Forced = branch, e.GetForced()
	if !e.GetDeleted() {
		o.HeadSHA = e.GetAfter()
	}
	return p.at(o, e.GetRepo().GetFullName())
}

// at sets the repository of what belongs to no issue.
func (p parser) at(o *nod.Occurrence, full string) (*nod.Occurrence, error) {
	if o.Repo = repoNamed(p.host, full); o.Repo == (nod.Repo{}) {
		return nil, p.bad("no repository", nil)
	}
	return o, nil
}
