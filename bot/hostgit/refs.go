package hostgit

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"nod"
)

var (
	taskID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	hexID  = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// branchPrefix is the only place under refs/heads that is ever written to.
const branchPrefix = "nod/"

// maxBranches is how many names are remembered as good ones; beyond it all are forgotten.
const maxBranches = 1000

// checkBranch asks git itself, once, whether name can be a branch.
func (g *Git) checkBranch(ctx context.Context, name string) error {
	bad := func(err error) error {
		return nod.E(nod.Invalid, "the name "+quoted(name)+" cannot be a git branch", err)
	}
	if name == "" || len(name) > 240 || name[0] == '-' || name == "HEAD" || strings.ContainsRune(name, 0) {
		return bad(nil)
	}
	g.mu.Lock()
	known := g.branches[name]
	g.mu.Unlock()
	if known {
		return nil
	}
	if _, err := g.run(ctx, call{}, "check-ref-format", "refs/heads/"+name); err != nil {
		if exitCode(err) == 1 {
			return bad(err)
		}
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.branches) >= maxBranches {
		clear(g.branches)
	}
	g.branches[name] = true
	return nil
}

// checkTask makes sure that a task can be part of ref names.
func checkTask(t nod.Task) error {
	if !taskID.MatchString(t.ID) {
		return nod.E(nod.Invalid, "the task's id cannot be part of a ref name", nil)
	}
	return nil
}

func checkSHA(sha string) error {
	if !hexID.MatchString(sha) {
		return nod.E(nod.Invalid, "a commit is named by its 40 hex digits", nil)
	}
	return nil
}

// taskRefs is where everything of one task is kept in the mirror.
func taskRefs(t nod.Task) string { return "refs/nod/" + t.ID + "/" }

// branchRefs holds branches as they were last fetched. Their names are hashed, so
// that neither a/b after a nor A beside a can collide here.
const branchRefs = "refs/nod-branch/"

func branchRef(name string) string { return branchRefs + nod.Digest([]byte(name))[:40] }

// known reports whether sha is a commit that is reachable from what t may build
// on: the branches, and what was taken from it before.
func (m *mirror) known(ctx context.Context, t nod.Task, sha string) (bool, error) {
	return m.reached(ctx, sha, branchRefs, taskRefs(t))
}

// reached reports whether sha is a commit that a ref under one of refs reaches. One that
// is not there at all is an error to git.
func (m *mirror) reached(ctx context.Context, sha string, refs ...string) (bool, error) {
	out, err := m.git(ctx, call{}, append([]string{"for-each-ref", "--count=1", "--format=%(objectname)", "--contains=" + sha}, refs...)...)
	if exitCode(err) > 0 {
		return false, nil
	}
	return len(out) > 0, err
}

// tips lists the commits that known starts from, and which of them the task began at,
// "" where it was never seeded.
func (m *mirror) tips(ctx context.Context, t nod.Task) (tips []string, base string, err error) {
	at, err := m.refs(ctx, branchRefs, taskRefs(t))
	return slices.Collect(maps.Values(at)), at[taskRefs(t)+"base"], err
}

// refs returns what each ref among names, or under one that ends in a slash, points at.
func (m *mirror) refs(ctx context.Context, names ...string) (map[string]string, error) {
	out, err := m.git(ctx, call{}, append([]string{"for-each-ref", "--format=%(refname) %(objectname)"}, names...)...)
	at := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if name, sha, ok := strings.Cut(strings.TrimRight(line, "\n"), " "); ok {
			at[name] = sha
		}
	}
	return at, err
}

// resolve returns the commit that ref points at, or "".
func (m *mirror) resolve(ctx context.Context, ref string) (string, error) {
	at, err := m.refs(ctx, ref)
	return at[ref], err
}

func (m *mirror) setRef(ctx context.Context, ref, sha string) error {
	_, err := m.git(ctx, call{}, "update-ref", "--no-deref", "--", ref, sha)
	return err
}

// ancestor reports whether a is an ancestor of b or b itself.
func (m *mirror) ancestor(ctx context.Context, a, b string) (bool, error) {
	_, err := m.git(ctx, call{}, "merge-base", "--is-ancestor", a, b)
	if exitCode(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// quoted shows an untrusted name: as it is when it is plain, escaped otherwise.
func quoted(s string) string {
	if len(s) > 200 {
		s = s[:200] + "…"
	}
	return strconv.Quote(s)
}
