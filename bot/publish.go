package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"nod"
	"nod/policy"
)

// maxDiff is the largest diff that can be shown whole, in bytes.
const maxDiff = 4 << 20

// publish carries a stopped run's result to its pull request, one step a call.
func (b *Bot) publish(ctx context.Context, c nod.Case, set RepoSettings) (bool, error) {
	if q, ok := lastQuestion(c, c.Run.ID); ok && q.Answer != nod.Retry {
		return true, b.obey(ctx, c, q)
	}
	rev := c.Revision
	if rev == nil || rev.Run != c.Run.ID || rev.State == nod.RevisionSuperseded {
		return true, b.prepare(ctx, c, set)
	}
	switch rev.State {
	case nod.RevisionPrepared:
		return b.reviewed(ctx, c)
	case nod.RevisionRefused: // and somebody said what to do instead
		return true, b.begin(ctx, c, set)
	case nod.RevisionApproved:
		return b.pushed(ctx, c, set)
	case nod.RevisionPushed:
		return b.opened(ctx, c, set)
	}
	return false, nil
}

// prepare takes the result out of the environment, prepares it, lets the
// repository's check judge it, and asks whether it may be pushed.
func (b *Bot) prepare(ctx context.Context, c nod.Case, set RepoSettings) error {
	defer b.verb("publish")()
	task := c.Task.ID
	c, err := b.enter(ctx, c, set) // stopped and started: nothing of the agent still runs in it
	if err != nil {
		return err
	}
	ready, diff, err := b.revision(ctx, c, set)
	if leave := b.leave(context.WithoutCancel(ctx), task); err == nil && leave != nil {
		return leave
	}
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		cause := nod.CausePrepareFailed
		if nod.CodeOf(err) == nod.Conflict {
			cause = nod.CauseRebaseConflict
		}
		b.log.Warn("prepare", "task", task, "run", c.Run.ID, "err", err)
		return b.askAgain(ctx, c, cause, "The result cannot be published as it is", nod.PublicMessage(err))
	}
	verdict := policy.Action(set.Rules.Table, policy.ActionPush, c.Task.Untrusted)
	if !verdict.Allows() && !verdict.Asks() {
		return b.askAgain(ctx, c, nod.CausePublishFailed, "Policy forbids the push", verdict.Because.String())
	}
	_, err = b.update(ctx, nod.Supervisor(), task, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Task.State != nod.TaskRunning {
			return false, nil
		}
		said := nod.NewEvent(task, nod.Audit, nod.EventVerdict, nod.Supervisor(), map[string]any{"action": policy.ActionPush, "verdict": verdict})
		said.Commit = ready.SHA
		ch.Events = append(ch.Events, &said)
		if c.Revision != nil && !nod.RevisionMachine.Terminal(c.Revision.State) {
			c.Revision.State = nod.RevisionSuperseded
			ch.Revisions = append(ch.Revisions, c.Revision)
		}
		pinned := ready
		c.Revision = &pinned
		ch.Revisions = append(ch.Revisions, &pinned)
		ch.Blobs = append(ch.Blobs, diff)
		return true, b.open(c, ch, func(nod.Task) (nod.Decision, string) {
			return nod.Decision{Kind: nod.Review, Cause: nod.CauseReadyToPush, Blocking: true, CommitSHA: pinned.SHA,
				Subject: fmt.Sprintf("%s into %s", plural(len(pinned.Commits), "commit"), pinned.BaseRef)}, string(diff)
		})
	})
	return err
}

// revision makes the prepared revision, checked, and its diff.
func (b *Bot) revision(ctx context.Context, c nod.Case, set RepoSettings) (nod.Revision, []byte, error) {
	head, err := b.export(ctx, c)
	if err != nil {
		return nod.Revision{}, nil, err
	}
	prepared, err := b.Git.Prepare(ctx, nod.PrepareSpec{Task: c.Task, Head: head, BaseRef: c.Task.BaseRef,
		Trailers: []string{"Nod-Task: " + c.Task.ID}})
	if err != nil {
		return nod.Revision{}, nil, fmt.Errorf("prepare: %w", err)
	}
	if len(prepared.Diff) > maxDiff {
		return nod.Revision{}, nil, nod.E(nod.TooLarge, "the change is larger than can be shown for review", nil)
	}
	rev := prepared.Revision
	rev.Task, rev.Run, rev.State, rev.Branch, rev.BaseRef = c.Task.ID, c.Run.ID, nod.RevisionPrepared, c.Task.Branch, c.Task.BaseRef
	rev.DiffDigest = nod.Digest(prepared.Diff)
	if rev.Check, err = b.check(ctx, c, set, rev); err != nil {
		return nod.Revision{}, nil, err
	}
	if len(set.Check) > 0 && !rev.Check.Passed(rev.SHA) {
		return nod.Revision{}, nil, nod.E(nod.Failed, fmt.Sprintf("the check %s failed with exit code %d:\n%s",
			strings.Join(set.Check, " "), rev.Check.ExitCode, rev.Check.Tail), nil)
	}
	return rev, prepared.Diff, nil
}

