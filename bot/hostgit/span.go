package hostgit

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"nod"
)

// span is which commits are prepared and on top of what.
type span struct {
	onto  string // the commit that the series will follow
	after string // the last commit of the head that is published already, or ""
}

// span fetches what s builds on and finds where its new commits begin.
func (m *mirror) span(ctx context.Context, s nod.PrepareSpec) (span, error) {
	branch := s.Task.Branch
	got, err := m.fetch(ctx, s.Task, []string{s.BaseRef}, []string{branch})
	if err != nil {
		return span{}, err
	}
	base, published := got[s.BaseRef], got[branch]
	ok, err := m.reached(ctx, s.Head, taskRefs(s.Task))
	if err != nil {
		return span{}, err
	}
	if !ok {
		return span{}, nod.E(nod.NotFound, "the commit was not imported for this task", nil)
	}
	if published == "" {
		return span{onto: base}, nil
	}
	// The branch is on GitHub. What the head shares with it is found by what was
	// prepared from which head (it may have been recreated there under other ids,
	// with the same trees), else by the commits themselves.
	after, ours, err := m.source(ctx, s, base, published)
	if err != nil {
		return span{}, err
	}
	if after == "" && ours {
		return span{}, &nod.Error{Code: nod.Invalid, Msg: "the work rewrites commits that are on GitHub already",
			Hint: "keep the commits that were published and add new ones on top"}
	}
	if after != "" || s.BaseRef == branch {
		return span{onto: published, after: after}, nil
	}
	shared, err := m.mergeBase(ctx, published, s.Head)
	if err != nil {
		return span{}, err
	}
	if shared != "" {
		inBase, err := m.ancestor(ctx, shared, base)
		if err != nil {
			return span{}, err
		}
		if !inBase {
			return span{onto: published}, nil
		}
	}
	merged, err := m.ancestor(ctx, published, base)
	if err != nil {
		return span{}, err
	}
	if merged { // nothing on the branch that the target lacks: a push moves it forward
		return span{onto: base}, nil
	}
	return span{}, &nod.Error{Code: nod.Conflict, Msg: "the branch " + quoted(branch) + " on GitHub holds work that is not part of this task's",
		Hint: "delete the branch or take its work into the target"}
}

// source finds the newest head that was prepared into what is published, if the
// head of s continues it. ours tells whether what is published was prepared from any.
func (m *mirror) source(ctx context.Context, s nod.PrepareSpec, base, published string) (after string, ours bool, err error) {
	out, err := m.git(ctx, call{}, "for-each-ref", "--format=%(refname) %(objectname) %(tree)", taskRefs(s.Task)+"source/", taskRefs(s.Task)+"prepared/")
	if err != nil {
		return "", false, err
	}
	heads, trees := map[string]string{}, map[string]string{} // prepared commit → head; tree → prepared commits
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		if prepared, ok := strings.CutPrefix(f[0], taskRefs(s.Task)+"source/"); ok {
			heads[prepared] = f[1]
		} else {
			trees[f[2]] += " " + f[1]
		}
	}
	if len(heads) == 0 {
		return "", false, nil
	}
	// From the newest published commit down: whichever has the tree of a prepared one.
	out, err = m.git(ctx, call{stdin: revs([]string{published}, []string{base})}, "rev-list", "--topo-order", "--no-commit-header",
		"--format=%T", "--max-count="+strconv.Itoa(m.g.limits.Commits), "--stdin")
	if err != nil {
		return "", false, err
	}
	for _, tree := range strings.Fields(string(out)) {
		for _, prepared := range strings.Fields(trees[tree]) {
			head := heads[prepared]
			if head == "" {
				continue
			}
			ok, err := m.ancestor(ctx, head, s.Head)
			if err != nil || ok {
				return head, true, err
			}
			ours = true
		}
	}
	return "", ours, nil
}

// mergeBase returns a best common ancestor, or "" when there is none.
func (m *mirror) mergeBase(ctx context.Context, a, b string) (string, error) {
	out, err := m.git(ctx, call{}, "merge-base", a, b)
	if exitCode(err) == 1 {
		return "", nil
	}
	return strings.TrimSpace(string(out)), err
}

// series lists the commits to prepare, oldest first: those of the head that what
// they go onto does not have, neither as they are nor as an equal patch.
func (m *mirror) series(ctx context.Context, o *objects, s nod.PrepareSpec, sp span) ([]commit, error) {
	shared, out, left := "", []byte(nil), []byte(nil)
	list := func() (err error) { out, err = m.listed(ctx, s, sp); return err }
	unequal := func() (err error) { left, err = m.unequal(ctx, sp.onto, s.Head); return err }
	meet := func() (err error) { shared, err = m.mergeBase(ctx, sp.onto, s.Head); return err }
	err := together(meet, list, unequal)
	if err == nil && shared == "" { // more history may be needed, and changes the other answers
		if shared, err = m.meeting(ctx, s.Task, sp.onto, s.Head); err == nil && shared != "" {
			err = together(list, unequal)
		}
	}
	if err != nil {
		return nil, err
	}
	if shared == "" {
		return nil, nod.E(nod.Invalid, "the work shares no history with its target branch", nil)
	}
	var ids []string
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) != 2 {
			return nil, &nod.Error{Code: nod.Invalid, Msg: "merge commit " + f[0][:12] + ": linear history is needed", Hint: "rebase the work instead of merging into it"}
		}
		ids = append(ids, f[0])
	}
	if len(ids) > m.g.limits.Commits {
		return nil, tooBig("it brings more than " + strconv.Itoa(m.g.limits.Commits) + " commits")
	}
	if shared != sp.onto {
		keep := map[string]bool{}
		for _, id := range strings.Fields(string(left)) {
			keep[id] = true
		}
		ids = slices.DeleteFunc(ids, func(id string) bool { return !keep[id] })
	}
	commits := make([]commit, 0, len(ids))
	for _, id := range ids {
		c, err := o.commit(id)
		if err != nil {
			return nil, err
		}
		commits = append(commits, c)
	}
	return commits, nil
}

// listed is what the head of s has beyond what it goes onto, oldest first, each with its
// parents.
func (m *mirror) listed(ctx context.Context, s nod.PrepareSpec, sp span) ([]byte, error) {
	except := []string{sp.onto}
	if sp.after != "" {
		except = append(except, sp.after)
	}
	return m.git(ctx, call{stdin: revs([]string{s.Head}, except)}, "rev-list", "--topo-order", "--reverse", "--parents", "--stdin")
}

// unequal lists the commits whose patch the other side does not have already.
func (m *mirror) unequal(ctx context.Context, onto, head string) ([]byte, error) {
	return m.git(ctx, call{}, "rev-list", "--no-merges", "--cherry-pick", "--right-only", onto+"..."+head)
}
