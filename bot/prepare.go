package bot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"nod"
	"nod/policy"
)

// maxDiff is the largest diff that can be shown whole, in bytes.
const maxDiff = 4 << 20

// errUnchanged says that there is nothing to publish.
var errUnchanged = nod.E(nod.Failed, "the agent ended without changing anything", nil)

// prepare takes the result out of the environment, prepares it, lets the
// repository's check judge it, and asks whether it may be pushed.
func (b *Bot) prepare(ctx context.Context, c nod.Case, set RepoSettings) error {
	defer b.verb("publish")()
	task := c.Task.ID
	if len(set.Check) == 0 && !set.Unchecked && !mayGoUnchecked(c) {
		return b.askUnchecked(ctx, c)
	}
	why, err := b.misplaced(ctx, c.Task, set)
	if err != nil {
		return err
	}
	if why != "" {
		return b.askAgain(ctx, c, nod.CausePrepareFailed, "The result may not go where it was to go", why)
	}
	c, err = b.enter(ctx, c, set) // stopped and started: nothing of the agent still runs in it
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
		if errors.Is(err, nod.ErrMessages) {
			if again, err := b.rewrite(ctx, c, set, nod.PublicMessage(err)); again || err != nil {
				return err
			}
		}
		cause, subject := nod.CausePrepareFailed, "The result cannot be published as it is"
		switch {
		case errors.Is(err, errUnchanged):
			subject = "The agent changed nothing"
		case nod.CodeOf(err) == nod.Conflict:
			cause = nod.CauseRebaseConflict
		}
		b.log.Warn("prepare", "task", task, "run", c.Run.ID, "err", err)
		return b.askAgain(ctx, c, cause, subject, nod.PublicMessage(err))
	}
	note, err := guarded(ready.Files, set.Protect)
	if err != nil {
		return b.askAgain(ctx, c, nod.CausePrepareFailed, "The result may not be published", nod.PublicMessage(err))
	}
	if at := b.addsSecret(diff); at != "" {
		note += "; adds what looks like a secret in " + at
	}
	action, how := policy.ActionPush, ""
	if forwards(set, c.Task) {
		action, how = policy.ActionPushIntegration, " itself, without a pull request"
	}
	verdict := policy.Action(set.Rules.Table, action, c.Task.Untrusted)
	if !verdict.Allows() && !verdict.Asks() {
		return b.askAgain(ctx, c, nod.CausePublishFailed, "Policy forbids the push", verdict.Because.String())
	}
	_, err = b.update(ctx, nod.Supervisor(), task, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Task.State != nod.TaskRunning {
			return false, nil
		}
		said := nod.NewEvent(task, nod.Audit, nod.EventVerdict, nod.Supervisor(), map[string]any{"action": action, "verdict": verdict})
		said.Commit = ready.SHA
		ch.Events = append(ch.Events, &said)
		if c.Revision != nil && !nod.RevisionMachine.Terminal(c.Revision.State) {
			c.Revision.State = nod.RevisionSuperseded
			ch.Revisions = append(ch.Revisions, c.Revision)
		}
		pinned := ready
		if c.Revision != nil { // new commits go to the pull request that is there
			pinned.PullRequest = c.Revision.PullRequest
		}
		c.Revision = &pinned
		ch.Revisions = append(ch.Revisions, &pinned)
		ch.Blobs = append(ch.Blobs, diff)
		return true, b.open(c, ch, func(nod.Task) (nod.Decision, string) {
			return nod.Decision{Kind: nod.Review, Cause: nod.CauseReadyToPush, Blocking: true, CommitSHA: pinned.SHA,
				Subject: fmt.Sprintf("%s into %s%s%s", plural(len(pinned.Commits), "commit"), pinned.BaseRef, how, note)}, string(diff)
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
		Trailers: trailers(c.Task)})
	if err != nil {
		return nod.Revision{}, nil, fmt.Errorf("prepare: %w", err)
	}
	if err := b.secrets(prepared.Revision); err != nil {
		return nod.Revision{}, nil, err
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
		return "", errUnchanged
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
	receipt.Source = "the configuration of nod"
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
