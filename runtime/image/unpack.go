package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"nod"
)

const (
	whiteout   = ".wh."
	opaque     = ".wh..wh..opq"
	maxHops    = 40   // links on the way to one file
	maxNameLen = 4096 // of a path, as the kernel takes it
)

// unpacker lays layers over each other in one directory. Nothing else writes
// there while it works.
type unpacker struct {
	ctx        context.Context
	root       *os.Root // the kernel refuses what would leave it, whatever is decided here
	maxBytes   int64
	maxEntries int
	bytes      int64
	entries    int
	written    map[string]bool   // by this layer, and the directories above
	resolved   map[string]string // directory → where links lead it, while no link changes
}

func newUnpacker(ctx context.Context, dir string, maxBytes int64, maxEntries int) (*unpacker, error) {
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o755)); err != nil {
		return nil, nod.E(nod.Internal, "no directory for the image", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nod.E(nod.Internal, "no directory for the image", err)
	}
	return &unpacker{ctx: ctx, root: root, maxBytes: maxBytes, maxEntries: maxEntries, resolved: map[string]string{}}, nil
}

func (u *unpacker) close() error { return u.root.Close() }

// layer lays one tar over what is there. It reads r to its end.
func (u *unpacker) layer(r io.Reader) error {
	u.written = map[string]bool{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = u.ctx.Err()
		}
		if err != nil {
			return nod.E(nod.Invalid, "a layer of the image cannot be read", err)
		}
		if err := u.entry(h, tr); err != nil {
			var e *nod.Error
			if errors.As(err, &e) {
				return err
			}
			return nod.E(nod.Invalid, fmt.Sprintf("the image's %.200q cannot be unpacked", h.Name), err)
		}
	}
	// Padding counts for the digest, and like everything else against the limit.
	n, err := io.Copy(io.Discard, io.LimitReader(r, u.maxBytes-u.bytes+1))
	if err != nil {
		return nod.E(nod.Invalid, "a layer of the image cannot be read", err)
	}
	return u.room(n, 0)
}

func (u *unpacker) room(bytes int64, entries int) error {
	if bytes > u.maxBytes-u.bytes {
		return nod.E(nod.TooLarge, fmt.Sprintf("the image's files are more than %d bytes", u.maxBytes), nil)
	}
	if u.entries+entries > u.maxEntries {
		return nod.E(nod.TooLarge, fmt.Sprintf("the image has more than %d files", u.maxEntries), nil)
	}
	u.bytes += bytes
	u.entries += entries
	return nil
}

func forbidden(name, what string) error {
	return nod.E(nod.Forbidden, fmt.Sprintf("the image's %.200q %s", name, what), nil)
}

// clean refuses a name that could mean something outside.
func clean(name string) (string, error) {
	switch {
	case strings.HasPrefix(name, "/"):
		return "", forbidden(name, "is an absolute path")
	case strings.ContainsRune(name, 0), len(name) > maxNameLen:
		return "", forbidden(name, "is no path")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", forbidden(name, "leads out of the image")
		}
	}
	return path.Clean(name), nil
}

func (u *unpacker) entry(h *tar.Header, r io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := clean(h.Name)
	if err != nil {
		return err
	}
	if name == "." {
		if h.Typeflag != tar.TypeDir {
			return forbidden(h.Name, "would take the root's place")
		}
		return u.root.Chmod(".", directoryMode(h))
	}
	switch h.Typeflag {
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		// An environment has its own of these; what is there is never seen.
		if below(name, "dev") || below(name, "run") {
			return nil
		}
		return forbidden(h.Name, "is a device or a pipe")
	}
	dir, err := u.resolve(path.Dir(name))
	if err != nil {
		return err
	}
	base := path.Base(name)
	if hidden, ok := strings.CutPrefix(base, whiteout); ok {
		return u.hide(h.Name, dir, base, hidden)
	}
	at := path.Join(dir, base)
	if err := u.room(0, 1); err != nil {
		return err
	}
	if err := u.make(h, r, at); err != nil {
		return err
	}
	for p := at; p != "." && !u.written[p]; p = path.Dir(p) {
		u.written[p] = true
	}
	return nil
}

func below(name, dir string) bool { return strings.HasPrefix(name, dir+"/") }

func directoryMode(h *tar.Header) fs.FileMode {
	mode := h.FileInfo().Mode()
	// The owner must be able to remove it again.
	return mode.Perm() | mode&fs.ModeSticky | 0o700
}

// hide does what a whiteout says about a lower layer.
func (u *unpacker) hide(name, dir, base, hidden string) error {
	switch {
	case base == opaque:
		return u.empty(dir)
	case strings.HasPrefix(hidden, whiteout):
		return nil // another of the old union file system's own
	case hidden == "" || hidden == "." || hidden == "..":
		return forbidden(name, "hides nothing")
	}
	return u.remove(path.Join(dir, hidden))
}

