package github

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	gh "github.com/google/go-github/v66/github"

	"nod"
)

const (
	maxTitle = 256 // characters, as on GitHub
	// maxRest is how many comments carry what did not fit a pull request's body.
	maxRest = 8
)

// OpenPulls performs nod.EffectOpenPR. An open pull request with the same head and
// base is taken as it is. A body over MaxBody is cut between lines, code fences kept
// whole, and goes on in comments by the App, at most eight of them.
type OpenPulls struct{ *Client }

// OpenPulls returns the performer of nod.EffectOpenPR.
func (c *Client) OpenPulls() OpenPulls { return OpenPulls{c} }

func (p OpenPulls) plan(ctx context.Context, t nod.Task, e nod.Effect) (nod.OpenPullRequest, *gh.Client, error) {
	var in nod.OpenPullRequest
	if err := intent(e, nod.EffectOpenPR, &in); err != nil {
		return in, nil, err
	}
	if err := p.check(t.Repo); err != nil {
		return in, nil, err
	}
	if in.Head == "" || in.Base == "" || in.SHA == "" || in.Head == in.Base {
		return in, nil, nod.E(nod.Invalid, "a pull request needs two branches and a commit", nil)
	}
	if in.Number != 0 { // its texts are there already
		in.Body = ""
	}
	in.Title = strings.Join(strings.Fields(in.Title), " ")
	if runes := []rune(in.Title); len(runes) > maxTitle {
		in.Title = string(runes[:maxTitle-1]) + "…"
	}
	client, err := p.in(ctx, t.Installation, t.Repo, permOpenPR)
	return in, client, err
}

// Perform opens the pull request, unless the branch is not at the approved commit.
// The outcome is a nod.PullRequest. Where a repository does not allow drafts, it is
// opened ready, and the outcome says so.
func (p OpenPulls) Perform(ctx context.Context, t nod.Task, e nod.Effect) (json.RawMessage, error) {
	act := "open a pull request in " + t.Repo.String()
	in, client, err := p.plan(ctx, t, e)
	if err != nil {
		return nil, p.fault(act, err)
	}
	pull, err := p.open(ctx, client, t.Repo, in)
	if err != nil {
		return nil, p.fault(act, err)
	}
	if into := pull.GetBase().GetRepo().GetFullName(); !strings.EqualFold(into, t.Repo.String()) {
		return nil, nod.E(nod.Conflict, "the pull request goes into another repository, "+tidy(into), nil)
	}
	if err := p.dress(ctx, client, t.Repo, pull, in); err != nil {
		return nil, p.fault(act, err)
	}
	if err := p.rest(ctx, client, t.Repo, pull.GetNumber(), e.Key, in.Body); err != nil {
		return nil, p.fault(act, err)
	}
	return outcome(shapePull(pull))
}

func (p OpenPulls) open(ctx context.Context, client *gh.Client, repo nod.Repo, in nod.OpenPullRequest) (*gh.PullRequest, error) {
	found, err := findPulls(ctx, client, repo, "open", in.Head, in.Base)
	if err != nil || len(found) > 0 {
		return first(found), err
	}
	if in.Number != 0 {
		return nil, nod.E(nod.Conflict, fmt.Sprintf("pull request #%d is not open any more", in.Number), nil)
	}
	at, err := head(ctx, client, repo, in.Head)
	if err != nil {
		return nil, err
	}
	if at != in.SHA {
		return nil, nod.E(nod.Conflict, "the branch is not at the approved commit; no pull request was opened", nil)
	}
	body, _ := split(in.Body, MaxBody)
	ask := &gh.NewPullRequest{Title: &in.Title, Body: &body, Head: &in.Head, Base: &in.Base, Draft: &in.Draft}
	pull, _, err := client.PullRequests.Create(ctx, repo.Owner, repo.Name, ask)
	if in.Draft && statusOf(err) == http.StatusUnprocessableEntity && says(err, "draft") {
		ask.Draft = gh.Bool(false)
		pull, _, err = client.PullRequests.Create(ctx, repo.Owner, repo.Name, ask)
	}
	if statusOf(err) == http.StatusUnprocessableEntity && saysAlreadyExists(err) {
		if found, again := findPulls(ctx, client, repo, "open", in.Head, in.Base); again == nil && len(found) > 0 {
			return found[0], nil
		}
	}
	return pull, err
}

func first(found []*gh.PullRequest) *gh.PullRequest {
	if len(found) == 0 {
		return nil
	}
	return found[0]
}

// Lookup says that the effect happened when there is a pull request with this head
// and base at the commit, open or not, and the whole body is there.
func (p OpenPulls) Lookup(ctx context.Context, t nod.Task, e nod.Effect) (json.RawMessage, error) {
	act := "look for a pull request in " + t.Repo.String()
	in, client, err := p.plan(ctx, t, e)
	if err != nil {
		return nil, p.fault(act, err)
	}
	found, err := findPulls(ctx, client, t.Repo, "all", in.Head, in.Base)
	if err != nil {
		return nil, p.fault(act, err)
	}
	for _, pull := range found {
		if pull.GetHead().GetSHA() != in.SHA {
			continue
		}
		missing, err := p.missing(ctx, client, t.Repo, pull.GetNumber(), e.Key, in.Body)
		if err != nil || len(missing) > 0 || pull.GetState() == "open" && undressed(pull, in) {
			return nil, p.fault(act, err)
		}
		return outcome(shapePull(pull))
	}
	return nil, nil
}

// rest writes what did not fit, each piece once.
func (p OpenPulls) rest(ctx context.Context, client *gh.Client, repo nod.Repo, number int, key, body string) error {
	missing, err := p.missing(ctx, client, repo, number, key, body)
	if err != nil {
		return err
	}
	for _, text := range missing {
		if _, _, err := client.Issues.CreateComment(ctx, repo.Owner, repo.Name, number, &gh.IssueComment{Body: &text}); err != nil {
			return err
		}
	}
	return nil
}

// missing returns the comments of the rest that are not there yet, in order.
func (p OpenPulls) missing(ctx context.Context, client *gh.Client, repo nod.Repo, number int, key, body string) ([]string, error) {
	_, left := split(body, MaxBody)
	if left == "" {
		return nil, nil
	}
	id, err := p.BotIdentity(ctx)
	if err != nil {
		return nil, err
	}
	var missing []string
	for n := 1; left != "" && n <= maxRest; n++ {
		marker := fmt.Sprintf("<!-- nod:rest %s %d -->", nod.Digest([]byte(key))[:16], n)
		room := MaxBody - len(marker) - 1
		var piece string
		if piece, left = split(left, room); n == maxRest && left != "" {
			piece, left = CutMarkdown(piece+"\n"+left, room), ""
		}
		have, err := scan(ctx, client, repo, number, func(c *gh.IssueComment) bool {
			return c.GetUser().GetID() == id.ID && strings.HasPrefix(c.GetBody(), marker)
		})
		if err != nil {
			return nil, err
		}
		if have == nil {
			missing = append(missing, marker+"\n"+piece)
		}
	}
	return missing, nil
}

// says reports whether GitHub's validation error mentions words.
func says(err error, words string) bool {
	var e *gh.ErrorResponse
	return errors.As(err, &e) && strings.Contains(strings.ToLower(e.Message+" "+detail(e)), words)
}

func saysAlreadyExists(err error) bool {
	return says(err, "already exist") || says(err, "already_exists")
}
