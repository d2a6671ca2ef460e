package hostgit

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"nod"
)

// Import checks a bundle as a whole and takes its one ref as the head of t, which it
// returns. Nothing of a refused bundle stays: Invalid names what is wrong with it,
// TooLarge which limit it is over.
//
// The order matters. The stream is capped while it is written; header and pack are
// scanned before git sees them; git unpacks with object checks into a quarantine;
// trees are counted there; then its pack moves to the mirror.
func (g *Git) Import(ctx context.Context, t nod.Task, bundle io.Reader) (string, error) {
	ctx, cancel := g.deadline(ctx)
	defer cancel()
	if err := checkTask(t); err != nil {
		return "", err
	}
	f, size, err := g.receive(bundle)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // it has no name any more: closing removes it
	r := bufio.NewReaderSize(f, 64<<10)
	h, err := readHeader(r)
	if err != nil {
		return "", err
	}
	pos, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return "", nod.E(nod.Internal, "read the bundle", err)
	}
	start := pos - int64(r.Buffered())
	if err := scanPack(ctx, r, size, g.limits); err != nil {
		return "", err
	}
	if _, err := f.Seek(start, io.SeekStart); err != nil {
		return "", nod.E(nod.Internal, "read the bundle", err)
	}
	m, err := g.open(ctx, t.Repo)
	if err != nil {
		return "", err
	}
	defer m.close()
	return h.head, m.keep(ctx, t, h, f)
}

