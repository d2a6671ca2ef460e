package hostgit

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"nod"
)

// Prepare turns an imported head into a signed, linear series on top of the newest
// s.BaseRef, without checking anything out. When the task's branch was published
// already, the new commits go on top of it and nothing published is rewritten.
//
// Errors: Conflict names the paths that do not merge, or says that the branch on
// GitHub holds other work; NotFound means that nothing would change; Invalid that
// the series cannot be prepared as it is (a merge commit, an unreadable message),
// around nod.ErrMessages where only the messages of its commits are in the way;
// TooLarge that the diff cannot be shown whole.
func (g *Git) Prepare(ctx context.Context, s nod.PrepareSpec) (nod.Prepared, error) {
	ctx, cancel := g.deadline(ctx)
	defer cancel()
	var none nod.Prepared
	if g.key == nil {
		return none, nod.E(nod.Invalid, "there is no signing key to prepare commits with", nil)
	}
	if err := checkTask(s.Task); err != nil {
		return none, err
	}
	if err := checkSHA(s.Head); err != nil {
		return none, err
	}
	m, err := g.open(ctx, s.Task.Repo)
	if err != nil {
		return none, err
	}
	defer m.close()
	span, err := m.span(ctx, s)
	if err != nil {
		return none, err
	}
	q, err := m.quarantine()
	if err != nil {
		return none, err
	}
	o, err := m.objects(ctx, q, m.g.limits.BlobBytes)
	if err != nil {
		return none, err
	}
	defer o.close()
	commits, err := m.series(ctx, o, s, span)
	if err != nil {
		return none, err
	}
	groups, squashed, err := plan(commits, true)
	if err != nil {
		return none, err
	}
	made, err := m.replay(ctx, o, q, span.onto, groups)
	if nod.CodeOf(err) == nod.Conflict && squashed {
		// Out of their order the commits do not fit; in it they may.
		if groups, _, err = plan(commits, false); err == nil {
			made, err = m.replay(ctx, o, q, span.onto, groups)
		}
	}
	if err != nil {
		return none, err
	}
	return m.finish(ctx, o, q, s, span.onto, made)
}

// finish signs what was replayed, describes it and keeps it.
func (m *mirror) finish(ctx context.Context, o *objects, q string, s nod.PrepareSpec, onto string, made []step) (nod.Prepared, error) {
	var p nod.Prepared
	if len(made) == 0 {
		return p, nod.E(nod.NotFound, "there is nothing to publish: no commit changes anything", nil)
	}
	commits, err := m.sign(q, onto, made, s.Trailers)
	if err != nil {
		return p, err
	}
	head := commits[len(commits)-1]
	if err := m.inspect(ctx, o, q, head.SHA, []string{onto}); err != nil {
		return p, err
	}
	var files []nod.FileChange
	var diff []byte
	var tips []string
	err = together(
		func() (err error) { files, err = m.files(ctx, q, onto, head.SHA); return err },
		func() (err error) { diff, err = m.diff(ctx, q, onto, head.SHA); return err },
		func() (err error) { tips, _, err = m.tips(ctx, s.Task); return err })
	if err != nil {
		return p, err
	}
	if len(files) == 0 {
		return p, nod.E(nod.NotFound, "there is nothing to publish: the commits undo each other", nil)
	}
	if err := m.promote(ctx, q, []string{head.SHA}, tips); err != nil {
		return p, err
	}
	// What was made, and from which head: a later round starts after it.
	refs := "update " + taskRefs(s.Task) + "source/" + head.SHA + " " + s.Head + "\nupdate " + taskRefs(s.Task) + "prepared/" + head.SHA + " " + head.SHA + "\n"
	if _, err := m.git(ctx, call{stdin: strings.NewReader(refs)}, "update-ref", "--no-deref", "--stdin"); err != nil {
		return p, err
	}
	p.Diff = diff
	p.Revision = nod.Revision{
		SHA: head.SHA, Task: s.Task.ID, State: nod.RevisionPrepared, BaseRef: s.BaseRef, BaseSHA: onto, Branch: s.Task.Branch,
		Tree: head.Tree, Commits: commits, Files: files, DiffDigest: nod.Digest(diff),
	}
	return p, nil
}

// step is one replayed commit before it is signed.
type step struct {
	tree, message string
	authored      time.Time
}

