package github

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	gh "github.com/google/go-github/v66/github"

	"nod"
)

const (
	// maxFailed is how many red checks of a commit are read.
	maxFailed = 5
	// maxSaid is how much of a check's own words is read, in bytes.
	maxSaid = 4 << 10
	// actionsSlug is the App that runs GitHub's workflows. The id of one of its check
	// runs is that of the job.
	actionsSlug = "github-actions"
)

var (
	permPulls   = map[string]string{"metadata": "read", "pull_requests": "read"}
	permChecks  = map[string]string{"metadata": "read", "checks": "read"}
	permActions = map[string]string{"metadata": "read", "actions": "read"}
)

// Review reads a submitted review of pull request number with all its comments. Its
// author carries no tier.
func (c *Client) Review(ctx context.Context, t nod.Task, number int, id int64) (nod.PullReview, error) {
	act := "read a review in " + t.Repo.String()
	if err := c.check(t.Repo); err != nil {
		return nod.PullReview{}, err
	}
	client, err := c.in(ctx, t.Installation, t.Repo, permPulls)
	if err != nil {
		return nod.PullReview{}, c.fault(act, err)
	}
	got, _, err := client.PullRequests.GetReview(ctx, t.Repo.Owner, t.Repo.Name, number, id)
	if err != nil {
		return nod.PullReview{}, c.fault(act, err)
	}
	out := nod.PullReview{ID: got.GetID(), Author: c.actor(got.User), State: strings.ToLower(got.GetState()), Body: got.GetBody(),
		SHA: got.GetCommitID(), At: got.GetSubmittedAt().UTC()}
	comments, _, err := pages(0, func(page int) ([]*gh.PullRequestComment, *gh.Response, error) {
		return client.PullRequests.ListReviewComments(ctx, t.Repo.Owner, t.Repo.Name, number, id, &gh.ListOptions{Page: page, PerPage: perPage})
	})
	if err != nil {
		return nod.PullReview{}, c.fault(act, err)
	}
	for _, one := range comments {
		out.Comments = append(out.Comments, nod.LineComment{ID: one.GetID(), Path: one.GetPath(), Line: one.GetLine(), Hunk: one.GetDiffHunk(), Body: one.GetBody()})
	}
	return out, nil
}

// FailedChecks reads the check runs that are red for a commit, at most five and none
// of the App's own, with the end of their logs where they are workflow jobs and the
// App may read logs.
func (c *Client) FailedChecks(ctx context.Context, t nod.Task, sha string) ([]nod.FailedCheck, error) {
	act := "read the checks of a commit in " + t.Repo.String()
	if err := c.check(t.Repo); err != nil {
		return nil, err
	}
	client, err := c.in(ctx, t.Installation, t.Repo, permChecks)
	if err != nil {
		return nil, c.fault(act, err)
	}
	runs, err := checkRuns(ctx, client, t.Repo, sha, "")
	if err != nil {
		return nil, c.fault(act, err)
	}
	var out []nod.FailedCheck
	for _, r := range runs {
		red := slices.Contains([]string{"failure", "timed_out", "startup_failure"}, r.GetConclusion())
		if !red || r.GetApp().GetID() == c.appID || len(out) == maxFailed {
			continue
		}
		failed := nod.FailedCheck{Name: r.GetName(), Conclusion: r.GetConclusion(),
			Summary: runeCut(strings.TrimSpace(r.GetOutput().GetTitle()+"\n"+r.GetOutput().GetSummary()+"\n"+r.GetOutput().GetText()), maxSaid)}
		if r.GetApp().GetSlug() == actionsSlug {
			if failed.Log, err = c.jobLog(ctx, t, r.GetID()); err != nil {
				c.log.Warn("read a job's log", "task", t.ID, "repo", t.Repo.String(), "err", err)
			}
		}
		out = append(out, failed)
	}
	return out, nil
}

// checkRuns lists the newest check runs of a commit, of one name where that is given.
func checkRuns(ctx context.Context, client *gh.Client, repo nod.Repo, sha, name string) ([]*gh.CheckRun, error) {
	opts := &gh.ListCheckRunsOptions{Filter: gh.String("latest")}
	if name != "" {
		opts.CheckName = &name
	}
	all, _, err := pages(0, func(page int) ([]*gh.CheckRun, *gh.Response, error) {
		opts.ListOptions = gh.ListOptions{Page: page, PerPage: perPage}
		some, res, err := client.Checks.ListCheckRunsForRef(ctx, repo.Owner, repo.Name, sha, opts)
		if err != nil {
			return nil, res, err
		}
		return some.CheckRuns, res, nil
	})
	return all, err
}

// jobLog reads the end of a workflow job's log. GitHub answers with an address, good
// for a minute, on a host of its own choice: nothing that authenticates goes there.
func (c *Client) jobLog(ctx context.Context, t nod.Task, job int64) (string, error) {
	act := "read a job's log in " + t.Repo.String()
	client, err := c.in(ctx, t.Installation, t.Repo, permActions)
	if err != nil {
		return "", c.fault(act, err)
	}
	to, _, err := client.Actions.GetWorkflowJobLogs(ctx, t.Repo.Owner, t.Repo.Name, job, 0)
	if err != nil {
		return "", c.fault(act, err)
	}
	tail, err := c.fetchTail(ctx, to)
	if err != nil {
		return "", nod.E(nod.Unavailable, "the log could not be fetched", err)
	}
	return tail, nil
}

func (c *Client) fetchTail(ctx context.Context, to *url.URL) (string, error) {
	if _, err := root(to.Scheme + "://" + to.Host); err != nil { // https, or loopback
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return "", err
	}
	plain := &http.Client{Transport: c.plain, Timeout: callTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := plain.Do(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }() // it was read
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("status %d", res.StatusCode)
	}
	var tail bytes.Buffer
	chunk := make([]byte, 32<<10)
	for left := int64(maxAnswer); left > 0; {
		n, err := res.Body.Read(chunk)
		left -= int64(n)
		tail.Write(chunk[:n])
		if over := tail.Len() - nod.LogTail; over > 0 {
			tail.Next(over)
		}
		if errors.Is(err, io.EOF) {
			return cleanTail(tail.Bytes()), nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", nod.E(nod.TooLarge, "the log is too long", nil)
}

// cleanTail begins at a whole character.
func cleanTail(b []byte) string {
	for len(b) > 0 && !utf8.RuneStart(b[0]) {
		b = b[1:]
	}
	return strings.ToValidUTF8(string(b), "\ufffd")
}