// export streams the agent's commits out of the environment into the
// supervisor's own repository. What the agent left uncommitted is committed
// first, inside the environment.
func (b *Bot) export(ctx context.Context, c nod.Case) (string, error) {
	const script = `set -e
git add -A
git diff --cached --quiet || git commit -q --no-verify -m "chore: keep uncommitted work"
git update-ref refs/nod/result HEAD
test "$(git rev-list --count "$NOD_BASE..refs/nod/result")" -gt 0 || exit 3
exec git bundle create -q - refs/nod/result "^$NOD_BASE"`
	p, err := b.Environments.Exec(ctx, c.Environment.ID, nod.Command{Argv: []string{"sh", "-c", script}, Env: gitEnv(c.Environment.BaseSHA)})
	if err != nil {
		return "", fmt.Errorf("bundle: %w", err)
	}
	errs := collect(p.Stderr(), 8<<10)
	_ = p.Stdin().Close()
	head, importErr := b.Git.Import(ctx, c.Task, p.Stdout())
	if importErr != nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(p.Stdout(), 1<<30)) // so that the process can end
	}
	status, waitErr := p.Wait()
	switch {
	case waitErr != nil:
		return "", fmt.Errorf("bundle: %w", waitErr)
	case status.Code == 3:
		return "", nod.E(nod.Failed, "the agent ended without changing anything", nil)
	case status.Code != 0:
		return "", nod.E(nod.Failed, "git could not bundle the result", errors.New(<-errs))
	case importErr != nil:
		return "", fmt.Errorf("import: %w", importErr)
	}
	return head, nil
}

// gitEnv is what git inside an environment is run with by the supervisor.
func gitEnv(base string) map[string]string {
	return map[string]string{"NOD_BASE": base, "GIT_AUTHOR_NAME": "nod", "GIT_AUTHOR_EMAIL": "nod@localhost",
		"GIT_COMMITTER_NAME": "nod", "GIT_COMMITTER_EMAIL": "nod@localhost", "GIT_TERMINAL_PROMPT": "0"}
}

// collect reads r to its end and keeps the last limit bytes.
func collect(r io.Reader, limit int) <-chan string {
	done := make(chan string, 1)
	go func() {
		var tail []byte
		buf := make([]byte, 32<<10)
		for {
			n, err := r.Read(buf)
			tail = append(tail, buf[:n]...)
			if len(tail) > limit {
				tail = append([]byte(nil), tail[len(tail)-limit:]...)
			}
			if err != nil {
				done <- strings.ToValidUTF8(string(tail), "\uFFFD")
				return
			}
		}
	}()
	return done
}

// checkTail is how much of a check's output its receipt keeps, in bytes.
const checkTail = 64 << 10

// check runs the repository's check in the environment, in a fresh work tree of
// exactly the prepared commit.
func (b *Bot) check(ctx context.Context, c nod.Case, set RepoSettings, rev nod.Revision) (nod.CheckReceipt, error) {
	receipt := nod.CheckReceipt{SHA: rev.SHA, Command: set.Check}
	if len(set.Check) == 0 {
		return receipt, nil
	}
	const place = `set -e
f=$(mktemp)
cat >"$f"
git bundle unbundle "$f" >/dev/null
rm -f "$f"
git worktree add -q -f --detach /tmp/nod-check "$NOD_SHA"`
	env := gitEnv(c.Environment.BaseSHA)
	env["NOD_SHA"] = rev.SHA
	p, err := b.Environments.Exec(ctx, c.Environment.ID, nod.Command{Argv: []string{"sh", "-c", place}, Env: env})
	if err != nil {
		return receipt, fmt.Errorf("place the commit to check: %w", err)
	}
	out, errs := collect(p.Stdout(), 8<<10), collect(p.Stderr(), 8<<10)
	writeErr := b.Git.Bundle(ctx, c.Task, c.Environment.BaseSHA, rev.SHA, p.Stdin())
	_ = p.Stdin().Close()
	status, err := p.Wait()
	<-out
	if err != nil || status.Code != 0 || writeErr != nil {
		return receipt, nod.E(nod.Failed, "the commit to check could not be placed in the environment",
			errors.Join(err, writeErr, errors.New(<-errs)))
	}
	start := b.cfg.Now()
	p, err = b.Environments.Exec(ctx, c.Environment.ID, nod.Command{
		Argv: append([]string{"sh", "-c", `exec "$@" 2>&1`, "check"}, set.Check...), Dir: "/tmp/nod-check"})
	if err != nil {
		return receipt, fmt.Errorf("start check: %w", err)
	}
	_ = p.Stdin().Close()
	out, errs = collect(p.Stdout(), checkTail), collect(p.Stderr(), checkTail)
	status, err = p.Wait()
	if err != nil {
		return receipt, fmt.Errorf("check: %w", err)
	}
	receipt.ExitCode, receipt.Tail, receipt.Duration = status.Code, <-out+<-errs, b.cfg.Now().Sub(start)
	return receipt, nil
}

