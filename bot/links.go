package bot

import (
	"os"
	"path"
	"path/filepath"
	"strings"

	"nod/policy"
)

const (
	inside    = "/workspace" // where an environment has its workspace
	linksMost = 40           // followed for one path, as Linux does
)

// links follows the links on the paths that a file tool names, by looking at the
// workspace from outside. Nothing in it is opened. It is what they lead to now: a
// process in the environment may change that, and stays inside all the same.
func links(workspace string, paths []string) policy.Links {
	out := policy.Links{}
	if len(paths) == 0 {
		return out
	}
	root, err := os.OpenRoot(workspace)
	if err != nil {
		for _, p := range paths {
			out[p] = "" // nothing is known, so nothing goes on by itself
		}
		return out
	}
	defer func() { _ = root.Close() }() // only read from
	for _, p := range paths {
		out[p] = follow(root, p)
	}
	return out
}

// follow returns the path in the environment that p leads to: the first one outside
// the workspace, or the last one; nothing when the links do not end.
func follow(root *os.Root, p string) string {
	rest, ok := below(p)
	if !ok {
		return p
	}
	at := "." // in the workspace, without links
	for hops := 0; len(rest) > 0; {
		next := path.Join(at, rest[0])
		rest = rest[1:]
		target, err := root.Readlink(filepath.FromSlash(next))
		if err != nil { // no link, or nothing is there
			at = next
			continue
		}
		if hops++; hops > linksMost {
			return ""
		}
		if !path.IsAbs(target) {
			target = path.Join(inside, path.Dir(next), target)
		}
		more, ok := below(path.Clean(target))
		if !ok {
			return path.Join(append([]string{target}, rest...)...)
		}
		at, rest = ".", append(more, rest...)
	}
	return path.Join(inside, at)
}

// below are the steps from the workspace to p; false when p is outside.
func below(p string) ([]string, bool) {
	if p == inside {
		return nil, true
	}
	rest, ok := strings.CutPrefix(p, inside+"/")
	if !ok {
		return nil, false
	}
	return strings.Split(rest, "/"), true
}
