package hostgit

import (
	"bytes"
	"context"
	"strconv"
	"strings"

	"nod"
)

// Changes returns the commits that sha reaches and base does not, oldest first, each
// with what it changes against its one parent. sha must have been prepared for t;
// base must be what it was prepared onto.
func (g *Git) Changes(ctx context.Context, t nod.Task, base, sha string) ([]nod.CommitChange, error) {
	ctx, cancel := g.deadline(ctx)
	defer cancel()
	if err := checkTask(t); err != nil {
		return nil, err
	}
	for _, id := range []string{base, sha} {
		if err := checkSHA(id); err != nil {
			return nil, err
		}
	}
	m, err := g.open(ctx, t.Repo)
	if err != nil {
		return nil, err
	}
	defer m.close()
	if err := m.pushable(ctx, t, nod.PushBranch{SHA: sha, Old: base}); err != nil {
		return nil, err
	}
	// Parents come before their children, so a walk from the base to the head is
	// whole when each commit follows the one before it.
	out, err := m.git(ctx, call{stdin: revs([]string{sha}, []string{base})}, "rev-list", "--topo-order", "--reverse", "--stdin")
	if err != nil {
		return nil, err
	}
	o, err := m.objects(ctx, "", m.g.limits.BlobBytes)
	if err != nil {
		return nil, err
	}
	defer o.close()
	var series []nod.CommitChange
	parent := base
	for _, id := range strings.Fields(string(out)) {
		c, err := o.commit(id)
		if err != nil {
			return nil, err
		}
		if len(c.parents) != 1 || c.parents[0] != parent {
			return nil, nod.E(nod.Internal, "the prepared commits are not one line", nil)
		}
		subject, _ := split(c.message)
		series = append(series, nod.CommitChange{Commit: nod.Commit{SHA: id, Tree: c.tree, Parents: c.parents, Subject: subject, Message: c.message}})
		parent = id
	}
	return series, m.changes(ctx, o, out, series)
}

// changes fills in what the commits in ids, the same as in series, change.
func (m *mirror) changes(ctx context.Context, o *objects, ids []byte, series []nod.CommitChange) error {
	out, err := m.git(ctx, call{stdin: bytes.NewReader(ids)}, append(diffTree[:len(diffTree):len(diffTree)], "--stdin", "--always", "--raw")...)
	if err != nil {
		return err
	}
	fields := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	at := -1
	for i := 0; i < len(fields) && fields[i] != ""; i++ {
		if !strings.HasPrefix(fields[i], ":") { // a commit; what it changes follows
			if at++; at >= len(series) || series[at].Commit.SHA != fields[i] {
				return nod.E(nod.Internal, "list what commits change", errDiffTree)
			}
			continue
		}
		meta := strings.Fields(fields[i])
		if i++; at < 0 || len(meta) != 5 || i >= len(fields) {
			return nod.E(nod.Internal, "list what commits change", errDiffTree)
		}
		c := nod.TreeChange{Path: fields[i]}
		if meta[1] != "000000" {
			c.Mode, c.Blob = meta[1], meta[3]
		}
		series[at].Changes = append(series[at].Changes, c)
	}
	if at != len(series)-1 {
		return nod.E(nod.Internal, "list what commits change", errDiffTree)
	}
	return o.measure(series)
}

// measure fills in the sizes of changed files.
func (o *objects) measure(series []nod.CommitChange) error {
	var ids []oid
	var at []*nod.TreeChange
	for i := range series {
		for j := range series[i].Changes {
			if c := &series[i].Changes[j]; c.Blob != "" && c.Mode != modeSub {
				ids, at = append(ids, parseOID(c.Blob)), append(at, c)
			}
		}
	}
	sizes, err := o.sizes(ids)
	if err != nil {
		return err
	}
	for i, n := range sizes {
		at[i].Size = n
	}
	return nil
}

// blobsCap is how many bytes of files one call of Blobs returns.
const blobsCap = 128 << 20

// Blobs reads files of t's repository by their object ids, in the order asked for.
func (g *Git) Blobs(ctx context.Context, t nod.Task, ids []string) ([][]byte, error) {
	ctx, cancel := g.deadline(ctx)
	defer cancel()
	m, err := g.open(ctx, t.Repo)
	if err != nil {
		return nil, err
	}
	defer m.close()
	o, err := m.objects(ctx, "", m.g.limits.BlobBytes)
	if err != nil {
		return nil, err
	}
	defer o.close()
	files := make([][]byte, 0, len(ids))
	total := 0
	for _, id := range ids {
		if err := checkSHA(id); err != nil {
			return nil, err
		}
		b, err := o.read("blob", parseOID(id))
		if err != nil {
			return nil, err
		}
		if total += len(b); total > blobsCap {
			return nil, nod.E(nod.TooLarge, "more than "+strconv.Itoa(blobsCap>>20)+" MiB of files were asked for at once", nil)
		}
		files = append(files, b)
	}
	return files, nil
}
