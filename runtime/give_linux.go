package runtime

import (
	"errors"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"

	"nod"
)

const maxTreeEntries = 2_000_000

// GiveTree makes uid the owner of a fresh tree. Links are never followed; a tree
// with another mount, a device, or a hard link that leads out of it is refused
// before anything is changed. also, when not nil, is called with each directory and
// regular file, open for reading.
func GiveTree(src Source, uid int, also func(fd int) error) error {
	fd, err := unix.Open(src.Path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nod.E(nod.Invalid, "a source directory cannot be opened", err)
	}
	root := os.NewFile(uintptr(fd), src.Path)
	defer root.Close()
	info, err := root.Stat()
	if err != nil || !os.SameFile(info, src.Info) {
		return nod.E(nod.Forbidden, "another directory took a source's place", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nod.E(nod.Internal, "a source directory has no identity", nil)
	}
	links := map[uint64]uint64{} // inode → names still to be found
	w := walker{dev: st.Dev, visit: func(_ int, _ string, s *unix.Stat_t) error {
		switch s.Mode & unix.S_IFMT {
		case unix.S_IFDIR, unix.S_IFLNK, unix.S_IFREG, unix.S_IFSOCK, unix.S_IFIFO:
		default:
			return nod.E(nod.Forbidden, "a source directory holds a device", nil)
		}
		if s.Mode&unix.S_IFMT != unix.S_IFDIR && s.Nlink > 1 {
			if _, seen := links[s.Ino]; !seen {
				links[s.Ino] = uint64(s.Nlink)
			}
			links[s.Ino]--
		}
		return nil
	}}
	if err := w.walk(fd); err != nil {
		return err
	}
	for _, left := range links {
		if left > 0 {
			return &nod.Error{Code: nod.Forbidden, Msg: "a source directory shares a file with another place by a hard link", Hint: "clone with --no-hardlinks"}
		}
	}
	w = walker{dev: st.Dev, visit: func(at int, name string, s *unix.Stat_t) error {
		if err := unix.Fchownat(at, name, uid, uid, unix.AT_SYMLINK_NOFOLLOW); err != nil || also == nil {
			return err
		}
		if kind := s.Mode & unix.S_IFMT; kind != unix.S_IFDIR && kind != unix.S_IFREG {
			return nil
		}
		file, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return errors.Join(also(file), unix.Close(file))
	}}
	if err := w.walk(fd); err != nil {
		return err
	}
	if also != nil {
		if err := also(fd); err != nil {
			return nod.E(nod.Internal, "a source directory cannot be given to the environment's user", err)
		}
	}
	if err := unix.Fchown(fd, uid, uid); err != nil {
		return nod.E(nod.Internal, "a source directory cannot be given to the environment's user", err)
	}
	return nil
}

// walker visits everything below a directory, each entry before its content.
type walker struct {
	dev   uint64
	count int
	visit func(at int, name string, st *unix.Stat_t) error
}

func (w *walker) walk(fd int) error {
	dup, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nod.E(nod.Internal, "a source directory cannot be read", err)
	}
	dir := os.NewFile(uintptr(dup), ".")
	names, err := dir.Readdirnames(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return nod.E(nod.Internal, "a source directory cannot be read", err)
	}
	for _, name := range names {
		if w.count++; w.count > maxTreeEntries {
			return nod.E(nod.TooLarge, "a source directory has more than 2,000,000 entries", nil)
		}
		var st unix.Stat_t
		if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return nod.E(nod.Internal, "a source directory changed while it was read", err)
		}
		if uint64(st.Dev) != w.dev {
			return nod.E(nod.Forbidden, "a source directory holds another mount", nil)
		}
		if err := w.visit(fd, name, &st); err != nil {
			var e *nod.Error
			if errors.As(err, &e) {
				return err
			}
			return nod.E(nod.Internal, "a source directory cannot be given to the environment's user", err)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			continue
		}
		sub, err := unix.Openat(fd, path.Base(name), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nod.E(nod.Internal, "a source directory cannot be read", err)
		}
		err = w.walk(sub)
		if err = errors.Join(err, unix.Close(sub)); err != nil {
			return err
		}
	}
	return nil
}
