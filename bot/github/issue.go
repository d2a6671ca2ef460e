package github

import (
	"context"
	"strings"

	gh "github.com/google/go-github/v66/github"

	"nod"
)

const (
	perPage = 100 // GitHub's most
	// MaxComments is how many comments Issue reads: the first hundred and the
	// newest ones. Those between are left out.
	MaxComments = 500
	// maxEventPages is how far back the setter of a label is looked for, in pages
	// of a hundred events.
	maxEventPages = 10
	// maxLabelled is how many issues Labelled lists.
	maxLabelled = 1000
)

// Issue reads an issue as it is now: title, body, labels, comments (at most
// MaxComments), and, when Config.TriggerLabel is set on it, who set that label
// last. Authors carry no tier yet.
func (c *Client) Issue(ctx context.Context, installation int64, repo nod.Repo, number int) (nod.Issue, error) {
	act := "read an issue of " + repo.String()
	if err := c.check(repo); err != nil {
		return nod.Issue{}, err
	}
	client, err := c.in(ctx, installation, repo, permIssue)
	if err != nil {
		return nod.Issue{}, c.fault(act, err)
	}
	got, _, err := client.Issues.Get(ctx, repo.Owner, repo.Name, number)
	if err != nil {
		return nod.Issue{}, c.fault(act, err)
	}
	issue := c.issue(installation, repo, got)
	comments, err := edges(MaxComments/perPage, func(page int) ([]*gh.IssueComment, *gh.Response, error) {
		return client.Issues.ListComments(ctx, repo.Owner, repo.Name, number,
			&gh.IssueListCommentsOptions{ListOptions: gh.ListOptions{Page: page, PerPage: perPage}})
	})
	if err != nil {
		return nod.Issue{}, c.fault("read the comments of an issue of "+repo.String(), err)
	}
	for _, one := range comments {
		issue.Comments = append(issue.Comments, nod.Comment{ID: one.GetID(), Body: one.GetBody(),
			Author: nod.Standing{Actor: c.actor(one.User)}, UpdatedAt: one.GetUpdatedAt().UTC()})
	}
	return issue, c.labeller(ctx, client, repo, &issue)
}

func (c *Client) issue(installation int64, repo nod.Repo, got *gh.Issue) nod.Issue {
	issue := nod.Issue{Repo: repo, Installation: installation, Number: got.GetNumber(), Title: got.GetTitle(), Body: got.GetBody(), Author: c.actor(got.User),
		Open: got.GetState() == "open", Pull: got.IsPullRequest(), UpdatedAt: got.GetUpdatedAt().UTC(), URL: got.GetHTMLURL(), Labels: []string{}}
	for _, l := range got.Labels {
		issue.Labels = append(issue.Labels, l.GetName())
	}
	return issue
}

// labeller finds who set the trigger label last, and when, from the newest event
// backwards. It is nobody when the label is not set, or its event is too far back.
func (c *Client) labeller(ctx context.Context, client *gh.Client, repo nod.Repo, issue *nod.Issue) error {
	if c.trigger == "" || !carries(issue.Labels, c.trigger) {
		return nil
	}
	list := func(page int) ([]*gh.IssueEvent, *gh.Response, error) {
		return client.Issues.ListIssueEvents(ctx, repo.Owner, repo.Name, issue.Number, &gh.ListOptions{Page: page, PerPage: perPage})
	}
	first, res, err := list(1)
	if err != nil {
		return c.fault("read the events of an issue of "+repo.String(), err)
	}
	last := max(1, res.LastPage)
	for page := last; page >= 1 && page > last-maxEventPages; page-- {
		events := first
		if page > 1 {
			if events, _, err = list(page); err != nil {
				return c.fault("read the events of an issue of "+repo.String(), err)
			}
		}
		for i := len(events) - 1; i >= 0; i-- {
			if e := events[i]; e.GetEvent() == "labeled" && strings.EqualFold(e.GetLabel().GetName(), c.trigger) {
				issue.Labeller, issue.LabelEvent, issue.LabelledAt = c.actor(e.Actor), e.GetID(), e.GetCreatedAt().UTC()
				return nil
			}
		}
	}
	return nil
}

func carries(labels []string, name string) bool {
	for _, l := range labels {
		if strings.EqualFold(l, name) {
			return true
		}
	}
	return false
}

// edges reads the first page and the newest ones of a list that GitHub gives oldest
// first, at most pages of them.
func edges[T any](pages int, list func(page int) ([]T, *gh.Response, error)) ([]T, error) {
	all, res, err := list(1)
	if err != nil {
		return nil, err
	}
	for page := max(2, res.LastPage-pages+2); page <= res.LastPage; page++ {
		more, _, err := list(page)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// pages reads a whole list, or at most limit of its items when limit is not 0.
func pages[T any](limit int, list func(page int) ([]T, *gh.Response, error)) (all []T, whole bool, err error) {
	for page := 1; ; {
		some, res, err := list(page)
		if err != nil {
			return nil, false, err
		}
		all = append(all, some...)
		if res.NextPage <= page {
			return all, true, nil
		}
		if limit > 0 && len(all) >= limit {
			return all, false, nil
		}
		page = res.NextPage
	}
}

// Labelled lists the open issues that carry label, newest first and without their
// comments: at most a thousand. Pull requests are left out. The installation that
// reaches the repository is looked up.
func (c *Client) Labelled(ctx context.Context, repo nod.Repo, label string) ([]nod.Issue, error) {
	act := "list the issues of " + repo.String()
	installation, err := c.Installation(ctx, repo)
	if err != nil {
		return nil, err
	}
	client, err := c.in(ctx, installation, repo, permIssue)
	if err != nil {
		return nil, c.fault(act, err)
	}
	found, _, err := pages(maxLabelled, func(page int) ([]*gh.Issue, *gh.Response, error) {
		return client.Issues.ListByRepo(ctx, repo.Owner, repo.Name, &gh.IssueListByRepoOptions{State: "open",
			Labels: []string{label}, ListOptions: gh.ListOptions{Page: page, PerPage: perPage}})
	})
	if err != nil {
		return nil, c.fault(act, err)
	}
	var out []nod.Issue
	for _, one := range found {
		// GitHub's filter splits at commas; what it found is checked again.
		issue := c.issue(installation, repo, one)
		if issue.Pull || !issue.Open || !carries(issue.Labels, label) {
			continue
		}
		if err := c.labeller(ctx, client, repo, &issue); err != nil {
			return nil, c.fault(act, err)
		}
		out = append(out, issue)
	}
	return out, nil
}

// DefaultBranch reads the repository's default branch.
func (c *Client) DefaultBranch(ctx context.Context, installation int64, repo nod.Repo) (string, error) {
	act := "read " + repo.String()
	if err := c.check(repo); err != nil {
		return "", err
	}
	client, err := c.in(ctx, installation, repo, permMeta)
	if err != nil {
		return "", c.fault(act, err)
	}
	got, _, err := client.Repositories.Get(ctx, repo.Owner, repo.Name)
	if err != nil {
		return "", c.fault(act, err)
	}
	if got.GetDefaultBranch() == "" {
		return "", nod.E(nod.NotFound, "the repository has no default branch", nil)
	}
	return got.GetDefaultBranch(), nil
}