// empty removes what lower layers have in dir, and nothing of this one.
func (u *unpacker) empty(dir string) error {
	f, err := u.root.Open(dir)
	if err != nil {
		return err
	}
	list, err := f.ReadDir(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	for _, e := range list {
		p := path.Join(dir, e.Name())
		switch {
		case !u.written[p]:
			err = u.remove(p)
		case e.IsDir():
			err = u.empty(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) remove(p string) error {
	clear(u.resolved)
	return u.root.RemoveAll(p)
}

// make makes one file, directory or link at the resolved place at.
func (u *unpacker) make(h *tar.Header, r io.Reader, at string) error {
	old, err := u.root.Lstat(at)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	there := err == nil
	if there && (h.Typeflag != tar.TypeDir || !old.IsDir()) {
		if h.Typeflag == tar.TypeLink {
			if to, err := u.linked(h); err != nil || to == at {
				return err // a link to itself changes nothing
			}
		}
		if err := u.remove(at); err != nil {
			return err
		}
		there = false
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if !there {
			if err := u.root.Mkdir(at, 0o700); err != nil {
				return err
			}
		}
		return u.root.Chmod(at, directoryMode(h))
	case tar.TypeReg, tar.TypeGNUSparse, tar.TypeCont:
		return u.file(h, r, at)
	case tar.TypeSymlink:
		if err := inside(at, h.Linkname); err != nil {
			return err
		}
		clear(u.resolved)
		return u.root.Symlink(h.Linkname, at)
	case tar.TypeLink:
		to, err := u.linked(h)
		if err != nil {
			return err
		}
		return u.root.Link(to, at)
	}
	return forbidden(h.Name, fmt.Sprintf("has the unknown type %q", h.Typeflag))
}

// file writes a file. Only the nine permission bits are taken: no set-id bit, and
// no capability of an extended attribute.
func (u *unpacker) file(h *tar.Header, r io.Reader, at string) error {
	if err := u.room(h.Size, 0); err != nil {
		return err
	}
	f, err := u.root.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Chmod(h.FileInfo().Mode().Perm()), f.Close()); err != nil {
		return err
	}
	if h.ModTime.IsZero() {
		return nil
	}
	return u.root.Chtimes(at, h.ModTime, h.ModTime) // interpreters compare it with their caches
}

// inside refuses a symbolic link that names something above the root. An absolute
// target means the image's own root, in the environment as here.
func inside(at, target string) error {
	if target == "" || strings.ContainsRune(target, 0) || len(target) > maxNameLen {
		return forbidden(at, "is a link to nothing")
	}
	depth := strings.Count(at, "/")
	if strings.HasPrefix(target, "/") {
		depth = 0
	}
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return forbidden(at, "is a link out of the image")
			}
		default:
			depth++
		}
	}
	return nil
}

// linked returns the file that a hard link names: one that is in the image.
func (u *unpacker) linked(h *tar.Header) (string, error) {
	name, err := clean(h.Linkname)
	if err != nil || name == "." {
		return "", errors.Join(err, forbidden(h.Name, "is a hard link out of the image"))
	}
	dir, err := u.resolve(path.Dir(name))
	if err != nil {
		return "", err
	}
	to := path.Join(dir, path.Base(name))
	info, err := u.root.Lstat(to)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0 {
		return "", forbidden(h.Name, "is a hard link to something that is no file")
	}
	return to, nil
}

// resolve returns where the directory p is, links followed as a process would
// whose root this is. What is missing is made.
func (u *unpacker) resolve(p string) (string, error) {
	if to, ok := u.resolved[p]; ok {
		return to, nil
	}
	at, hops := ".", 0
	for parts := strings.Split(p, "/"); len(parts) > 0; {
		part := parts[0]
		parts = parts[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, part)
		info, err := u.root.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := u.room(0, 1); err != nil {
				return "", err
			}
			if err := errors.Join(u.root.Mkdir(next, 0o755), u.root.Chmod(next, 0o755)); err != nil {
				return "", err
			}
			u.written[next] = true
		case err != nil:
			return "", err
		case info.Mode()&fs.ModeSymlink != 0:
			if hops++; hops > maxHops {
				return "", forbidden(p, "has too many links on its way")
			}
			to, err := u.root.Readlink(next)
			if err != nil {
				return "", err
			}
			if path.IsAbs(to) {
				at = "."
			}
			parts = append(strings.Split(to, "/"), parts...)
			continue
		case !info.IsDir():
			return "", forbidden(p, "leads through something that is no directory")
		}
		at = next
	}
	u.resolved[p] = at
	return at, nil
}
