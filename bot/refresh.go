package bot

import (
	"context"
	"errors"
	"fmt"

	"nod"
)

// refresh brings the newest target branch into the workspace, as origin/<target>, so
// that an agent can rebase onto it. Only objects and that one ref come in.
func (b *Bot) refresh(ctx context.Context, c nod.Case) error {
	const script = `set -e
f=$(mktemp)
cat >"$f"
sha=$(git bundle list-heads "$f" | cut -d' ' -f1)
git bundle unbundle "$f" >/dev/null
rm -f "$f"
git update-ref "refs/remotes/origin/$NOD_TARGET" "$sha"`
	env := gitEnv(c.Environment.BaseSHA)
	env["NOD_TARGET"] = c.Task.BaseRef
	p, err := b.Environments.Exec(ctx, c.Environment.ID, nod.Command{Argv: []string{"sh", "-c", script}, Env: env})
	if err != nil {
		return fmt.Errorf("bring the target branch in: %w", err)
	}
	out, errs := collect(p.Stdout(), 8<<10), collect(p.Stderr(), 8<<10)
	writeErr := b.Git.Bundle(ctx, c.Task, c.Environment.BaseSHA, c.Task.BaseRef, p.Stdin())
	_ = p.Stdin().Close()
	status, err := p.Wait()
	<-out
	if err != nil || status.Code != 0 || writeErr != nil {
		return nod.E(nod.Failed, "the newest target branch could not be brought into the environment", errors.Join(err, writeErr, errors.New(<-errs)))
	}
	return nil
}
