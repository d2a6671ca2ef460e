package githubsim

import (
	"fmt"
	"slices"
	"time"
)

// CreateIssue opens an issue and returns its number.
func (s *Server) CreateIssue(by, full, title, body string) (int, error) {
	n := 0
	err := s.withRepo(by, full, func(r *repo, u *user) error {
		i, err := s.openIssue(r, u, title, body)
		if err == nil {
			n = i.number
		}
		return err
	})
	return n, err
}

// EditIssue changes an issue's title and body.
func (s *Server) EditIssue(by, full string, n int, title, body string) error {
	return s.withIssue(by, full, n, func(r *repo, i *issue, u *user) error {
		return s.changeIssue(r, i, u, &title, &body, nil)
	})
}

// Label sets a label, made where the repository lacks it.
func (s *Server) Label(by, full string, n int, name string) error {
	return s.withIssue(by, full, n, func(r *repo, i *issue, u *user) error { return s.setLabel(r, i, u, name) })
}

// Unlabel removes a label; one that is not set is fine.
func (s *Server) Unlabel(by, full string, n int, name string) error {
	return s.withIssue(by, full, n, func(r *repo, i *issue, u *user) error { s.dropLabel(r, i, u, name); return nil })
}

// Comment writes a comment and returns its id.
func (s *Server) Comment(by, full string, n int, body string) (int64, error) {
	var id int64
	err := s.withIssue(by, full, n, func(r *repo, i *issue, u *user) error {
		cm, err := s.addComment(r, i, u, body)
		if err == nil {
			id = cm.id
		}
		return err
	})
	return id, err
}

// DeleteComment removes a comment of an issue.
func (s *Server) DeleteComment(by, full string, n int, id int64) error {
	return s.withIssue(by, full, n, func(r *repo, i *issue, u *user) error {
		at := slices.IndexFunc(i.comments, func(c *comment) bool { return c.id == id })
		if at < 0 {
			return fmt.Errorf("githubsim: no comment %d", id)
		}
		cm := i.comments[at]
		i.comments = slices.Delete(i.comments, at, at+1)
		s.emit(r, u, "issue_comment", "deleted", obj{"issue": s.issueJSON(r, i), "comment": s.commentJSON(r, i, cm)})
		return nil
	})
}

// Lock lets nobody comment any more, the App included.
func (s *Server) Lock(by, full string, n int) error {
	return s.withIssue(by, full, n, func(r *repo, i *issue, u *user) error {
		i.locked = true
		s.emit(r, u, "issues", "locked", obj{"issue": s.issueJSON(r, i)})
		return nil
	})
}

// CloseIssue closes an issue.
func (s *Server) CloseIssue(by, full string, n int) error { return s.setOpen(by, full, n, false) }

// ReopenIssue opens a closed issue again.
func (s *Server) ReopenIssue(by, full string, n int) error { return s.setOpen(by, full, n, true) }

// ClosePull closes a pull request without merging it.
func (s *Server) ClosePull(by, full string, n int) error { return s.setOpen(by, full, n, false) }

func (s *Server) setOpen(by, full string, n int, open bool) error {
	return s.withIssue(by, full, n, func(r *repo, i *issue, u *user) error { return s.setState(r, i, u, !open) })
}

// MergePull merges a pull request with a merge commit; a draft is made ready first,
// as a person would.
func (s *Server) MergePull(by, full string, n int) error {
	return s.withIssue(by, full, n, func(r *repo, i *issue, u *user) error {
		if i.pull == nil {
			return errNotFound
		}
		s.ready(r, i, u)
		return s.merge(r, i, u)
	})
}

// DeleteBranch removes a branch, as the button under a merged pull request does.
func (s *Server) DeleteBranch(by, full, branch string) error {
	return s.withRepo(by, full, func(r *repo, u *user) error { return s.moveRef(r, u, "refs/heads/"+branch, "", false) })
}

// ForcePush moves a branch to any commit, as a person with git would.
func (s *Server) ForcePush(by, full, branch, sha string) error {
	return s.withRepo(by, full, func(r *repo, u *user) error { return s.moveRef(r, u, "refs/heads/"+branch, sha, true) })
}

// Head returns the commit a branch points at, or "" when there is none.
func (s *Server) Head(full, branch string) (string, error) {
	sha := ""
	err := s.withRepo("", full, func(r *repo, _ *user) error { sha = s.head(r, branch); return nil })
	return sha, err
}

// Verification returns the verdict on a commit's signature, in GitHub's words.
func (s *Server) Verification(full, sha string) (verified bool, reason string, err error) {
	err = s.withRepo("", full, func(r *repo, _ *user) error {
		c, err := s.commit(r, sha)
		if err != nil {
			return err
		}
		v := s.verify(c)
		verified, reason = v.ok, v.reason
		return nil
	})
	return verified, reason, err
}

// IssueView is an issue or a pull request as it is now.
type IssueView struct {
	Number      int
	Title, Body string
	Author      string
	Open        bool
	Labels      []string
	Comments    []CommentView
	Pull        *PullView // nil for an issue
}

// CommentView is one comment.
type CommentView struct {
	ID      int64
	Author  string
	Body    string
	Updated time.Time
	// Reactions are "login content", oldest first.
	Reactions []string
}

// PullView is what a pull request has beyond an issue.
type PullView struct {
	Head, Base, HeadSHA string
	Draft, Merged       bool
}

// View returns an issue or a pull request as it is now.
func (s *Server) View(full string, n int) (IssueView, error) {
	var v IssueView
	err := s.withIssue("", full, n, func(_ *repo, i *issue, _ *user) error { v = view(i); return nil })
	return v, err
}

// Pulls returns every pull request of a repository, oldest first.
func (s *Server) Pulls(full string) ([]IssueView, error) {
	var out []IssueView
	err := s.withRepo("", full, func(r *repo, _ *user) error {
		for _, i := range r.issues {
			if i.pull != nil {
				out = append(out, view(i))
			}
		}
		return nil
	})
	return out, err
}

func view(i *issue) IssueView {
	v := IssueView{Number: i.number, Title: i.title, Body: i.body, Author: i.author.login, Open: !i.closed}
	for _, l := range i.labels {
		v.Labels = append(v.Labels, l.name)
	}
	for _, c := range i.comments {
		seen := CommentView{ID: c.id, Author: c.author.login, Body: c.body, Updated: c.updated}
		for _, r := range c.reactions {
			seen.Reactions = append(seen.Reactions, r.by.login+" "+r.content)
		}
		v.Comments = append(v.Comments, seen)
	}
	if p := i.pull; p != nil {
		v.Pull = &PullView{p.head, p.base, p.headSHA, p.draft, p.merged}
	}
	return v
}
