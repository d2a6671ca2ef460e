package bot

import (
	"context"
	"fmt"
	"strings"

	"nod"
	"nod/policy"
)

// target is the branch that work in a repository goes into, by its preset. GitHub is
// asked for the default branch each time.
func (b *Bot) target(ctx context.Context, set RepoSettings, installation int64, repo nod.Repo) (string, error) {
	base, err := b.GitHub.DefaultBranch(ctx, installation, repo)
	if err != nil {
		return "", fmt.Errorf("read default branch: %w", err)
	}
	if !intoDefault(set) {
		base = set.Integration
	}
	return base, nil
}

func intoDefault(set RepoSettings) bool {
	p, ok := set.Rules.Preset.Rules()
	return !ok || p.Delivery == policy.DeliverDefault
}

// misplaced says why a task's result may not go where it was to go when the task
// began, or "". A preset that came since never sends it anywhere else, and only the
// preset for it goes into the default branch.
func (b *Bot) misplaced(ctx context.Context, t nod.Task, set RepoSettings) (string, error) {
	main, err := b.GitHub.DefaultBranch(ctx, t.Installation, t.Repo)
	switch into := intoDefault(set); {
	case err != nil:
		return "", fmt.Errorf("read default branch: %w", err)
	case into && t.BaseRef != main:
		return fmt.Sprintf("The task began for the branch %s, and the repository's default branch is %s now.", t.BaseRef, main), nil
	case into:
		return "", nil
	case strings.EqualFold(t.BaseRef, main):
		return fmt.Sprintf("%s is the repository's default branch, and preset %s never goes into that.", t.BaseRef, set.Rules.Preset), nil
	case t.BaseRef != set.Integration:
		return fmt.Sprintf("The task began for the branch %s, and integration_branch is %s now.", t.BaseRef, set.Integration), nil
	}
	return "", nil
}
