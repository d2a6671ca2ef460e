package github

import (
	"context"
	"net/http"
	"strings"

	gh "github.com/google/go-github/v66/github"

	"nod"
)

// dress sets the labels of a pull request and asks for its reviews. That GitHub will
// not have a reviewer or a label is logged and no more: the pull request is there.
func (p OpenPulls) dress(ctx context.Context, client *gh.Client, repo nod.Repo, pull *gh.PullRequest, in nod.OpenPullRequest) error {
	if labels := missingLabels(pull, in); len(labels) > 0 {
		if err := addLabels(ctx, client, repo, pull.GetNumber(), labels...); p.matters("label a pull request", err) {
			return err
		}
	}
	people, teams := missingReviewers(pull, in)
	for _, ask := range append(each(people, false), each(teams, true)...) { // or one that GitHub refuses would take the others along
		_, _, err := client.PullRequests.RequestReviewers(ctx, repo.Owner, repo.Name, pull.GetNumber(), ask)
		if p.matters("ask for a review", err) {
			return err
		}
	}
	return nil
}

func each(names []string, teams bool) (asks []gh.ReviewersRequest) {
	for _, n := range names {
		if teams {
			asks = append(asks, gh.ReviewersRequest{TeamReviewers: []string{n}})
		} else {
			asks = append(asks, gh.ReviewersRequest{Reviewers: []string{n}})
		}
	}
	return asks
}

// matters reports whether err is one to try again for.
func (p OpenPulls) matters(act string, err error) bool {
	switch statusOf(err) {
	case http.StatusUnprocessableEntity, http.StatusNotFound:
		p.log.Warn("github did not let nod "+act, "err", err)
		return false
	}
	return err != nil
}

func undressed(pull *gh.PullRequest, in nod.OpenPullRequest) bool {
	people, teams := missingReviewers(pull, in)
	return len(missingLabels(pull, in))+len(people)+len(teams) > 0
}

func missingLabels(pull *gh.PullRequest, in nod.OpenPullRequest) (missing []string) {
	var set []string
	for _, l := range pull.Labels {
		set = append(set, l.GetName())
	}
	for _, l := range in.Labels {
		if !carries(set, l) {
			missing = append(missing, l)
		}
	}
	return missing
}

// missingReviewers parts the reviewers that were not asked yet into people and teams.
// Nobody reviews their own pull request.
func missingReviewers(pull *gh.PullRequest, in nod.OpenPullRequest) (people, teams []string) {
	asked := []string{pull.GetUser().GetLogin()}
	for _, u := range pull.RequestedReviewers {
		asked = append(asked, u.GetLogin())
	}
	for _, t := range pull.RequestedTeams {
		asked = append(asked, "/"+t.GetSlug())
	}
	for _, r := range in.Reviewers {
		_, team, isTeam := strings.Cut(r, "/")
		switch {
		case isTeam && !carries(asked, "/"+team):
			teams = append(teams, team)
		case !isTeam && !carries(asked, r):
			people = append(people, r)
		}
	}
	return people, teams
}