// replay applies groups on top of onto, one three-way merge a commit, and leaves
// out what changes nothing.
func (m *mirror) replay(ctx context.Context, o *objects, q, onto string, groups []group) ([]step, error) {
	base, err := o.commit(onto)
	if err != nil {
		return nil, err
	}
	tree := base.tree
	var made []step
	var wrong []string
	for _, g := range groups {
		before := tree
		for _, c := range g.picks {
			parent, err := o.commit(c.parents[0])
			if err != nil {
				return nil, err
			}
			if tree, err = m.merge(ctx, q, parent.tree, tree, c); err != nil {
				return nil, err
			}
		}
		if tree == before {
			continue
		}
		message, bad := lint(g.message)
		if bad != "" {
			wrong = append(wrong, "commit "+g.picks[0].id[:12]+": "+bad)
		}
		made = append(made, step{tree: tree, message: message, authored: g.picks[0].authored})
	}
	if len(wrong) > 0 {
		return nil, unconventional(wrong)
	}
	return made, nil
}

// merge applies to tree ours what c changed in tree base. git merges commits, so
// the three trees get a commit each that nothing keeps.
func (m *mirror) merge(ctx context.Context, q, base, ours string, c commit) (string, error) {
	switch {
	case base == ours:
		return c.tree, nil
	case base == c.tree || ours == c.tree:
		return ours, nil
	}
	wrap := func(tree, parent string) (string, error) {
		const by = "nod <nod@localhost> 0 +0000"
		return writeObject(q, "commit", []byte("tree "+tree+"\n"+parent+"author "+by+"\ncommitter "+by+"\n\n"))
	}
	root, err := wrap(base, "")
	if err != nil {
		return "", err
	}
	var sides [2]string
	for i, tree := range []string{ours, c.tree} {
		if sides[i], err = wrap(tree, "parent "+root+"\n"); err != nil {
			return "", err
		}
	}
	result := &capped{limit: m.g.limits.DiffBytes, over: func() {}}
	_, err = m.git(ctx, call{objects: q, stdout: result}, "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", sides[0], sides[1])
	fields := strings.Split(result.buf.String(), "\x00")
	switch {
	case exitCode(err) == 1 && hexID.MatchString(fields[0]):
		return "", conflict(c, fields[1:])
	case err != nil:
		return "", err
	case !hexID.MatchString(strings.TrimSpace(fields[0])):
		return "", nod.E(nod.Internal, "git merge-tree did not name a tree", nil)
	}
	return strings.TrimSpace(fields[0]), nil
}

// conflict is the error that names what does not merge.
func conflict(c commit, paths []string) error {
	const most = 20
	var names []string
	for _, p := range paths {
		if p != "" {
			names = append(names, quoted(p))
		}
	}
	more := ""
	if n := len(names) - most; n > 0 {
		names, more = names[:most], " and "+strconv.Itoa(n)+" more"
	}
	return &nod.Error{Code: nod.Conflict, Msg: "commit " + c.id[:12] + " does not merge with its new base: " + strings.Join(names, ", ") + more,
		Hint: "rebase the work onto the newest target branch and resolve it there"}
}

// sign writes the commits of made on top of onto, each signed.
func (m *mirror) sign(q, onto string, made []step, trailers []string) ([]nod.Commit, error) {
	now := m.g.now().UTC()
	parent := onto
	var commits []nod.Commit
	for i, s := range made {
		if i == len(made)-1 && len(trailers) > 0 {
			var err error
			if s.message, err = withTrailers(s.message, trailers); err != nil {
				return nil, err
			}
		}
		var head bytes.Buffer
		fmt.Fprintf(&head, "tree %s\nparent %s\nauthor %s\ncommitter %s\n", s.tree, parent, m.g.author.at(sane(s.authored, now)), m.g.author.at(now))
		body, err := signedCommit(m.g.key, head.Bytes(), s.message)
		if err != nil {
			return nil, err
		}
		sha, err := writeObject(q, "commit", body)
		if err != nil {
			return nil, err
		}
		subject, _ := split(s.message)
		commits = append(commits, nod.Commit{SHA: sha, Tree: s.tree, Parents: []string{parent}, Subject: subject, Message: s.message})
		parent = sha
	}
	return commits, nil
}
