package github

import (
	"context"
	"net/http"
	"strings"

	gh "github.com/google/go-github/v66/github"

	"nod"
)

// needed is what publishing a result takes.
var needed = [][2]string{{"contents", "write"}, {"pull_requests", "write"}, {"issues", "write"}}

// refusing are the kinds of rules that keep a new branch from being made or moved,
// with what they say.
var refusing = map[string]string{
	"creation":                    "branches may not be created",
	"update":                      "branches may not be updated",
	"pull_request":                "changes need a pull request of their own",
	"required_status_checks":      "checks must have passed before a push",
	"required_deployments":        "deployments must have passed before a push",
	"merge_queue":                 "changes go through a merge queue",
	"branch_name_pattern":         "branch names must follow a pattern",
	"commit_message_pattern":      "commit messages must follow a pattern",
	"commit_author_email_pattern": "author addresses must follow a pattern",
	"committer_email_pattern":     "committer addresses must follow a pattern",
}

// Preflight says what would refuse the result of t, one sentence each: a suspended
// App, a permission that it lacks, a rule on the branch that it will push. What
// GitHub does not let the App see is not a problem.
func (c *Client) Preflight(ctx context.Context, t nod.Task, sign nod.SignMode) ([]string, error) {
	act := "look at what " + t.Repo.String() + " allows"
	if err := c.check(t.Repo); err != nil {
		return nil, err
	}
	in, _, err := c.app.Apps.FindRepositoryInstallation(ctx, t.Repo.Owner, t.Repo.Name)
	if statusOf(err) == http.StatusNotFound {
		return []string{"The App is not installed for " + t.Repo.String() + "."}, nil
	}
	if err != nil {
		return nil, c.fault(act, err)
	}
	page := "Accept it at " + in.GetHTMLURL() + "."
	if in.SuspendedAt != nil {
		return []string{"The App is suspended. " + page}, nil
	}
	var problems []string
	have := granted(in.GetPermissions())
	for _, n := range needed {
		if have[n[0]] != n[1] {
			problems = append(problems, "The App lacks the permission "+n[0]+": "+n[1]+". "+page)
		}
	}
	client, err := c.in(ctx, t.Installation, t.Repo, permMeta)
	if err != nil {
		return nil, c.fault(act, err)
	}
	rules, err := rulesOf(ctx, client, t.Repo, t.Branch)
	switch s := statusOf(err); {
	case s == http.StatusNotFound || s == http.StatusForbidden: // a host without rulesets
		return problems, nil
	case err != nil:
		return nil, c.fault(act, err)
	}
	for _, kind := range rules {
		if why := refusing[kind]; why != "" {
			problems = append(problems, "A rule of the repository covers "+t.Branch+": "+why+". Let the App bypass it, or leave the branch out of it.")
		}
		if kind == "required_signatures" && sign == nod.SignSSH {
			problems = append(problems, "A rule of the repository asks for verified signatures on "+t.Branch+
				": check that the signing key is a signing key of commit_author's account, or set sign to \"github\".")
		}
	}
	return problems, nil
}

// granted is what matters of an installation's permissions, name to level.
func granted(p *gh.InstallationPermissions) map[string]string {
	return map[string]string{"contents": p.GetContents(), "pull_requests": p.GetPullRequests(), "issues": p.GetIssues()}
}

// rulesOf lists the kinds of rules that apply to a branch, whether or not it exists.
// Only the kinds are read: their parameters differ from host to host.
func rulesOf(ctx context.Context, client *gh.Client, repo nod.Repo, branch string) ([]string, error) {
	req, err := client.NewRequest(http.MethodGet, "repos/"+repo.Owner+"/"+repo.Name+"/rules/branches/"+escapePath(branch)+"?per_page=100", nil)
	if err != nil {
		return nil, err
	}
	var rules []struct {
		Type string `json:"type"`
	}
	if _, err := client.Do(ctx, req, &rules); err != nil {
		return nil, err
	}
	var kinds []string
	for _, r := range rules {
		kinds = append(kinds, r.Type)
	}
	return kinds, nil
}

// escapePath is branch as a part of a URL; GitHub takes its slashes as they are.
func escapePath(branch string) string {
	return strings.NewReplacer("%", "%25", "#", "%23", "?", "%3F", " ", "%20").Replace(branch)
}
