package runtime

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"nod"
)

// Never handed in, nor anything below them.
var systemTrees = []string{
	"/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr", "/var/run",
	"/System", "/Library", "/private/etc", "/private/var/run",
}

// Never handed in as a whole; what lies below may be.
var systemRoots = []string{"/", "/home", "/media", "/mnt", "/opt", "/root", "/srv", "/tmp", "/var", "/var/lib", "/var/tmp", "/Users"}

// Below the home directory: what other programs keep their credentials in.
var credentialDirs = []string{
	".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".git-credentials",
	".config/gh", ".config/gcloud", ".password-store", "Library/Keychains",
}

type shape int

const (
	dirOnly shape = iota
	dirOrFile
)

// judge decides on mount sources by file identity.
type judge struct {
	allowed []fs.FileInfo
	trees   []fs.FileInfo // neither they, nor inside, nor a parent
	roots   []fs.FileInfo // neither they nor a parent
}

func newJudge(r Roots) (*judge, error) {
	j := &judge{}
	for _, a := range r.Allowed {
		if !filepath.IsAbs(a) {
			return nil, nod.E(nod.Invalid, "an allowed root must be an absolute path", nil)
		}
		info, err := os.Stat(a)
		if err != nil {
			return nil, nod.E(nod.Invalid, "an allowed root cannot be read", err)
		}
		j.allowed = append(j.allowed, info)
	}
	trees := append([]string(nil), systemTrees...)
	roots := append([]string(nil), systemRoots...)
	if home, err := os.UserHomeDir(); err == nil {
		roots = append(roots, home)
		for _, d := range credentialDirs {
			trees = append(trees, filepath.Join(home, d))
		}
	}
	for _, d := range r.Denied {
		if !filepath.IsAbs(d) {
			return nil, nod.E(nod.Invalid, "a denied path must be absolute", nil)
		}
	}
	trees = append(trees, r.Denied...)
	for _, set := range []struct {
		paths []string
		into  *[]fs.FileInfo
	}{{trees, &j.trees}, {roots, &j.roots}} {
		for _, p := range set.paths {
			info, err := os.Stat(p)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, nod.E(nod.Forbidden, "a denied path cannot be read, so nothing can be compared with it", err)
			}
			if err == nil {
				*set.into = append(*set.into, info)
			}
			// A parent of something denied would hand it in as well, also when it is
			// made only later.
			for errors.Is(err, fs.ErrNotExist) && p != filepath.Dir(p) {
				p = filepath.Dir(p)
				if info, err = os.Stat(p); err == nil {
					j.roots = append(j.roots, info)
				}
			}
			real, err := filepath.EvalSymlinks(p)
			if err != nil {
				return nil, nod.E(nod.Forbidden, "a denied path cannot be resolved", err)
			}
			for dir := filepath.Dir(real); ; dir = filepath.Dir(dir) {
				up, err := os.Stat(dir)
				if err != nil {
					return nil, nod.E(nod.Forbidden, "a denied path's parent cannot be read", err)
				}
				j.roots = append(j.roots, up)
				if dir == filepath.Dir(dir) {
					break
				}
			}
		}
	}
	return j, nil
}

// source resolves p and judges what it found.
func (j *judge) source(noun, p, target string, want shape) (Source, error) {
	if !filepath.IsAbs(p) {
		return Source{}, nod.E(nod.Invalid, "the "+noun+"'s source must be an absolute path", nil)
	}
	real, err := filepath.EvalSymlinks(p)
	if err != nil {
		return Source{}, nod.E(nod.Invalid, "the "+noun+"'s source cannot be resolved", err)
	}
	info, err := os.Lstat(real)
	if err != nil {
		return Source{}, nod.E(nod.Invalid, "the "+noun+"'s source cannot be read", err)
	}
	if !info.IsDir() && (want == dirOnly || !info.Mode().IsRegular()) {
		return Source{}, nod.E(nod.Forbidden, "the "+noun+"'s source is not a directory or is a special file", nil)
	}
	if is(info, j.roots) {
		return Source{}, nod.E(nod.Forbidden, "the "+noun+"'s source would hand the host to the agent", nil)
	}
	inside := false
	for dir, here := real, info; ; {
		if is(here, j.trees) {
			return Source{}, nod.E(nod.Forbidden, "the "+noun+"'s source lies in a denied place", nil)
		}
		inside = inside || is(here, j.allowed)
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
		if here, err = os.Lstat(dir); err != nil {
			return Source{}, nod.E(nod.Invalid, "the "+noun+"'s source cannot be read", err)
		}
	}
	if !inside {
		return Source{}, nod.E(nod.Forbidden, "the "+noun+"'s source is outside the allowed roots", nil)
	}
	return Source{Path: real, Target: target, Info: info}, nil
}

func is(info fs.FileInfo, set []fs.FileInfo) bool {
	for _, s := range set {
		if os.SameFile(info, s) {
			return true
		}
	}
	return false
}

const maxMountEntries = 200_000

// noSpecialFiles refuses a read-only tree that holds a socket, a pipe or a
// device: connecting to a daemon's socket needs no write permission on the mount.
func noSpecialFiles(root string) error {
	count := 0
	err := filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nod.E(nod.Forbidden, "a mount's source cannot be read as a whole", err)
		}
		if count++; count > maxMountEntries {
			return nod.E(nod.TooLarge, "a mount's source has more than 200,000 entries", nil)
		}
		if d.Type()&(fs.ModeSocket|fs.ModeNamedPipe|fs.ModeDevice|fs.ModeCharDevice|fs.ModeIrregular) != 0 {
			return nod.E(nod.Forbidden, "a mount's source holds a socket, a pipe or a device", nil)
		}
		return nil
	})
	return err
}
