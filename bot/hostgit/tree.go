package hostgit

import (
	"bytes"
	"encoding/hex"
	"path"
	"strings"
	"unicode/utf8"
)

// oid is an object's id.
type oid [20]byte

func (o oid) String() string { return hex.EncodeToString(o[:]) }

// parseOID takes 40 hex digits that were checked before; anything else is the zero
// id, which no object has.
func parseOID(s string) oid {
	var o oid
	if b, err := hex.DecodeString(s); err == nil && len(b) == len(o) {
		copy(o[:], b)
	}
	return o
}

const (
	modeFile = "100644"
	modeExec = "100755"
	modeLink = "120000"
	modeTree = "40000"
	modeSub  = "160000"
)

// entry is one line of a tree object.
type entry struct {
	mode, name string
	id         oid
}

// parseTree splits the contents of a tree object.
func parseTree(b []byte) ([]entry, error) {
	var entries []entry
	for len(b) > 0 {
		mode, rest, ok1 := bytes.Cut(b, []byte{' '})
		name, id, ok2 := bytes.Cut(rest, []byte{0})
		if !ok1 || !ok2 || len(id) < 20 {
			return nil, refuse("a tree is malformed", nil)
		}
		e := entry{mode: string(mode), name: string(name)}
		copy(e.id[:], id)
		entries = append(entries, e)
		b = id[20:]
	}
	return entries, nil
}

// badName says why a new entry may not be called name, or "".
func badName(name string) string {
	switch {
	case name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00"):
		return "is not a file name"
	case !utf8.ValidString(name):
		return "is not UTF-8"
	case dotGit(name):
		return "is a name that git keeps for itself"
	case len(name) > 255:
		return "is longer than file systems allow"
	}
	return ""
}

// dotGit reports whether some file system would take name for .git: case, the short
// name and trailing dots, spaces and streams of NTFS, the ignored code points of HFS+.
func dotGit(name string) bool {
	s := strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1
		}
		return r
	}, strings.ToLower(name))
	s, _, _ = strings.Cut(s, ":")
	s = strings.TrimRight(s, ". ")
	return s == ".git" || s == "git~1"
}

const outside = 1 << 20 // climbs out of any tree

// climb is how many directories above its own a symbolic link leads, by its text.
func climb(target string) (int, string) {
	if target == "" {
		return 0, "is a symbolic link to nothing"
	}
	if path.IsAbs(target) {
		return outside, ""
	}
	level, lowest := 0, 0
	for part := range strings.SplitSeq(target, "/") {
		switch {
		case part == ".." && level == lowest:
			level--
			lowest--
		case part == "..":
			level--
		case dotGit(part):
			return 0, "is a symbolic link into .git"
		case part != "" && part != ".":
			level++
		}
	}
	return -lowest, ""
}

// collision returns a name in entries that differs from one of fresh only in case.
func collision(entries []entry, fresh map[string]bool) string {
	if len(fresh) == 0 {
		return ""
	}
	seen := make(map[string]string, len(entries))
	for _, e := range entries {
		folded := strings.ToLower(e.name)
		other, ok := seen[folded]
		if ok && (fresh[e.name] || fresh[other]) {
			if fresh[e.name] {
				return e.name
			}
			return other
		}
		seen[folded] = e.name
	}
	return ""
}
