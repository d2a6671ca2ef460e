package hostgit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"

	"nod"
)

// Bundle writes a version 2 bundle of what tip, a commit or a branch that is fetched
// first, reaches and base does not (all of it when base is empty). Its one ref is HEAD; its one prerequisite is base. It serves
// the check inside the environment, and keeps work that could not be published.
func (g *Git) Bundle(ctx context.Context, t nod.Task, base, tip string, w io.Writer) error {
	ctx, cancel := g.deadline(ctx)
	defer cancel()
	if err := checkTask(t); err != nil {
		return err
	}
	m, err := g.open(ctx, t.Repo)
	if err != nil {
		return err
	}
	defer m.close()
	head := bundleSignature + "\n"
	sha := tip
	if !hexID.MatchString(tip) {
		got, err := m.fetch(ctx, t, []string{tip}, nil)
		if err != nil {
			return err
		}
		sha = got[tip]
	}
	var except []string
	ids := []string{sha}
	if base != "" {
		ids = append(ids, base)
	}
	for _, id := range ids {
		if err := checkSHA(id); err != nil {
			return err
		}
		ok, err := m.known(ctx, t, id)
		if err != nil {
			return err
		}
		if !ok {
			return nod.E(nod.NotFound, "the commit "+id[:12]+" is not kept for this task", nil)
		}
	}
	args := []string{"pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset"}
	if base != "" {
		head += "-" + base + " \n"
		except = append(except, base)
		args = append(args, "--thin")
	}
	if _, err := io.WriteString(w, head+sha+" HEAD\n\n"); err != nil {
		return nod.E(nod.Unavailable, "write the bundle", err)
	}
	_, err = m.git(ctx, call{stdin: revs([]string{sha}, except), stdout: w}, args...)
	return err
}

// Forget removes what was kept for a task that has ended: its refs, and now and then
// the objects that nothing reaches any more. Forgetting twice is no error.
func (g *Git) Forget(ctx context.Context, t nod.Task) error {
	ctx, cancel := g.deadline(ctx)
	defer cancel()
	if err := checkTask(t); err != nil {
		return err
	}
	m, err := g.open(ctx, t.Repo)
	if err != nil {
		return err
	}
	defer m.close()
	out, err := m.git(ctx, call{}, "for-each-ref", "--format=delete %(refname)", taskRefs(t))
	if err != nil {
		return err
	}
	if t.Branch != "" {
		out = fmt.Appendf(out, "delete %s\n", branchRef(t.Branch))
	}
	if _, err := m.git(ctx, call{stdin: bytes.NewReader(out)}, "update-ref", "--no-deref", "--stdin"); err != nil {
		return err
	}
	return m.tidy(ctx)
}

// packsKept is how many packs a mirror may have before it is repacked: each fetch
// and each import adds one.
const packsKept = 50

func (m *mirror) tidy(ctx context.Context) error {
	packs, err := filepath.Glob(filepath.Join(m.dir, "objects", "pack", "*.pack"))
	if err != nil || len(packs) <= packsKept {
		return err
	}
	_, err = m.git(ctx, call{}, "gc", "--quiet", "--prune=now")
	return err
}