// reviewed acts on the answer to Ready to push.
func (b *Bot) reviewed(ctx context.Context, c nod.Case) (bool, error) {
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
			return true, b.refuse(c, ch, why)
		}
		ch.Revisions = append(ch.Revisions, c.Revision)
		if err := c.Revision.On(nod.RevisionApprove); err != nil {
			return false, err
		}
		return true, b.intend(c, ch, nod.EffectPush, publishKey(*c, "push"), c.Task.Repo.Key(),
			nod.PushBranch{Branch: c.Task.Branch, SHA: c.Revision.SHA, Old: publishedSHA(*c)})
	})
	return true, err
}

// refuse puts the end of a revision that was not allowed into ch. With a reason
// the next run is told it; without one, somebody is asked how to go on.
func (b *Bot) refuse(c *nod.Case, ch *nod.Change, why string) error {
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
	push, ok := effect(c, publishKey(c, "push"))
	switch {
	case ok && push.State == nod.EffectDone:
	case ok && (push.State == nod.EffectRefused || push.State == nod.EffectAbandoned):
		return true, b.askAgain(ctx, c, nod.CausePublishFailed, "Not delivered: the push was refused", push.Error)
	case !ok: // a person asked for a retry
		_, err := b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
			return true, b.intend(c, ch, nod.EffectPush, publishKey(*c, "push"), c.Task.Repo.Key(),
				nod.PushBranch{Branch: c.Task.Branch, SHA: c.Revision.SHA, Old: publishedSHA(*c)})
		})
		return true, err
	default:
		return false, nil
	}
	_, err := b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if err := c.Revision.On(nod.RevisionPush); err != nil {
			return false, err
		}
		ch.Revisions = append(ch.Revisions, c.Revision)
		return true, b.intendPR(c, ch, set)
	})
	return true, err
}

func (b *Bot) intendPR(c *nod.Case, ch *nod.Change, set RepoSettings) error {
	return b.intend(c, ch, nod.EffectOpenPR, publishKey(*c, "pull"), c.Task.Repo.Key(), nod.OpenPullRequest{
		Title: b.cfg.Neutralize(c.Revision.Commits[0].Subject), Body: b.pullBody(*c),
		Head: c.Task.Branch, Base: c.Task.BaseRef, SHA: c.Revision.SHA, Draft: set.Draft})
}

// opened waits for the pull request, reads everything back and only then calls
// the task delivered.
func (b *Bot) opened(ctx context.Context, c nod.Case, set RepoSettings) (bool, error) {
	pull, ok := effect(c, publishKey(c, "pull"))
	switch {
	case ok && pull.State == nod.EffectDone:
	case ok && (pull.State == nod.EffectRefused || pull.State == nod.EffectAbandoned):
		return true, b.askAgain(ctx, c, nod.CausePublishFailed, "Not delivered: the pull request was refused", pull.Error)
	case !ok:
		_, err := b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
			return true, b.intendPR(c, ch, set)
		})
		return true, err
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
		if err := c.Revision.On(nod.RevisionPublish); err != nil {
			return false, err
		}
		c.Revision.PullRequest = seen.PullRequest
		for i := range c.Revision.Commits {
			c.Revision.Commits[i].Verified = verified(seen.Commits, c.Revision.Commits[i].SHA)
		}
		c.Task.Briefing = ""
		ch.Revisions = append(ch.Revisions, c.Revision)
		return true, b.move(c, ch, nod.TaskDeliver)
	})
	return true, err
}

func verified(commits []nod.Commit, sha string) bool {
	for _, c := range commits {
		if c.SHA == sha {
			return c.Verified
		}
	}
	return false
}

// undelivered says what of a revision GitHub does not show as it should, or "".
func undelivered(r nod.Revision, d nod.Delivered) string {
	switch {
	case d.BranchSHA != r.SHA:
		return fmt.Sprintf("branch %s is not at the approved commit", r.Branch)
	case d.PullRequest.Number == 0:
		return "there is no pull request for " + r.Branch
	case d.PullRequest.State != "open":
		return fmt.Sprintf("pull request #%d is %s", d.PullRequest.Number, d.PullRequest.State)
	case d.PullRequest.HeadSHA != r.SHA:
		return fmt.Sprintf("pull request #%d is not at the approved commit", d.PullRequest.Number)
	case d.PullRequest.BaseRef != r.BaseRef:
		return fmt.Sprintf("pull request #%d goes into %s", d.PullRequest.Number, d.PullRequest.BaseRef)
	}
	for _, c := range r.Commits {
		if !verified(d.Commits, c.SHA) {
			return fmt.Sprintf("GitHub does not show commit %.8s as verified", c.SHA)
		}
	}
	return ""
}