// receive writes the stream to a file without a name, up to the limit.
func (g *Git) receive(bundle io.Reader) (f *os.File, size int64, err error) {
	f, err = os.CreateTemp(g.dir, "bundle-*")
	if err != nil {
		return nil, 0, nod.E(nod.Internal, "make a file for the bundle", err)
	}
	err = os.Remove(f.Name())
	if err == nil {
		size, err = io.Copy(f, io.LimitReader(bundle, g.limits.BundleBytes+1))
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	switch {
	case err != nil:
		err = nod.E(nod.Unavailable, "the bundle did not arrive whole", err)
	case size > g.limits.BundleBytes:
		err = tooBig("it is larger than " + strconv.FormatInt(g.limits.BundleBytes>>20, 10) + " MiB")
	default:
		return f, size, nil
	}
	return nil, 0, errors.Join(err, f.Close())
}

// keep unpacks a scanned bundle in a quarantine, checks it and keeps its head.
func (m *mirror) keep(ctx context.Context, t nod.Task, h header, pack io.Reader) error {
	tips, base, err := m.tips(ctx, t)
	if err != nil {
		return err
	}
	for _, sha := range h.prerequisites {
		ok := slices.Contains(tips, sha)
		if !ok {
			if ok, err = m.known(ctx, t, sha); err != nil {
				return err
			}
		}
		if !ok {
			return refuse("it builds on the commit "+sha[:12]+", which the supervisor does not have", nil)
		}
	}
	q, err := m.quarantine()
	if err != nil {
		return err
	}
	if _, err := m.git(ctx, call{objects: q, stdin: pack}, "index-pack", "--stdin", "--fix-thin", "--strict"); err != nil {
		var ge *gitError
		if errors.As(err, &ge) && strings.Contains(ge.stderr, "unresolved delta") {
			return refuse("it is thin, and builds on objects that the supervisor does not have", err)
		}
		if exitCode(err) > 0 {
			return refuse("git finds its objects broken or incomplete", err)
		}
		return err
	}
	o, err := m.objects(ctx, q, m.g.limits.BlobBytes)
	if err != nil {
		return err
	}
	defer o.close()
	if err := m.inspect(ctx, o, q, h.head, tips); err != nil {
		return err
	}
	if _, err := m.git(ctx, call{objects: q, stdin: revs([]string{h.head}, tips)}, "rev-list", "--objects", "--quiet", "--stdin"); err != nil {
		if exitCode(err) > 0 {
			return refuse("objects are missing from it", err)
		}
		return err
	}
	if err := m.continues(ctx, base, q, h.head); err != nil {
		return err
	}
	if err := m.migrate(q); err != nil {
		return err
	}
	return m.setRef(ctx, taskRefs(t)+"head", h.head)
}

// continues refuses a head that does not build on the commit which the workspace was
// seeded with: its history was rewritten.
func (m *mirror) continues(ctx context.Context, base, q, head string) error {
	if base == "" { // never seeded: what it may build on was checked above
		return nil
	}
	_, err := m.git(ctx, call{objects: q}, "merge-base", "--is-ancestor", base, head)
	if exitCode(err) == 1 {
		return refuse("it rewrites history: it does not build on the commit "+base[:12]+", at which the work began", nil)
	}
	return err
}

// quarantine makes an object directory beside the mirror's own.
func (m *mirror) quarantine() (string, error) {
	q := filepath.Join(m.tmp, "objects")
	if err := os.MkdirAll(filepath.Join(q, "pack"), 0o700); err != nil {
		return "", nod.E(nod.Internal, "make a quarantine for objects", err)
	}
	return q, nil
}

// revs is rev-list's standard input: what to reach and what not.
func revs(tips, except []string) io.Reader {
	var b strings.Builder
	for _, s := range tips {
		b.WriteString(s + "\n")
	}
	for _, s := range except {
		b.WriteString("^" + s + "\n")
	}
	return strings.NewReader(b.String())
}

// inspect counts the new commits and their trees and judges what they add.
func (m *mirror) inspect(ctx context.Context, o *objects, q, head string, tips []string) error {
	l := m.g.limits
	if _, err := o.read("commit", parseOID(head)); err != nil {
		return err
	}
	out, err := m.git(ctx, call{objects: q, stdin: revs([]string{head}, tips)},
		"rev-list", "--topo-order", "--max-count="+strconv.Itoa(l.Commits+1), "--stdin")
	if err != nil {
		if exitCode(err) > 0 {
			return refuse("commits are missing from it", err)
		}
		return err
	}
	ids := strings.Fields(string(out))
	if len(ids) > l.Commits {
		return tooBig("it brings more than " + strconv.Itoa(l.Commits) + " commits")
	}
	w := newWalker(o, l)
	for _, id := range ids {
		if err := w.commit(id); err != nil {
			return err
		}
	}
	return nil
}

// commit measures the tree of one commit and judges what it adds to its first parent.
func (w *walker) commit(id string) error {
	c, err := w.o.commit(id)
	if err != nil {
		return err
	}
	if _, err := w.measure(parseOID(c.tree)); err != nil {
		return err
	}
	var old *oid
	if len(c.parents) > 0 {
		p, err := w.o.commit(c.parents[0])
		if err != nil {
			return err
		}
		id := parseOID(p.tree)
		old = &id
	}
	return w.added(old, parseOID(c.tree), "", 0)
}

// migrate moves the one pack of a quarantine to the mirror, its index last: only then
// is it a pack. Its objects were checked when it was indexed.
func (m *mirror) migrate(q string) error {
	for _, kind := range []string{"pack", "rev", "idx"} {
		names, err := filepath.Glob(filepath.Join(q, "pack", "pack-*."+kind))
		for _, from := range names {
			err = errors.Join(err, os.Rename(from, filepath.Join(m.dir, "objects", "pack", filepath.Base(from))))
		}
		if err != nil {
			return nod.E(nod.Internal, "take the work into the mirror", err)
		}
	}
	return nil
}

// promote copies what tips reach beyond except from the quarantine to the mirror. Git
// checks every object once more on the way.
func (m *mirror) promote(ctx context.Context, q string, tips, except []string) error {
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		_, err := m.git(ctx, call{objects: q, stdin: revs(tips, except), stdout: w}, "pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset")
		_ = w.CloseWithError(err) // always nil
		packed <- err
	}()
	_, err := m.git(ctx, call{stdin: r}, "index-pack", "--stdin", "--strict")
	_ = r.Close() // always nil; wakes a writer that nobody reads any more
	if perr := <-packed; perr != nil {
		return errors.Join(perr, err)
	}
	return err
}
