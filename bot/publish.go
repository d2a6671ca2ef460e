package bot

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"nod"
)

// publish carries a stopped run's result to its pull request, one step a call.
func (b *Bot) publish(ctx context.Context, c nod.Case, set RepoSettings) (bool, error) {
	if q, ok := lastQuestion(c, c.Run.ID); ok && q.Answer != nod.Retry && q.Answer != goUnchecked {
		return true, b.obey(ctx, c, q)
	}
	rev := c.Revision
	if rev == nil || rev.Run != c.Run.ID || rev.State == nod.RevisionSuperseded {
		return true, b.prepare(ctx, c, set)
	}
	switch rev.State {
	case nod.RevisionPrepared:
		return b.reviewed(ctx, c, set)
	case nod.RevisionRefused: // and somebody said what to do instead
		return true, b.begin(ctx, c, set)
	case nod.RevisionApproved:
		return b.pushed(ctx, c, set)
	case nod.RevisionPushed:
		return b.opened(ctx, c, set)
	case nod.RevisionPublished: // and the task went back to work
		return true, b.begin(ctx, c, set)
	}
	return false, nil
}

// reviewed acts on the answer to Ready to push.
func (b *Bot) reviewed(ctx context.Context, c nod.Case, set RepoSettings) (bool, error) {
	var review *nod.Decision
	for i, d := range c.Decisions {
		if d.Kind == nod.Review && d.CommitSHA == c.Revision.SHA {
			review = &c.Decisions[i]
		}
	}
	if review == nil || review.State != nod.DecisionAnswered {
		return false, nil
	}
	allowed, why := review.Permits(), review.Reason
	_, err := b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Task.State != nod.TaskRunning || c.Revision == nil || c.Revision.SHA != review.CommitSHA {
			return false, nil
		}
		if !allowed {
			return true, b.turnDown(c, ch, why)
		}
		ch.Revisions = append(ch.Revisions, c.Revision)
		if err := c.Revision.On(nod.RevisionApprove); err != nil {
			return false, err
		}
		return true, b.intendPush(c, ch, set)
	})
	return true, err
}

func (b *Bot) intendPush(c *nod.Case, ch *nod.Change, set RepoSettings) error {
	if forwards(set, c.Task) {
		return b.intend(c, ch, nod.EffectPush, publishKey(*c, "push"), c.Task.Repo.Key(), nod.PushBranch{
			Branch: c.Task.BaseRef, SHA: c.Revision.SHA, Old: c.Revision.BaseSHA, Base: c.Revision.BaseSHA, Sign: set.Sign, Forward: true})
	}
	return b.intend(c, ch, nod.EffectPush, publishKey(*c, "push"), c.Task.Repo.Key(), nod.PushBranch{
		Branch: c.Task.Branch, SHA: c.Revision.SHA, Old: stands(*c), Base: c.Revision.BaseSHA, Sign: set.Sign})
}

// stands is where the branch has to stand before the current revision is pushed. It
// is "" where the branch is not there: it was never pushed, or this revision was on
// it and somebody deleted it.
func stands(c nod.Case) string {
	was := publishedSHA(c)
	if was == "" || was == c.Revision.Published() {
		return ""
	}
	return c.Revision.BaseSHA // the commits were prepared on top of where it stood
}

// turnDown puts the end of a revision that was not allowed into ch. With a reason
// the next run is told it; without one, somebody is asked how to go on.
func (b *Bot) turnDown(c *nod.Case, ch *nod.Change, why string) error {
	ch.Revisions = append(ch.Revisions, c.Revision)
	if err := c.Revision.On(nod.RevisionRefuse); err != nil {
		return err
	}
	if why == "" {
		return b.open(c, ch, b.stuck(nod.CausePrepareFailed, c.Run.ID, "Not pushed: what now?", "The result was not allowed to be pushed."))
	}
	c.Task.Briefing = "The maintainer read your commits and did not let them be pushed yet: " + why
	ch.Tasks = append(ch.Tasks, &c.Task)
	return nil
}

// publishKey names one attempt at an act of publishing the current revision. Each
// retry that a person asked for makes a new one.
func publishKey(c nod.Case, act string) string {
	return fmt.Sprintf("%s/%s/%s/%d", act, c.Task.ID, c.Revision.SHA, retries(c))
}

func retries(c nod.Case) int {
	n := 0
	for _, d := range c.Decisions {
		if d.Cause == nod.CausePublishFailed && d.Run == c.Revision.Run && d.Answer == nod.Retry {
			n++
		}
	}
	return n
}

// publishedSHA is where the branch stands by an earlier push of this task, or "".
func publishedSHA(c nod.Case) string {
	sha := ""
	for _, e := range c.Effects {
		var out nod.PushOutcome
		if e.Kind == nod.EffectPush && e.State == nod.EffectDone && json.Unmarshal(e.Outcome, &out) == nil {
			sha = out.SHA
		}
	}
	return sha
}

// lastPush returns the newest push of the current revision.
func lastPush(c nod.Case) (last nod.Effect, ok bool) {
	for _, e := range c.Effects {
		if strings.HasPrefix(e.Key, fmt.Sprintf("push/%s/%s/", c.Task.ID, c.Revision.SHA)) {
			last, ok = e, true
		}
	}
	return last, ok
}

// effect returns the effect with key.
func effect(c nod.Case, key string) (nod.Effect, bool) {
	for _, e := range c.Effects {
		if e.Key == key {
			return e, true
		}
	}
	return nod.Effect{}, false
}

