package github

import (
	"context"
	"net/http"
	"strings"

	gh "github.com/google/go-github/v66/github"

	"nod"
)

// Delivered reads a published revision back: the branch's head, the pull request
// and its commits (at most 250, as GitHub lists them) with GitHub's own verdict on
// each signature. A missing branch or pull request is an empty field, not an error.
func (c *Client) Delivered(ctx context.Context, t nod.Task, r nod.Revision) (nod.Delivered, error) {
	act := "read back what was published to " + t.Repo.String()
	var out nod.Delivered
	if err := c.check(t.Repo); err != nil {
		return out, err
	}
	client, err := c.in(ctx, t.Installation, t.Repo, permRead)
	if err != nil {
		return out, c.fault(act, err)
	}
	branch := orElse(r.Branch, t.Branch)
	if out.BranchSHA, err = head(ctx, client, t.Repo, branch); err != nil {
		return nod.Delivered{}, c.fault(act, err)
	}
	pull, err := readPull(ctx, client, t.Repo, r.PullRequest.Number, branch, orElse(r.BaseRef, t.BaseRef))
	if err != nil {
		return nod.Delivered{}, c.fault(act, err)
	}
	if pull == nil {
		err := bare(ctx, client, t.Repo, r, &out)
		return out, c.fault(act, err)
	}
	out.PullRequest = shapePull(pull)
	commits, _, err := pages(0, func(page int) ([]*gh.RepositoryCommit, *gh.Response, error) {
		return client.PullRequests.ListCommits(ctx, t.Repo.Owner, t.Repo.Name, pull.GetNumber(), &gh.ListOptions{Page: page, PerPage: perPage})
	})
	if err != nil {
		return nod.Delivered{}, c.fault(act, err)
	}
	for _, one := range commits {
		out.Commits = append(out.Commits, shapeCommit(one))
	}
	return out, nil
}

// bare reads what there is to read of a revision without a pull request: its target
// branch, and its commits one by one.
func bare(ctx context.Context, client *gh.Client, repo nod.Repo, r nod.Revision, out *nod.Delivered) (err error) {
	if out.BaseSHA, err = head(ctx, client, repo, r.BaseRef); err != nil {
		return err
	}
	for _, c := range r.Commits {
		on, _, err := client.Git.GetCommit(ctx, repo.Owner, repo.Name, c.OnGitHub())
		if statusOf(err) == http.StatusNotFound {
			continue
		}
		if err != nil {
			return err
		}
		out.Commits = append(out.Commits, shapeCommit(&gh.RepositoryCommit{SHA: on.SHA, Commit: on, Parents: on.Parents}))
	}
	return nil
}

// head returns the commit that a branch points at, or "" when there is none.
func head(ctx context.Context, client *gh.Client, repo nod.Repo, branch string) (string, error) {
	ref, _, err := client.Git.GetRef(ctx, repo.Owner, repo.Name, "heads/"+branch)
	if statusOf(err) == http.StatusNotFound {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return ref.GetObject().GetSHA(), nil
}

// readPull reads a pull request by number, or else the newest one with this head
// and base; nil when there is none.
func readPull(ctx context.Context, client *gh.Client, repo nod.Repo, number int, head, base string) (*gh.PullRequest, error) {
	if number == 0 {
		found, err := findPulls(ctx, client, repo, "all", head, base)
		if err != nil || len(found) == 0 {
			return nil, err
		}
		number = found[0].GetNumber()
	}
	pull, _, err := client.PullRequests.Get(ctx, repo.Owner, repo.Name, number)
	if statusOf(err) == http.StatusNotFound {
		return nil, nil
	}
	return pull, err
}

// findPulls lists the pull requests from branch head of the repository itself into
// base, newest first. What GitHub's filter lets through is checked again: it ignores
// filters that it does not understand.
func findPulls(ctx context.Context, client *gh.Client, repo nod.Repo, state, head, base string) ([]*gh.PullRequest, error) {
	found, _, err := pages(0, func(page int) ([]*gh.PullRequest, *gh.Response, error) {
		return client.PullRequests.List(ctx, repo.Owner, repo.Name, &gh.PullRequestListOptions{State: state, Head: repo.Owner + ":" + head,
			Base: base, Sort: "created", Direction: "desc", ListOptions: gh.ListOptions{Page: page, PerPage: perPage}})
	})
	if err != nil {
		return nil, err
	}
	var out []*gh.PullRequest
	for _, p := range found {
		if p.GetHead().GetRef() == head && p.GetBase().GetRef() == base && strings.EqualFold(p.GetHead().GetRepo().GetFullName(), repo.String()) {
			out = append(out, p)
		}
	}
	return out, nil
}

func shapePull(p *gh.PullRequest) nod.PullRequest {
	return nod.PullRequest{Number: p.GetNumber(), URL: p.GetHTMLURL(), HeadRef: p.GetHead().GetRef(), HeadSHA: p.GetHead().GetSHA(),
		BaseRef: p.GetBase().GetRef(), State: p.GetState(), Merged: p.GetMerged() || !p.GetMergedAt().IsZero(), Draft: p.GetDraft()}
}

func shapeCommit(one *gh.RepositoryCommit) nod.Commit {
	inner := one.GetCommit()
	subject, _, _ := strings.Cut(inner.GetMessage(), "\n")
	out := nod.Commit{SHA: one.GetSHA(), Tree: inner.GetTree().GetSHA(), Subject: subject, Message: inner.GetMessage(),
		Verified: inner.GetVerification().GetVerified()}
	for _, p := range one.Parents {
		out.Parents = append(out.Parents, p.GetSHA())
	}
	return out
}
