package github

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	gh "github.com/google/go-github/v66/github"

	"nod"
)

const (
	// happenedOverlap is how far before the newest thing seen a look begins: GitHub's
	// lists are not all equally fresh.
	happenedOverlap = 5 * time.Minute
	// maxHappenedPages bounds each list of one look, in pages of a hundred.
	maxHappenedPages = 30
)

// happenedMark is how far the looks at a repository have come.
type happenedMark struct {
	Since time.Time `json:"since"` // the newest thing seen, by GitHub's clock
}

// look is one look at a repository.
type look struct {
	*Client
	ctx          context.Context
	repo         nod.Repo
	installation *gh.Installation
	issues       *gh.Client
	from         time.Time // older things are left out
	newest       time.Time
	found        []nod.Happening
}

// Happened lists what happened in repo since mark, oldest first, in the words of the
// webhooks that tell of it, and the mark of the next look: labels set and removed,
// issues and pull requests closed, comments written, and of nod's open pull requests
// the reviews and the checks that ended. An empty mark begins now.
// Things that an earlier look told may be told again, under the same key. It asks with
// the ETags of the last look. Comments that were edited before they were seen are left
// out: an edit is never a command.
func (c *Client) Happened(ctx context.Context, repo nod.Repo, mark string) (list []nod.Happening, next string, err error) {
	act := "read what happened in " + repo.String()
	var from happenedMark
	if mark != "" {
		if err := json.Unmarshal([]byte(mark), &from); err != nil || from.Since.IsZero() {
			return nil, "", nod.E(nod.Invalid, "the mark of the last look cannot be read", err)
		}
	}
	l := &look{Client: c, ctx: ctx, repo: repo, from: from.Since.Add(-happenedOverlap), newest: from.Since}
	id, err := c.Installation(ctx, repo)
	if err != nil {
		return nil, "", err
	}
	l.installation = &gh.Installation{ID: &id}
	if l.issues, err = c.reader(reachOf(id, repo, permIssue)); err != nil {
		return nil, "", c.fault(act, err)
	}
	for _, read := range []func() error{l.events, l.comments, l.pulls} {
		if err := read(); err != nil {
			return nil, "", c.fault(act, err)
		}
	}
	slices.SortStableFunc(l.found, func(a, b nod.Happening) int { return a.At.Compare(b.At) })
	raw, err := json.Marshal(happenedMark{l.newest})
	if err != nil {
		return nil, "", nod.E(nod.Internal, "the mark cannot be written", err)
	}
	return l.found, string(raw), nil
}

// reader is a client for r that asks with ETags.
func (c *Client) reader(r reach) (*gh.Client, error) {
	a, err := c.access(r)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.reader == nil {
		a.reader = c.speak(&conditional{next: &bearer{c: c, reach: r}})
	}
	return a.reader, nil
}

// tell adds one thing. Everything it is made of came from GitHub in this look.
func (l *look) tell(key, event string, at time.Time, payload any) error {
	if l.seen(at); at.Before(l.from) {
		return nil
	}
	raw, err := json.Marshal(payload)
	if err != nil {
		return nod.E(nod.Internal, "what happened cannot be written as JSON", err)
	}
	l.found = append(l.found, nod.Happening{Key: l.repo.Key() + "/" + key, Event: event, At: at.UTC(), Payload: raw})
	return nil
}

// seen moves the mark on.
func (l *look) seen(at time.Time) {
	if at.After(l.newest) {
		l.newest = at.UTC()
	}
}

func (l *look) repository() *gh.Repository {
	return &gh.Repository{FullName: gh.String(l.repo.String())}
}

