package github

import (
	"context"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"

	gh "github.com/google/go-github/v66/github"

	"nod"
)

// MaxBody is the cap of a comment or a pull request's body. GitHub's is 65,536
// characters; nod counts bytes, which is never more.
const MaxBody = 65536

// maxScan is how many comments of an issue are looked through for nod's own.
const maxScan = 5000

// StatusComments performs nod.EffectStatusComment: the one comment of a task is
// created, or edited when it is there. It is found by id, then by its hidden marker,
// and only among comments by the App itself. One that was deleted is written anew.
type StatusComments struct {
	*Client
	kind nod.EffectKind
}

// StatusComments returns the performer of nod.EffectStatusComment.
func (c *Client) StatusComments() StatusComments {
	return StatusComments{c, nod.EffectStatusComment}
}

// Replies returns the performer of nod.EffectReply: as a status comment, but of no
// task, so that only its marker finds it again.
func (c *Client) Replies() StatusComments { return StatusComments{c, nod.EffectReply} }

var markerShape = regexp.MustCompile(`^<!--[^<>]+-->$`)

const maxMarker = 207

// plan is an effect that was read and checked.
type commentPlan struct {
	nod.StatusComment
	client *gh.Client
	repo   nod.Repo
	bot    int64
}

func (p StatusComments) plan(ctx context.Context, t nod.Task, e nod.Effect) (commentPlan, error) {
	plan := commentPlan{repo: t.Repo}
	if err := intent(e, p.kind, &plan.StatusComment); err != nil {
		return plan, err
	}
	if len(plan.Marker) > maxMarker || !markerShape.MatchString(plan.Marker) || strings.Contains(plan.Marker[4:len(plan.Marker)-3], "--") {
		return plan, nod.E(nod.Invalid, "the comment's marker is not a hidden comment", nil)
	}
	if err := p.check(t.Repo); err != nil {
		return plan, err
	}
	if !strings.HasPrefix(plan.Body, plan.Marker) {
		plan.Body = plan.Marker + "\n" + plan.Body
	}
	plan.Body = CutMarkdown(plan.Body, MaxBody)
	id, err := p.BotIdentity(ctx)
	if err != nil {
		return plan, err
	}
	plan.bot = id.ID
	plan.client, err = p.in(ctx, t.Installation, t.Repo, permWrite)
	return plan, err
}

// Perform writes the comment. The outcome is a nod.CommentOutcome.
func (p StatusComments) Perform(ctx context.Context, t nod.Task, e nod.Effect) (json.RawMessage, error) {
	act := "comment on " + t.Repo.String()
	plan, err := p.plan(ctx, t, e)
	if err != nil {
		return nil, p.fault(act, err)
	}
	ours, err := plan.find(ctx, t.CommentID)
	if err != nil {
		return nil, p.fault(act, err)
	}
	if ours != nil && ours.GetBody() == plan.Body {
		return outcome(nod.CommentOutcome{ID: ours.GetID()})
	}
	if ours != nil {
		_, _, err := plan.client.Issues.EditComment(ctx, t.Repo.Owner, t.Repo.Name, ours.GetID(), &gh.IssueComment{Body: &plan.Body})
		if err == nil {
			return outcome(nod.CommentOutcome{ID: ours.GetID()})
		}
		if statusOf(err) != http.StatusNotFound {
			return nil, p.fault(act, err)
		}
	}
	made, _, err := plan.client.Issues.CreateComment(ctx, t.Repo.Owner, t.Repo.Name, plan.Issue, &gh.IssueComment{Body: &plan.Body})
	if err != nil {
		return nil, p.fault(act, err)
	}
	return outcome(nod.CommentOutcome{ID: made.GetID()})
}

// Lookup says that the effect happened when the comment has exactly the text.
func (p StatusComments) Lookup(ctx context.Context, t nod.Task, e nod.Effect) (json.RawMessage, error) {
	act := "look for its comment on " + t.Repo.String()
	plan, err := p.plan(ctx, t, e)
	if err != nil {
		return nil, p.fault(act, err)
	}
	ours, err := plan.find(ctx, t.CommentID)
	if err != nil || ours == nil || ours.GetBody() != plan.Body {
		return nil, p.fault(act, err)
	}
	return outcome(nod.CommentOutcome{ID: ours.GetID()})
}

func (p commentPlan) mine(c *gh.IssueComment) bool {
	return c.GetUser().GetID() == p.bot && strings.HasPrefix(c.GetBody(), p.Marker)
}

// find returns the App's own comment with the marker, or nil.
func (p commentPlan) find(ctx context.Context, id int64) (*gh.IssueComment, error) {
	if id != 0 {
		got, _, err := p.client.Issues.GetComment(ctx, p.repo.Owner, p.repo.Name, id)
		if err == nil && p.mine(got) {
			return got, nil
		}
		if err != nil && statusOf(err) != http.StatusNotFound {
			return nil, err
		}
	}
	return scan(ctx, p.client, p.repo, p.Issue, p.mine)
}

// scan looks for the first comment of an issue that is wanted.
func scan(ctx context.Context, client *gh.Client, repo nod.Repo, number int, wanted func(*gh.IssueComment) bool) (*gh.IssueComment, error) {
	var found *gh.IssueComment
	_, whole, err := pages(maxScan, func(page int) ([]*gh.IssueComment, *gh.Response, error) {
		some, res, err := client.Issues.ListComments(ctx, repo.Owner, repo.Name, number,
			&gh.IssueListCommentsOptions{ListOptions: gh.ListOptions{Page: page, PerPage: perPage}})
		for _, one := range some {
			if found == nil && wanted(one) {
				found = one
			}
		}
		if found != nil && res != nil {
			res.NextPage = 0
		}
		return some, res, err
	})
	if err == nil && found == nil && !whole {
		return nil, nod.E(nod.NeedsHuman, "the issue has too many comments to find nod's own among them", nil)
	}
	return found, err
}

// intent reads an effect's intent into v and refuses an effect of another kind.
func intent(e nod.Effect, kind nod.EffectKind, v any) error {
	if e.Kind != kind {
		return nod.E(nod.Invalid, "the effect is of another kind", nil)
	}
	if err := json.Unmarshal(e.Intent, v); err != nil {
		return nod.E(nod.Invalid, "the effect's intent cannot be read", err)
	}
	return nil
}

func outcome(v any) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, nod.E(nod.Internal, "the outcome cannot be written", err)
	}
	return raw, nil
}
