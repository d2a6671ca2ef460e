package bot

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"nod"
	"nod/policy"
)

// accept makes a task of a labelled issue, or of a command in its stead: it reads
// the issue as it is now, freezes it, asks policy, and writes all that follows
// in one change, which writes r too. A note says why nothing came of it.
func (b *Bot) accept(ctx context.Context, set RepoSettings, o nod.Occurrence, r *receipt) (note string, err error) {
	defer b.starts.lock(fmt.Sprintf("%s#%d", o.Repo.Key(), o.Issue))() // deliveries are one at a time, but the sweep is another
	latest, err := b.Ledger.TaskOf(ctx, o.Repo, o.Issue)
	switch {
	case err != nil && nod.CodeOf(err) != nod.NotFound:
		return "", err
	case err == nil && slices.Contains(unfinished, latest.State):
		return "the issue has a task that is " + string(latest.State), nil
	}
	issue, err := b.GitHub.Issue(ctx, o.Installation, o.Repo, o.Issue)
	if err != nil {
		return "", fmt.Errorf("read issue: %w", err)
	}
	switch {
	case issue.Pull:
		return "it is a pull request", nil
	case !issue.Open:
		return "the issue is closed", nil
	case o.Kind == nod.IssueLabeled && !slices.ContainsFunc(issue.Labels, b.isTrigger):
		return "the label is not there any more", nil
	}
	if note, err := heard(o, issue, latest); note != "" || err != nil {
		return note, err
	}
	base, err := b.target(ctx, set, o.Installation, o.Repo)
	if err != nil {
		return "", err
	}
	facts, snapshot := b.facts(ctx, set, o, issue)
	t := nod.Task{Repo: o.Repo, Installation: o.Installation, Issue: o.Issue, Title: issue.Title, State: nod.TaskQueued,
		Agent: set.Agent, RequestedBy: o.Sender, BaseRef: base, CreatedAt: b.cfg.Now()}
	t.LabelEvent, t.AskedAt = max(issue.LabelEvent, latest.LabelEvent), asked(o, issue) // a command, too, uses the label up
	if t.Terms, err = pin(set); err != nil {
		return "", err
	}
	return "", b.queue(ctx, t, r, snapshot, policy.Start(facts))
}

// labelLag is how far apart GitHub's two clocks for one label may be: the time of its
// event, and the issue's own in the webhook.
const labelLag = 5 * time.Second

// heard says why a label is no reason for another task: the latest one began with the
// very event that set it, however often and by whatever way it was told of. A list of
// events that does not have the label yet is asked for again later.
func heard(o nod.Occurrence, issue nod.Issue, latest nod.Task) (note string, err error) {
	switch {
	case o.Kind != nod.IssueLabeled || issue.LabelEvent == 0:
		return "", nil
	case o.At.Sub(issue.LabelledAt) > labelLag:
		return "", nod.E(nod.Unavailable, "GitHub does not list yet who set the label", nil)
	case latest.LabelEvent >= issue.LabelEvent:
		return "this label was acted on already", nil
	}
	return "", nil
}

// asked is when GitHub says that a task was asked for.
func asked(o nod.Occurrence, issue nod.Issue) time.Time {
	if o.Kind == nod.IssueLabeled && !issue.LabelledAt.IsZero() {
		return issue.LabelledAt
	}
	return o.At
}

// facts is StartFacts, measured.
func (b *Bot) facts(ctx context.Context, set RepoSettings, o nod.Occurrence, issue nod.Issue) (policy.StartFacts, nod.Snapshot) {
	defer b.verb("decide")()
	return StartFacts(ctx, b.GitHub, set, o, issue)
}

// Tiers tells who somebody is; see GitHub.
type Tiers interface {
	Standing(ctx context.Context, installation int64, repo nod.Repo, a nod.Actor) nod.Standing
}

// StartFacts resolves everyone who has a part in the issue and freezes what they wrote.
// The sender of o is who set the label.
func StartFacts(ctx context.Context, tiers Tiers, set RepoSettings, o nod.Occurrence, issue nod.Issue) (policy.StartFacts, nod.Snapshot) {
	known := map[string]nod.Standing{}
	standing := func(a nod.Actor) nod.Standing {
		s, ok := known[a.Key()]
		if !ok {
			s = tiers.Standing(ctx, o.Installation, o.Repo, a)
			known[a.Key()] = s
		}
		return s
	}
	s := nod.Snapshot{Repo: o.Repo, Issue: o.Issue, Title: issue.Title, Body: issue.Body,
		Author: standing(issue.Author), Labeller: standing(o.Sender), UpdatedAt: issue.UpdatedAt}
	f := policy.StartFacts{Repo: o.Repo, Issue: o.Issue, Labeller: s.Labeller, Author: s.Author, Settings: set.Rules.Start}
	if issue.Editor != (nod.Actor{}) {
		f.Editor = standing(issue.Editor)
	}
	for _, c := range issue.Comments {
		c.Author = standing(c.Author.Actor)
		if len(nod.ParseComment(c.Body)) > 0 || c.Author.Tier == nod.Bot {
			continue // commands are for nod, and the agent reads no bot
		}
		s.Comments = append(s.Comments, c)
		f.Commenters = append(f.Commenters, c.Author)
	}
	return f, s
}

// queue writes the task, the verdict with its explanation, and the question or
// the start that follows.
func (b *Bot) queue(ctx context.Context, t nod.Task, r *receipt, s nod.Snapshot, v policy.Verdict) error {
	frozen, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nod.E(nod.Internal, "the issue cannot be frozen", err)
	}
	if t.ID, err = b.id("t", 8); err != nil {
		return err
	}
	t.Untrusted, t.InputDigest, t.Approved = v.Untrusted, nod.Digest(frozen), v.Allows()
	t.Branch = fmt.Sprintf("nod/%d-%s", t.Issue, t.ID[1:7])
	if !v.Allows() && !v.Asks() {
		t.Reason = "policy forbids the start: " + v.Because.String()
	}
	c := nod.Case{Task: t}
	ch := finish(&nod.Change{By: t.RequestedBy, Tasks: []*nod.Task{&c.Task}, Blobs: [][]byte{frozen}}, r)
	e := nod.NewEvent(t.ID, nod.Audit, nod.EventVerdict, nod.Supervisor(), map[string]any{
		"action": "start", "input_digest": t.InputDigest, "verdict": v})
	ch.Events = append(ch.Events, &e)
	if err := b.relabel(&c, ch, "queued"); err != nil {
		return err
	}
	if v.Asks() {
		err = b.open(&c, ch, mayStart(frozen))
	}
	if err == nil {
		err = b.tell(&c, ch, "queued")
	}
	if err == nil {
		err = b.Ledger.Apply(ctx, ch)
	}
	if err != nil {
		return err
	}
	b.log.Info("task queued", "task", t.ID, "repo", t.Repo.String(), "issue", t.Issue, "mode", string(v.Mode), "late_ms", t.Late().Milliseconds())
	b.announce(t.ID)
	return nil
}