// events reads the events of all issues, which GitHub lists newest first.
func (l *look) events() error {
	var all []*gh.IssueEvent
	for page := 1; page > 0 && page <= maxHappenedPages; {
		some, res, err := l.issues.Issues.ListRepositoryEvents(l.ctx, l.repo.Owner, l.repo.Name, &gh.ListOptions{Page: page, PerPage: perPage})
		if err != nil {
			return err
		}
		if l.newest.IsZero() { // the first look begins now
			now, err := http.ParseTime(res.Header.Get("Date"))
			if err != nil {
				return nod.E(nod.Unavailable, "GitHub's answer had no date", err)
			}
			l.newest, l.from = now.UTC(), now.UTC().Add(-happenedOverlap)
		}
		all = append(all, some...)
		if len(some) == 0 || some[len(some)-1].GetCreatedAt().Before(l.from) {
			return l.occurred(all)
		}
		if page = res.NextPage; page > maxHappenedPages {
			l.log.Warn("more happened than one look reads", "repo", l.repo.String(), "limit", maxHappenedPages*perPage)
		}
	}
	return l.occurred(all)
}

func (l *look) occurred(all []*gh.IssueEvent) error {
	for _, e := range slices.Backward(all) {
		at, issue := e.GetCreatedAt().Time, e.GetIssue()
		if at.Before(l.from) {
			continue
		}
		key := "event/" + strconv.FormatInt(e.GetID(), 10)
		var err error
		switch kind := e.GetEvent(); {
		case (kind == "labeled" || kind == "unlabeled") && !issue.IsPullRequest():
			then := *issue
			then.UpdatedAt = e.CreatedAt
			err = l.tell(key, "issues", at, gh.IssuesEvent{Action: &kind, Issue: &then, Label: e.Label, Repo: l.repository(), Sender: e.Actor, Installation: l.installation})
		case kind == "closed" && !issue.IsPullRequest():
			then := *issue
			then.ClosedAt, then.UpdatedAt = e.CreatedAt, e.CreatedAt
			err = l.tell(key, "issues", at, gh.IssuesEvent{Action: &kind, Issue: &then, Repo: l.repository(), Sender: e.Actor, Installation: l.installation})
		case kind == "closed":
			err = l.pullClosed(key, at, e)
		default:
			l.seen(at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pullClosed reads what an event does not say of a pull request: its branch, and
// whether it was merged. One that is open again is left alone.
func (l *look) pullClosed(key string, at time.Time, e *gh.IssueEvent) error {
	client, err := l.reader(reachOf(l.installation.GetID(), l.repo, permPulls))
	if err != nil {
		return err
	}
	pull, _, err := client.PullRequests.Get(l.ctx, l.repo.Owner, l.repo.Name, e.GetIssue().GetNumber())
	if err != nil {
		return err
	}
	if pull.GetState() != "closed" {
		l.seen(at)
		return nil
	}
	return l.tell(key, "pull_request", at, gh.PullRequestEvent{Action: gh.String("closed"), Number: pull.Number, PullRequest: pull,
		Repo: pull.GetBase().GetRepo(), Sender: e.Actor, Installation: l.installation})
}

// comments reads the comments of all issues, oldest change first.
func (l *look) comments() error {
	for page := 1; page > 0 && page <= maxHappenedPages; {
		some, res, err := l.issues.Issues.ListComments(l.ctx, l.repo.Owner, l.repo.Name, 0, &gh.IssueListCommentsOptions{Sort: gh.String("updated"),
			Direction: gh.String("asc"), Since: &l.from, ListOptions: gh.ListOptions{Page: page, PerPage: perPage}})
		if err != nil {
			return err
		}
		for _, one := range some {
			l.seen(one.GetUpdatedAt().Time)
			if one.GetUpdatedAt().After(one.GetCreatedAt().Time) {
				continue
			}
			number, err := trailing(one.GetIssueURL())
			if err != nil {
				return err
			}
			issue := &gh.Issue{Number: &number, UpdatedAt: one.CreatedAt}
			if err := l.tell("comment/"+strconv.FormatInt(one.GetID(), 10), "issue_comment", one.GetCreatedAt().Time, gh.IssueCommentEvent{
				Action: gh.String("created"), Issue: issue, Comment: one, Repo: l.repository(), Sender: one.User, Installation: l.installation}); err != nil {
				return err
			}
		}
		if page = res.NextPage; page > maxHappenedPages { // the next look goes on there
			l.newest = some[len(some)-1].GetUpdatedAt().UTC()
		}
	}
	return nil
}

// pulls reads the reviews and the checks of nod's own open pull requests: those whose
// branch is under nod/ in the repository itself. A comment on a line belongs to a review.
func (l *look) pulls() error {
	client, err := l.reader(reachOf(l.installation.GetID(), l.repo, permPulls))
	if err != nil {
		return err
	}
	open, _, err := pages(maxHappenedPages*perPage, func(page int) ([]*gh.PullRequest, *gh.Response, error) {
		return client.PullRequests.List(l.ctx, l.repo.Owner, l.repo.Name, &gh.PullRequestListOptions{State: "open", ListOptions: gh.ListOptions{Page: page, PerPage: perPage}})
	})
	if err != nil {
		return err
	}
	for _, pull := range open {
		head, base := pull.GetHead(), pull.GetBase().GetRepo()
		if !strings.HasPrefix(strings.ToLower(head.GetRef()), "nod/") || base.GetID() == 0 || head.GetRepo().GetID() != base.GetID() {
			continue
		}
		reviews, _, err := pages(maxHappenedPages*perPage, func(page int) ([]*gh.PullRequestReview, *gh.Response, error) {
			return client.PullRequests.ListReviews(l.ctx, l.repo.Owner, l.repo.Name, pull.GetNumber(), &gh.ListOptions{Page: page, PerPage: perPage})
		})
		if err != nil {
			return err
		}
		for _, r := range reviews {
			if r.SubmittedAt == nil { // still being written
				continue
			}
			if err := l.tell("review/"+strconv.FormatInt(r.GetID(), 10), "pull_request_review", r.GetSubmittedAt().Time, gh.PullRequestReviewEvent{
				Action: gh.String("submitted"), Review: r, PullRequest: pull, Repo: base, Sender: r.User, Installation: l.installation}); err != nil {
				return err
			}
		}
		if err := l.suites(head.GetSHA()); err != nil {
			return err
		}
	}
	return nil
}

// suites reads the check suites of a commit that have ended. An App that may not read
// checks hears of none.
func (l *look) suites(sha string) error {
	client, err := l.reader(reachOf(l.installation.GetID(), l.repo, permChecks))
	if err != nil {
		return err
	}
	all, _, err := pages(maxHappenedPages*perPage, func(page int) ([]*gh.CheckSuite, *gh.Response, error) {
		some, res, err := client.Checks.ListCheckSuitesForRef(l.ctx, l.repo.Owner, l.repo.Name, sha, &gh.ListCheckSuiteOptions{ListOptions: gh.ListOptions{Page: page, PerPage: perPage}})
		if err != nil {
			return nil, res, err
		}
		return some.CheckSuites, res, nil
	})
	if err = l.fault("read checks of "+l.repo.String(), err); err != nil {
		if nod.CodeOf(err) == nod.Forbidden {
			l.log.Debug("checks cannot be read", "repo", l.repo.String(), "err", err)
			return nil
		}
		return err
	}
	for _, k := range all {
		if k.GetStatus() != "completed" {
			continue
		}
		at := k.GetUpdatedAt()
		key := fmt.Sprintf("suite/%d/%s", k.GetID(), at.UTC().Format(time.RFC3339))
		if err := l.tell(key, "check_suite", at.Time, gh.CheckSuiteEvent{Action: gh.String("completed"), CheckSuite: k, Repo: l.repository(), Installation: l.installation}); err != nil {
			return err
		}
	}
	return nil
}

// trailing is the number at the end of an API address.
func trailing(address string) (int, error) {
	n, err := strconv.Atoi(address[strings.LastIndexByte(address, '/')+1:])
	if err != nil || n <= 0 {
		return 0, nod.E(nod.Internal, "GitHub named an issue in a way nod does not understand", fmt.Errorf("parse %q: %w", address, err))
	}
	return n, nil
}
