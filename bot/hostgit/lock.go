package hostgit

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"nod"
)

// mirror is one repository's bare mirror, held by one operation.
type mirror struct {
	g     *Git
	dir   string // the bare repository
	tmp   string // emptied whenever the lock is taken
	lock  *os.File
	leave func()
}

// open takes the one lock of a repository and returns its mirror, made when it is
// not there yet. Every git process inherits the lock, so it stays taken while a
// process of a supervisor that was killed still lives; once it is ours, nobody
// works in the mirror and what git left locked is stale.
func (g *Git) open(ctx context.Context, r nod.Repo) (*mirror, error) {
	if r.Host == "" || r.Owner == "" || r.Name == "" {
		return nil, nod.E(nod.Invalid, "the task names no repository", nil)
	}
	base := filepath.Join(g.dir, "mirrors", nod.Digest([]byte(r.Key()))[:32])
	leave, err := g.turn(ctx, base)
	if err != nil {
		return nil, err
	}
	m := &mirror{g: g, dir: base + ".git", tmp: base + ".tmp", leave: leave}
	if err := m.take(ctx, base+".lock"); err != nil {
		leave()
		return nil, err
	}
	if err := m.ready(ctx); err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

// turn waits for this process's turn on key.
func (g *Git) turn(ctx context.Context, key string) (func(), error) {
	g.mu.Lock()
	ch := g.turns[key]
	if ch == nil {
		ch = make(chan struct{}, 1)
		g.turns[key] = ch
	}
	g.mu.Unlock()
	select {
	case ch <- struct{}{}:
		return func() { <-ch }, nil
	case <-ctx.Done():
		return nil, nod.E(nod.Unavailable, "the repository's mirror is busy", ctx.Err())
	}
}

func (m *mirror) take(ctx context.Context, path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nod.E(nod.Internal, "open the mirror's lock", err)
	}
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			m.lock = f
			return nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return errors.Join(nod.E(nod.Internal, "lock the mirror", err), f.Close())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(nod.E(nod.Unavailable, "another process holds the repository's mirror", ctx.Err()), f.Close())
		}
	}
}

// close gives the lock back. Unlocking is for every process that shares it, all of
// which have been waited for.
func (m *mirror) close() {
	if err := errors.Join(os.RemoveAll(m.tmp), syscall.Flock(int(m.lock.Fd()), syscall.LOCK_UN), m.lock.Close()); err != nil {
		m.g.log.Error("mirror not left clean", "err", err)
	}
	m.leave()
}

// ready clears what a dead process left and makes the repository if needed.
func (m *mirror) ready(ctx context.Context) error {
	if err := os.RemoveAll(m.tmp); err != nil {
		return nod.E(nod.Internal, "clear the mirror's temporary directory", err)
	}
	if err := os.Mkdir(m.tmp, 0o700); err != nil {
		return nod.E(nod.Internal, "make the mirror's temporary directory", err)
	}
	if _, err := os.Stat(filepath.Join(m.dir, "HEAD")); err == nil {
		return m.clearLocks()
	}
	// Made beside and moved into place: a half-made mirror never looks whole.
	made := filepath.Join(m.tmp, "new.git")
	c := call{lock: m.lock}
	if _, err := m.g.run(ctx, c, "init", "--quiet", "--bare", "--template=", "--object-format=sha1", "--initial-branch=none", "--", made); err != nil {
		return err
	}
	if err := errors.Join(os.RemoveAll(m.dir), os.Rename(made, m.dir)); err != nil {
		return nod.E(nod.Internal, "put the new mirror in place", err)
	}
	return nil
}

// clearLocks removes lock files and half-written packs. No ref can be named like
// them: git forbids names that end in .lock.
func (m *mirror) clearLocks() error {
	err := filepath.WalkDir(m.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if len(name) == 2 && filepath.Base(filepath.Dir(path)) == "objects" {
				return fs.SkipDir
			}
			return nil
		}
		stale := strings.HasSuffix(name, ".lock") || strings.HasPrefix(name, "tmp_") || strings.HasPrefix(name, ".tmp-")
		if !stale {
			return nil
		}
		m.g.log.Warn("stale git lock removed", "file", name)
		return os.Remove(path)
	})
	if err != nil {
		return nod.E(nod.Internal, "clear stale git locks", err)
	}
	return nil
}

// git runs one git process in the mirror.
func (m *mirror) git(ctx context.Context, c call, args ...string) ([]byte, error) {
	return m.g.run(ctx, m.in(c), args...)
}

func (m *mirror) in(c call) call {
	c.repo, c.lock = m.dir, m.lock
	return c
}
