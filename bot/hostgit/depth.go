package hostgit

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"nod"
)

// boundary is the file in which git keeps where the history of a repository is cut off.
func boundary(dir string) string { return filepath.Join(dir, "shallow") }

// cut returns where the mirror's history is cut off, nil where it is whole.
func (m *mirror) cut() ([]byte, error) {
	b, err := os.ReadFile(boundary(m.dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, nod.E(nod.Internal, "read where history is cut off", err)
	}
	return b, nil
}

// meeting is mergeBase, with as much more history as it takes: twice as much each
// time, and all of it when that is much or does not help.
func (m *mirror) meeting(ctx context.Context, t nod.Task, onto, head string) (string, error) {
	for more := max(m.g.depth, 1); ; more *= 2 {
		shared, err := m.mergeBase(ctx, onto, head)
		if err != nil || shared != "" {
			return shared, err
		}
		before, err := m.cut()
		if err != nil || before == nil {
			return "", err
		}
		if more <= m.g.limits.Commits {
			if err := m.deepen(ctx, t, "--deepen="+strconv.Itoa(more)); err != nil {
				return "", err
			}
			if after, err := m.cut(); err != nil || !bytes.Equal(before, after) {
				if err != nil {
					return "", err
				}
				continue
			}
		}
		if err := m.deepen(ctx, t, "--unshallow"); err != nil {
			return "", err
		}
		return m.mergeBase(ctx, onto, head)
	}
}

// deepen fetches more commits of history behind the target branch.
func (m *mirror) deepen(ctx context.Context, t nod.Task, how string) error {
	return m.online(ctx, t, false, func(r *remote) error {
		_, err := m.git(ctx, call{remote: r}, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-maintenance",
			"--no-show-forced-updates", "--refmap=", how, "--", r.url, "+refs/heads/"+t.BaseRef+":"+branchRef(t.BaseRef))
		return err
	})
}
