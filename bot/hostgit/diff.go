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

func (m *mirror) diffTree(ctx context.Context, q string, limit int64, format, base, head string, extra ...string) ([]byte, error) {
	args := append(append(diffTree[:len(diffTree):len(diffTree)], extra...), format, base, head, "--")
	return m.git(ctx, call{objects: q, limit: limit}, args...)
}

// files lists every path that differs, with modes and line counts.
func (m *mirror) files(ctx context.Context, q, base, head string) ([]nod.FileChange, error) {
	raw, err := m.diffTree(ctx, q, 0, "--raw", base, head)
	if err != nil {
		return nil, err
	}
	files, err := parseRaw(string(raw))
	if err != nil {
		return nil, err
	}
	stat, err := m.diffTree(ctx, q, 0, "--numstat", base, head)
	if err != nil {
		return nil, err
	}
	return files, addCounts(files, string(stat))
}

var errDiffTree = errors.New("unexpected git diff-tree output")

// parseRaw reads ":100644 100755 <old> <new> M" NUL path NUL …
func parseRaw(out string) ([]nod.FileChange, error) {
	var files []nod.FileChange
	f := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	if out == "" {
		return nil, nil
	}
	if len(f)%2 != 0 {
		return nil, nod.E(nod.Internal, "list changed files", errDiffTree)
	}
	for i := 0; i < len(f); i += 2 {
		meta := strings.Fields(strings.TrimPrefix(f[i], ":"))
		if len(meta) != 5 || f[i+1] == "" {
			return nil, nod.E(nod.Internal, "list changed files", errDiffTree)
		}
		files = append(files, nod.FileChange{Path: f[i+1], Status: meta[4], OldMode: meta[0], NewMode: meta[1]})
	}
	return files, nil
}

// addCounts reads "<added> TAB <deleted> TAB path" NUL …, in the order of files.
func addCounts(files []nod.FileChange, out string) error {
	lines := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	if out == "" {
		lines = nil
	}
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
