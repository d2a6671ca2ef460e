package bot

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"nod"
	"nod/policy"
)

// accept makes a task of a labelled issue, or of a command in its stead: it reads
// the issue as it is now, freezes it, asks policy, and writes all that follows
// in one change, which writes r too. A note says why nothing came of it.
func (b *Bot) accept(ctx context.Context, set RepoSettings, o nod.Occurrence, r *receipt) (note string, err error) {
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
	base, err := b.GitHub.DefaultBranch(ctx, o.Installation, o.Repo)
	if err != nil {
		return "", fmt.Errorf("read default branch: %w", err)
	}
	facts, snapshot := b.facts(ctx, set, o, issue)
	return "", b.queue(ctx, set, o, r, issue, base, snapshot, policy.Start(facts))
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
func (b *Bot) queue(ctx context.Context, set RepoSettings, o nod.Occurrence, r *receipt, issue nod.Issue, base string, s nod.Snapshot, v policy.Verdict) error {
	frozen, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nod.E(nod.Internal, "the issue cannot be frozen", err)
	}
	id, err := b.id("t", 8)
	if err != nil {
		return err
	}
	t := nod.Task{ID: id, Repo: o.Repo, Installation: o.Installation, Issue: o.Issue, Title: issue.Title,
		State: nod.TaskQueued, Agent: set.Agent, RequestedBy: o.Sender, Untrusted: v.Untrusted, InputDigest: nod.Digest(frozen),
		BaseRef: base, Branch: fmt.Sprintf("nod/%d-%s", o.Issue, id[1:7]), Approved: v.Allows()}
	if !v.Allows() && !v.Asks() {
		t.Reason = "policy forbids the start: " + v.Because.String()
	}
	c := nod.Case{Task: t}
	ch := finish(&nod.Change{By: o.Sender, Tasks: []*nod.Task{&c.Task}, Blobs: [][]byte{frozen}}, r)
	e := nod.NewEvent(id, nod.Audit, nod.EventVerdict, nod.Supervisor(), map[string]any{
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
	b.log.Info("task queued", "task", id, "repo", o.Repo.String(), "issue", o.Issue, "mode", string(v.Mode))
	b.announce(id)
	return nil
}
