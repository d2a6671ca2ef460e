package hostgit

import (
	"context"
	"strings"

	"nod"
)

// Texts reads those of names, paths from the root, that are plain files in a commit
// of t's repository. Links, directories, and files of more than most bytes are left
// out, as what is not there is.
func (g *Git) Texts(ctx context.Context, t nod.Task, sha string, names []string, most int64) (map[string]string, error) {
	if err := checkSHA(sha); err != nil {
		return nil, err
	}
	ctx, cancel := g.deadline(ctx)
	defer cancel()
	m, err := g.open(ctx, t.Repo)
	if err != nil {
		return nil, err
	}
	defer m.close()
	listed, err := g.run(ctx, m.in(call{}), append([]string{"ls-tree", "-z", "--full-tree", sha, "--"}, names...)...)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for entry := range strings.SplitSeq(string(listed), "\x00") {
		what, name, _ := strings.Cut(entry, "\t")
		f := strings.Fields(what) // mode, kind, id
		if len(f) != 3 || f[0] != "100644" && f[0] != "100755" {
			continue
		}
		content, err := m.text(ctx, parseOID(f[2]), most)
		if nod.CodeOf(err) == nod.TooLarge && err != nil {
			continue
		}
		if err != nil {
			return nil, err
		}
		texts[name] = content
	}
	return texts, nil
}

// text reads one blob of at most most bytes. After a TooLarge error its process is of
// no more use, so each has its own.
func (m *mirror) text(ctx context.Context, id oid, most int64) (string, error) {
	o, err := m.objects(ctx, "", most)
	if err != nil {
		return "", err
	}
	defer o.close()
	b, err := o.read("blob", id)
	return string(b), err
}
