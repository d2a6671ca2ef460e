package hostgit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"nod"
)

// Seed brings the target branch and ref (a branch, or a commit that is kept for t)
// to their newest, and makes a clone with ref checked out on the new branch t.Branch
// in dir, which must not exist. It returns the commit that was checked out.
//
// The clone has its own objects (no alternates, no hard links), no hooks, and an
// origin without credentials. What its attributes ask to be filtered stays as it is
// in the repository: large-file pointers stay pointers. A clone that is cut short is
// never found at dir.
func (g *Git) Seed(ctx context.Context, t nod.Task, ref, dir string) (string, error) {
	ctx, cancel := g.deadline(ctx)
	defer cancel()
	if err := checkTask(t); err != nil {
		return "", err
	}
	if err := g.checkBranch(ctx, t.Branch); err != nil {
		return "", err
	}
	if !filepath.IsAbs(dir) {
		return "", nod.E(nod.Invalid, "a clone is made at an absolute path", nil)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return "", nod.E(nod.Conflict, "there is something where the clone would go", err)
	}
	m, err := g.open(ctx, t.Repo)
	if err != nil {
		return "", err
	}
	defer m.close()
	base, sha, err := m.start(ctx, t, ref)
	if err != nil {
		return "", err
	}
	if err := m.countTree(ctx, sha); err != nil {
		return "", err
	}
	r, err := g.dial(ctx, t, false)
	if err != nil {
		return "", err
	}
	if err := m.place(ctx, t, r.url, base, sha, dir); err != nil {
		return "", err
	}
	return sha, m.setRef(ctx, taskRefs(t)+"base", sha)
}

// Copy makes a clone in dir, which must not exist, for a person to look at: what was
// prepared for t as sha onto base, on the branch t.Branch, with url as its origin. It
// is made of the supervisor's objects; nothing of the agent's own tree is in it.
func (g *Git) Copy(ctx context.Context, t nod.Task, url, base, sha, dir string) error {
	ctx, cancel := g.deadline(ctx)
	defer cancel()
	if err := checkTask(t); err != nil {
		return err
	}
	if err := g.checkBranch(ctx, t.Branch); err != nil {
		return err
	}
	if !filepath.IsAbs(dir) {
		return nod.E(nod.Invalid, "a clone is made at an absolute path", nil)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return nod.E(nod.Conflict, "there is something where the clone would go", err)
	}
	m, err := g.open(ctx, t.Repo)
	if err != nil {
		return err
	}
	defer m.close()
	if err := m.pushable(ctx, t, nod.PushBranch{SHA: sha, Old: base}); err != nil {
		return err
	}
	if err := m.countTree(ctx, sha); err != nil {
		return err
	}
	return m.place(ctx, t, url, base, sha, dir)
}

// place makes a clone beside dir and moves it there whole.
func (m *mirror) place(ctx context.Context, t nod.Task, url, base, sha, dir string) error {
	made := filepath.Join(filepath.Dir(dir), "."+filepath.Base(dir)+".seeding")
	if err := os.RemoveAll(made); err != nil {
		return nod.E(nod.Internal, "clear what an earlier clone left", err)
	}
	err := m.clone(ctx, t, url, base, sha, made)
	if err == nil {
		if err = os.Rename(made, dir); err != nil {
			err = nod.E(nod.Internal, "put the clone in place", err)
		}
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(made))
	}
	return nil
}

// start fetches and returns the newest commit of the target branch and the one to
// check out.
func (m *mirror) start(ctx context.Context, t nod.Task, ref string) (base, sha string, err error) {
	needed := []string{t.BaseRef}
	commit := hexID.MatchString(ref)
	if !commit && ref != t.BaseRef {
		needed = append(needed, ref)
	}
	got, err := m.fetch(ctx, t, needed, nil)
	if err != nil {
		return "", "", err
	}
	if !commit {
		return got[t.BaseRef], got[ref], nil
	}
	ok, err := m.known(ctx, t, ref)
	if err == nil && !ok {
		err = nod.E(nod.NotFound, "the commit "+ref[:12]+" is not kept for this task", nil)
	}
	return got[t.BaseRef], ref, err
}

// countTree holds the tree of a commit against the limits before it is checked out.
func (m *mirror) countTree(ctx context.Context, sha string) error {
	l := m.g.limits
	o, err := m.objects(ctx, "", l.TreeBytes)
	if err != nil {
		return err
	}
	defer o.close()
	c, err := o.commit(sha)
	if err != nil {
		return err
	}
	if _, err := newWalker(o, l).measure(parseOID(c.tree)); err != nil {
		return nod.E(nod.CodeOf(err), "the repository is over the limits of a workspace", err)
	}
	return nil
}

// clone builds a repository in dir from the mirror's objects, without a transport.
func (m *mirror) clone(ctx context.Context, t nod.Task, url, base, sha, dir string) error {
	bare := call{lock: m.lock}
	if _, err := m.g.run(ctx, bare, "init", "--quiet", "--template=", "--object-format=sha1", "--initial-branch="+t.Branch, "--", dir); err != nil {
		return err
	}
	in := call{repo: filepath.Join(dir, ".git"), work: dir, lock: m.lock}
	if err := m.copyObjects(ctx, in, []string{sha, base}); err != nil {
		return err
	}
	at, err := m.cut()
	if err != nil {
		return err
	}
	if at != nil {
		if err := os.WriteFile(boundary(in.repo), at, 0o600); err != nil {
			return nod.E(nod.Internal, "say where the clone's history is cut off", err)
		}
	}
	if err := configure(filepath.Join(dir, ".git", "config"), url, t, m.g.author); err != nil {
		return err
	}
	refs := "create refs/heads/" + t.Branch + " " + sha + "\ncreate refs/remotes/origin/" + t.BaseRef + " " + base + "\n"
	update := in
	update.stdin = strings.NewReader(refs)
	if _, err := m.g.run(ctx, update, "update-ref", "--no-deref", "--stdin"); err != nil {
		return err
	}
	_, err = m.g.run(ctx, in, "read-tree", "-m", "-u", "--no-recurse-submodules", sha)
	return err
}

// configure adds a clone's origin, branch and author to its configuration.
func configure(path, url string, t nod.Task, author Identity) error {
	section := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	value := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`)
	text := fmt.Sprintf("[remote \"origin\"]\n\turl = \"%s\"\n\tfetch = \"+refs/heads/*:refs/remotes/origin/*\"\n"+
		"[branch \"%s\"]\n\tremote = origin\n\tmerge = \"refs/heads/%s\"\n[user]\n\tname = \"%s\"\n\temail = \"%s\"\n",
		value.Replace(url), section.Replace(t.Branch), value.Replace(t.BaseRef), value.Replace(author.Name), value.Replace(author.Email))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return nod.E(nod.Internal, "configure the clone", err)
	}
	return nil
}

// copyObjects packs everything that tips reach into another repository.
func (m *mirror) copyObjects(ctx context.Context, to call, tips []string) error {
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		_, err := m.git(ctx, call{stdin: revs(tips, nil), stdout: w}, "pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset")
		_ = w.CloseWithError(err) // always nil
		packed <- err
	}()
	to.stdin = r
	_, err := m.g.run(ctx, to, "index-pack", "--stdin")
	_ = r.Close() // always nil; wakes a writer that nobody reads any more
	if perr := <-packed; perr != nil {
		return errors.Join(perr, err)
	}
	return err
}