// pushed waits for the branch and then intends the pull request.
func (b *Bot) pushed(ctx context.Context, c nod.Case, set RepoSettings) (bool, error) {
	push, ok := lastPush(c)
	failed := push.State == nod.EffectRefused || push.State == nod.EffectAbandoned
	switch {
	case ok && push.State == nod.EffectDone:
	case failed && push.Key == publishKey(c, "push"):
		return true, b.askAgain(ctx, c, nod.CausePublishFailed, "Not delivered: the push was refused", push.Error)
	case failed && forwarded(c): // a retry, on top of where the branch is now
		return true, b.prepare(ctx, c, set)
	case failed || !ok: // a person asked for a retry
		_, err := b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
			return true, b.intendPush(c, ch, set)
		})
		return true, err
	default:
		return false, nil
	}
	var out nod.PushOutcome
	if err := json.Unmarshal(push.Outcome, &out); err != nil {
		return false, nod.E(nod.Internal, "the outcome of a push cannot be read", err)
	}
	into := forwarded(c)
	why, err := b.misplaced(ctx, c.Task, set)
	if err != nil {
		return false, err
	}
	if why != "" && !into {
		return true, b.askAgain(ctx, c, nod.CausePublishFailed, "Not delivered: no pull request may be opened", why)
	}
	_, err = b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if err := c.Revision.On(nod.RevisionPush); err != nil {
			return false, err
		}
		c.Revision.Publish(out.Published)
		ch.Revisions = append(ch.Revisions, c.Revision)
		if into {
			return true, nil
		}
		return true, b.intendPR(c, ch, set)
	})
	return true, err
}

func (b *Bot) intendPR(c *nod.Case, ch *nod.Change, set RepoSettings) error {
	return b.intend(c, ch, nod.EffectOpenPR, publishKey(*c, "pull"), c.Task.Repo.Key(), nod.OpenPullRequest{
		Title: b.cfg.Neutralize(c.Revision.Commits[0].Subject), Body: b.pullBody(*c),
		Head: c.Task.Branch, Base: c.Task.BaseRef, SHA: c.Revision.Published(), Draft: set.Draft,
		Number: c.Revision.PullRequest.Number, Reviewers: set.Reviewers, Labels: set.Labels})
}

// opened waits for the pull request, reads everything back and only then calls
// the task delivered.
func (b *Bot) opened(ctx context.Context, c nod.Case, set RepoSettings) (bool, error) {
	if forwarded(c) {
		return true, b.landed(ctx, c)
	}
	pull, ok := effect(c, publishKey(c, "pull"))
	switch {
	case ok && pull.State == nod.EffectDone:
	case ok && (pull.State == nod.EffectRefused || pull.State == nod.EffectAbandoned):
		return true, b.askAgain(ctx, c, nod.CausePublishFailed, "Not delivered: the pull request was refused", pull.Error)
	case !ok:
		return true, b.openAgain(ctx, c, set)
	default:
		return false, nil
	}
	seen, err := b.GitHub.Delivered(ctx, c.Task, *c.Revision)
	if err != nil {
		return false, fmt.Errorf("read back: %w", err)
	}
	if wrong := undelivered(*c.Revision, seen); wrong != "" {
		return true, b.askAgain(ctx, c, nod.CausePublishFailed, "Not delivered", wrong)
	}
	_, err = b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Task.State != nod.TaskRunning {
			return false, nil
		}
		return true, b.deliver(c, ch, seen)
	})
	return true, err
}

// deliver puts the end of a delivery into ch, once it was read back.
func (b *Bot) deliver(c *nod.Case, ch *nod.Change, seen nod.Delivered) error {
	if err := c.Revision.On(nod.RevisionPublish); err != nil {
		return err
	}
	c.Revision.PullRequest = seen.PullRequest
	for i := range c.Revision.Commits {
		on, ok := onGitHub(seen.Commits, c.Revision.Commits[i])
		c.Revision.Commits[i].Verified = ok && on.Verified
	}
	c.Task.Briefing = ""
	ch.Revisions = append(ch.Revisions, c.Revision)
	if err := b.move(c, ch, nod.TaskDeliver); err != nil {
		return err
	}
	return b.delivered(c, ch)
}

// openAgain does what a person asked for by retry: the pull request once more, and
// before it the push, where the branch is gone.
func (b *Bot) openAgain(ctx context.Context, c nod.Case, set RepoSettings) error {
	seen, err := b.GitHub.Delivered(ctx, c.Task, *c.Revision)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	_, err = b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if seen.BranchSHA != "" {
			return true, b.intendPR(c, ch, set)
		}
		if err := c.Revision.On(nod.RevisionLose); err != nil {
			return false, err
		}
		ch.Revisions = append(ch.Revisions, c.Revision)
		return true, b.intendPush(c, ch, set)
	})
	return err
}

func onGitHub(commits []nod.Commit, c nod.Commit) (nod.Commit, bool) {
	i := slices.IndexFunc(commits, func(on nod.Commit) bool { return on.SHA == c.OnGitHub() })
	if i < 0 {
		return nod.Commit{}, false
	}
	return commits[i], true
}

// undelivered says what of a revision GitHub does not show as it should, or "".
func undelivered(r nod.Revision, d nod.Delivered) string {
	switch {
	case d.BranchSHA != r.Published():
		return fmt.Sprintf("branch %s is not at the approved commit", r.Branch)
	case d.PullRequest.Number == 0:
		return "there is no pull request for " + r.Branch
	case d.PullRequest.State != "open":
		return fmt.Sprintf("pull request #%d is %s", d.PullRequest.Number, d.PullRequest.State)
	case d.PullRequest.HeadSHA != r.Published():
		return fmt.Sprintf("pull request #%d is not at the approved commit", d.PullRequest.Number)
	case d.PullRequest.BaseRef != r.BaseRef:
		return fmt.Sprintf("pull request #%d goes into %s", d.PullRequest.Number, d.PullRequest.BaseRef)
	}
	return unlike(r, d.Commits)
}
