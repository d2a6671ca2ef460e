package hostgit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nod"
)

func TestWorkGoesFromCloneToReadBackBranch(t *testing.T) {
	f := newFixture(t)
	base := f.seed()
	f.write(f.agent, "lib/a.txt", lines(20, " changed"))
	f.commit(f.agent, "fix: change the lines\n\nBecause.")
	f.write(f.agent, "new.txt", "new\n")
	f.commit(f.agent, "Chore : add a file")
	head := f.importAll(base)
	moved := f.onMain("elsewhere.txt", "x\n")
	p, err := f.git.Prepare(t.Context(), nod.PrepareSpec{Task: f.task, Head: head, BaseRef: "main", Trailers: []string{"Nod-Task: " + f.task.ID}})
	if err != nil {
		t.Fatal(err)
	}
	r := p.Revision
	if r.BaseSHA != moved || r.Task != f.task.ID || r.Branch != f.task.Branch || len(r.Commits) != 2 || r.Commits[0].Parents[0] != moved || r.SHA != r.Commits[1].SHA {
		t.Errorf("revision %+v", r)
	}
	var messages []string
	for _, c := range r.Commits {
		messages = append(messages, c.Message)
	}
	want := []string{"fix: change the lines\n\nBecause.\n", "chore: add a file\n\nNod-Task: " + f.task.ID + "\n"}
	if d := cmp.Diff(want, messages); d != "" {
		t.Error(d)
	}
	files := []nod.FileChange{
		{Path: "lib/a.txt", Status: "M", OldMode: "100644", NewMode: "100644", Added: 20, Deleted: 20},
		{Path: "new.txt", Status: "A", OldMode: "000000", NewMode: "100644", Added: 1},
	}
	if d := cmp.Diff(files, r.Files); d != "" {
		t.Error(d)
	}
	if r.DiffDigest != nod.Digest(p.Diff) || !strings.Contains(string(p.Diff), "+line 3 changed\n") {
		t.Errorf("diff %s", p.Diff)
	}
	f.push(r.SHA, "")
	if got := f.remoteBranch(f.task.Branch); got != r.SHA {
		t.Errorf("remote branch at %q, want %q", got, r.SHA)
	}
	if got := f.remoteBranch("main"); got != moved {
		t.Errorf("main at %q, want %q", got, moved)
	}
	log := f.plain(f.origin, "log", "-1", "--format=%an <%ae> %at|%cn <%ce> %ct", f.task.Branch)
	if want := "nod[bot] <nod@example.invalid> 1770000000|nod[bot] <nod@example.invalid> 1772600767\n"; log != want {
		t.Errorf("identity %q, want %q", log, want)
	}
	f.plain(f.origin, "fsck", "--strict")
	if err := f.git.Forget(t.Context(), f.task); err != nil {
		t.Fatal(err)
	}
	if err := f.git.Forget(t.Context(), f.task); err != nil {
		t.Fatal(err)
	}
	if refs := f.mirrorRefs(); strings.Contains(refs, f.task.ID) {
		t.Errorf("left after Forget: %s", refs)
	}
}

func TestSeededCloneSharesNothingAndHoldsNoCredential(t *testing.T) {
	f := newFixture(t)
	sha := f.seed()
	if got := strings.TrimSpace(f.plain(f.agent, "rev-parse", "HEAD", "refs/remotes/origin/main")); got != sha+"\n"+sha {
		t.Errorf("clone is at %q", got)
	}
	if got := f.plain(f.agent, "symbolic-ref", "HEAD"); got != "refs/heads/"+f.task.Branch+"\n" {
		t.Errorf("HEAD is %q", got)
	}
	if got := f.plain(f.agent, "status", "--porcelain"); got != "" {
		t.Errorf("status %q", got)
	}
	if got := f.plain(f.agent, "remote", "get-url", "origin"); got != f.url+"\n" {
		t.Errorf("origin %q", got)
	}
	for _, name := range []string{"objects/info/alternates", "hooks", "info/exclude"} {
		if _, err := os.Stat(filepath.Join(f.agent, ".git", name)); err == nil {
			t.Errorf("the clone has %s", name)
		}
	}
	err := filepath.WalkDir(f.agent, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if n := links(t, path); n != 1 {
			t.Errorf("%s has %d links", path, n)
		}
		b, err := os.ReadFile(path)
		if strings.Contains(string(b), testToken) {
			t.Errorf("%s holds the token", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.git.Seed(t.Context(), f.task, "main", f.agent)
	wantCode(t, err, nod.Conflict)
}
