package bot

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"nod"
	"nod/policy"
)

// This file delivers under the preset prototype: the approved commits become the head of
// the named integration branch, forwards only, without a pull request.

// forwards reports whether t's result goes straight into its target branch.
func forwards(set RepoSettings, t nod.Task) bool {
	p, ok := set.Rules.Preset.Rules()
	return ok && p.Delivery == policy.DeliverFastForward && set.Integration != "" && t.BaseRef == set.Integration
}

// forwarded reports whether the newest push of the current revision went there.
func forwarded(c nod.Case) bool {
	if c.Revision == nil {
		return false
	}
	push, ok := lastPush(c)
	var in nod.PushBranch
	return ok && json.Unmarshal(push.Intent, &in) == nil && in.Forward
}

// landed reads a branch back that was moved forward, and only then calls the task
// delivered.
func (b *Bot) landed(ctx context.Context, c nod.Case) error {
	seen, err := b.GitHub.Delivered(ctx, c.Task, *c.Revision)
	if err != nil {
		return fmt.Errorf("read back: %w", err)
	}
	wrong := ""
	if seen.BaseSHA == "" {
		wrong = "the branch " + c.Revision.BaseRef + " is gone"
	} else {
		wrong = unlike(*c.Revision, seen.Commits)
	}
	if wrong != "" {
		return b.askAgain(ctx, c, nod.CausePublishFailed, "Not delivered", wrong)
	}
	_, err = b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Task.State != nod.TaskRunning {
			return false, nil
		}
		return true, b.deliver(c, ch, seen)
	})
	return err
}

// complete ends a task whose commits are in its target branch already.
func (b *Bot) complete(ctx context.Context, c nod.Case) error {
	_, err := b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Task.State != nod.TaskReadyForReview {
			return false, nil
		}
		return true, b.end(c, ch, true, "")
	})
	return err
}

// unlike says which commit of a revision GitHub does not show as it was approved, or "".
func unlike(r nod.Revision, shown []nod.Commit) string {
	parent := r.BaseSHA
	for _, c := range r.Commits {
		on, ok := onGitHub(shown, c)
		switch {
		case !ok:
			return fmt.Sprintf("GitHub does not show commit %.8s", c.SHA)
		case on.Tree != c.Tree || !slices.Equal(on.Parents, []string{parent}) || strings.TrimRight(on.Message, "\n") != strings.TrimRight(c.Message, "\n"):
			return fmt.Sprintf("GitHub shows commit %.8s with another tree, parent or message than was approved", c.SHA)
		case !on.Verified:
			return fmt.Sprintf("GitHub does not show commit %.8s as verified", c.SHA)
		}
		parent = c.OnGitHub()
	}
	return ""
}
