package hostgit

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"nod"
)

// diffTree is every diff that is made: nothing configured, nothing run, no renames
// guessed, names as they are.
var diffTree = []string{"diff-tree", "-r", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color", "--full-index", "--ignore-submodules=none"}

// files lists every path that differs, with modes and line counts.
func (m *mirror) files(ctx context.Context, q, base, head string) ([]nod.FileChange, error) {
	out, err := m.git(ctx, call{objects: q}, append(diffTree[:len(diffTree):len(diffTree)], "--raw", "--numstat", base, head, "--")...)
	if err != nil || len(out) == 0 {
		return nil, err
	}
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	files, counts, err := parseRaw(fields)
	if err != nil {
		return nil, err
	}
	return files, addCounts(files, counts)
}

var errDiffTree = errors.New("unexpected git diff-tree output")

// parseRaw reads ":100644 100755 <old> <new> M", path, … and returns what follows.
func parseRaw(f []string) (files []nod.FileChange, rest []string, err error) {
	for len(f) > 0 && strings.HasPrefix(f[0], ":") {
		meta := strings.Fields(strings.TrimPrefix(f[0], ":"))
		if len(meta) != 5 || len(f) < 2 || f[1] == "" {
			return nil, nil, nod.E(nod.Internal, "list changed files", errDiffTree)
		}
		files = append(files, nod.FileChange{Path: f[1], Status: meta[4], OldMode: meta[0], NewMode: meta[1]})
		f = f[2:]
	}
	return files, f, nil
}

// addCounts reads "<added> TAB <deleted> TAB path", …
func addCounts(files []nod.FileChange, lines []string) error {
	at := map[string]int{}
	for i, f := range files {
		at[f.Path] = i
	}
	for _, line := range lines {
		f := strings.SplitN(line, "\t", 3)
		if len(f) != 3 {
			return nod.E(nod.Internal, "count changed lines", errDiffTree)
		}
		i, ok := at[f[2]]
		if !ok {
			return nod.E(nod.Internal, "count changed lines", errDiffTree)
		}
		files[i].Added, files[i].Deleted = count(f[0]), count(f[1])
	}
	return nil
}

// count is a number of lines; git writes "-" for a binary file.
func count(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

// diff is the unified diff, whole or not at all.
func (m *mirror) diff(ctx context.Context, q, base, head string) ([]byte, error) {
	out, err := m.git(ctx, call{objects: q, limit: m.g.limits.DiffBytes}, "diff-tree", "-r", "-p", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color",
		"--full-index", "--ignore-submodules=none", "--unified=3", "--src-prefix=a/", "--dst-prefix=b/", base, head, "--")
	if nod.CodeOf(err) == nod.TooLarge {
		return nil, &nod.Error{Code: nod.TooLarge, Msg: "the diff is larger than " + strconv.FormatInt(m.g.limits.DiffBytes>>10, 10) + " KiB and could not be shown whole",
			Hint: "split the work into smaller changes"}
	}
	return out, err
}
