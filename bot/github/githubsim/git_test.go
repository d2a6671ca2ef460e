package githubsim_test

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gh "github.com/google/go-github/v66/github"

	"nod/runtime/runtimetest"
)

func TestRealGitClonesAndPushes(t *testing.T) {
	w := newWorld(t)
	h := w.hookTarget()
	w.sim.SetWebhook(h.url)
	dir := w.clone("") // public: no token
	if raw, err := os.ReadFile(filepath.Join(dir, "dir", "ä \"q\" 日本.txt")); err != nil || string(raw) != "x" {
		t.Errorf("got %q, %v", raw, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "run.sh")); err != nil || info.Mode()&0o100 == 0 {
		t.Errorf("the script is not executable: %v, %v", info, err)
	}
	big := make([]byte, 3<<20) // more than git's post buffer: it is sent in chunks
	if _, err := rand.Read(big); err != nil {
		t.Fatal(err)
	}
	w.ok(os.WriteFile(filepath.Join(dir, "big"), big, 0o644))
	w.mustGit(dir, "add", "big")
	w.mustGit(dir, "commit", "-qm", "feat: big")
	sha := w.mustGit(dir, "rev-parse", "HEAD")
	token := w.installationToken(map[string]string{"contents": "write"})
	w.mustGit(dir, "push", "-q", w.remote(token), "HEAD:refs/heads/nod/1-big")
	got, err := w.sim.Head(full, "nod/1-big")
	w.ok(err)
	if got != sha {
		t.Errorf("the branch is at %q, want %q", got, sha)
	}
	pushes := w.flush(h)
	if len(pushes) != 1 || events(pushes) != "push" {
		t.Fatalf("got %s", events(pushes))
	}
	e := pushes[0].parsed.(*gh.PushEvent)
	if e.GetRef() != "refs/heads/nod/1-big" || e.GetAfter() != sha || !e.GetCreated() || len(e.Commits) != 1 || e.GetSender().GetLogin() != "nod-demo[bot]" {
		t.Errorf("got %+v", e)
	}
	if clone := w.clone(token); !bytes.Contains([]byte(w.mustGit(clone, "branch", "-r")), []byte("nod/1-big")) {
		t.Error("the pushed branch is not in a clone")
	}
}

func TestGitNeedsTheRightToken(t *testing.T) {
	w := newWorld(t)
	dir := w.clone("")
	w.mustGit(dir, "commit", "-q", "--allow-empty", "-m", "x")
	reading := w.installationToken(map[string]string{"contents": "read"})
	for name, remote := range map[string]string{"no token": w.remote(""), "wrong token": w.remote("ghs_wrong"), "reading token": w.remote(reading)} {
		if out, err := w.git(dir, "push", remote, "HEAD:refs/heads/x"); err == nil {
			t.Errorf("%s: the push went through: %s", name, out)
		}
	}
	out, err := w.sim.UserToken("out")
	w.ok(err)
	if said, err := w.git(dir, "push", w.remote(out.Reveal()), "HEAD:refs/heads/x"); err == nil {
		t.Errorf("a reader pushed: %s", said)
	}
	w.ok(w.sim.SetPrivate(full, true))
	if said, err := w.git(dir, "ls-remote", w.remote("")); err == nil {
		t.Errorf("a private repository was read: %s", said)
	}
	if said, err := w.git(dir, "ls-remote", w.remote(out.Reveal())); err == nil {
		t.Errorf("a stranger read a private repository: %s", said)
	}
	w.mustGit(dir, "ls-remote", w.remote(reading))
	w.sim.ExpireTokens()
	if said, err := w.git(dir, "ls-remote", w.remote(reading)); err == nil {
		t.Errorf("an expired token reads: %s", said)
	}
	if got, err := w.sim.Head(full, "x"); err != nil || got != "" {
		t.Errorf("branch x is at %q, %v", got, err)
	}
}

// Nothing a push carries may run: hooks are off, and so is what a repository's own
// configuration could start.
func TestHooksInARepositoryNeverRun(t *testing.T) {
	dir := t.TempDir()
	w := newWorldIn(t, dir)
	proof := filepath.Join(t.TempDir(), "ran")
	for _, hook := range []string{"pre-receive", "post-receive", "update", "post-update", "reference-transaction"} {
		path := filepath.Join(dir, "repos", "ada", "web.git", "hooks", hook)
		w.ok(os.MkdirAll(filepath.Dir(path), 0o755))
		w.ok(os.WriteFile(path, []byte("#!/bin/sh\ntouch "+proof+"\n"), 0o755))
	}
	clone := w.clone("")
	w.mustGit(clone, "commit", "-q", "--allow-empty", "-m", "x")
	w.mustGit(clone, "push", "-q", w.remote(w.installationToken(map[string]string{"contents": "write"})), "HEAD:refs/heads/x")
	if _, err := os.Stat(proof); !os.IsNotExist(err) {
		t.Errorf("a hook ran: %v", err)
	}
}

func TestVerificationSpeaksGitHubsWords(t *testing.T) {
	runtimetest.Program(t, "ssh-keygen")
	w := newWorld(t)
	key, public := w.sshKey()
	other, _ := w.sshKey()
	w.ok(w.sim.AddSigningKey("wil", public))
	w.ok(w.sim.AddEmail("wil", "wil@example.test"))
	w.ok(w.sim.AddEmail("ada", "ada@example.test"))
	dir := w.clone("")
	token, err := w.sim.UserToken("wil")
	w.ok(err)
	sign := func(key string) []string {
		return []string{"-c", "gpg.format=ssh", "-c", "user.signingkey=" + key, "-c", "commit.gpgsign=true"}
	}
	commit := func(branch string, before []string, args ...string) string {
		w.mustGit(dir, "checkout", "-q", "-B", branch, "origin/main")
		w.mustGit(dir, append(append(before, "commit", "-q", "--allow-empty", "-m", "feat: "+branch+"\n\nbody with ünïcode\n"), args...)...)
		w.mustGit(dir, "push", "-q", w.remote(token.Reveal()), "HEAD:refs/heads/"+branch)
		return w.mustGit(dir, "rev-parse", "HEAD")
	}
	sha := commit("valid", sign(key))
	raw := w.mustGit(dir, "cat-file", "commit", sha)
	tampered := strings.Replace(raw, "feat: valid", "feat: other", 1) + "\n"
	w.write(dir, "tampered", tampered)
	bad := w.mustGit(dir, "hash-object", "-t", "commit", "-w", "tampered")
	w.mustGit(dir, "push", "-q", w.remote(token.Reveal()), bad+":refs/heads/tampered")
	for _, c := range []struct {
		name, sha, reason string
	}{
		{"signed by its committer", sha, "valid"}, {"message changed after signing", bad, "invalid"},
		{"not signed", commit("unsigned", nil), "unsigned"}, {"key nobody registered", commit("unknown", sign(other)), "unknown_key"},
		{"committer is somebody else", commit("somebody", append(sign(key), "-c", "committer.email=ada@example.test")), "bad_email"},
		{"committer is nobody", commit("nobody", append(sign(key), "-c", "committer.email=none@example.test")), "no_user"},
	} {
		got, _, err := w.asUser("wil").Repositories.GetCommit(t.Context(), "ada", "web", c.sha, nil)
		w.ok(err)
		v := got.GetCommit().GetVerification()
		if v.GetReason() != c.reason || v.GetVerified() != (c.reason == "valid") {
			t.Errorf("%s: got %v, %s, want %s", c.name, v.GetVerified(), v.GetReason(), c.reason)
		}
	}
}

// What an App commits through the API is signed by GitHub, unless it says who wrote it.
func TestAppCommitsByAPIAreVerified(t *testing.T) {
	w := newWorld(t)
	c := w.asApp(map[string]string{"contents": "write"})
	ref, _, err := c.Git.GetRef(t.Context(), "ada", "web", "heads/main")
	w.ok(err)
	parent, _, err := c.Git.GetCommit(t.Context(), "ada", "web", ref.GetObject().GetSHA())
	w.ok(err)
	tree, _, err := c.Git.CreateTree(t.Context(), "ada", "web", parent.GetTree().GetSHA(), []*gh.TreeEntry{
		{Path: gh.String("link"), Mode: gh.String("120000"), Type: gh.String("blob"), Content: gh.String("README.md")},
		{Path: gh.String("run.sh")}, // removed
	})
	w.ok(err)
	for _, author := range []*gh.CommitAuthor{nil, {Name: gh.String("x"), Email: gh.String("x@example.test")}} {
		made, _, err := c.Git.CreateCommit(t.Context(), "ada", "web", &gh.Commit{Message: gh.String("feat: link"), Tree: tree, Parents: []*gh.Commit{parent}, Author: author}, nil)
		w.ok(err)
		if got := made.GetVerification().GetVerified(); got != (author == nil) {
			t.Errorf("author %v: verified %v, %s", author, got, made.GetVerification().GetReason())
		}
		_, _, err = c.Git.CreateRef(t.Context(), "ada", "web", &gh.Reference{Ref: gh.String("refs/heads/nod/x"), Object: &gh.GitObject{SHA: made.SHA}})
		if author == nil {
			w.ok(err)
		} else if statusOf(err) != 422 {
			t.Errorf("the ref exists: got %v", err)
		}
	}
	dir := w.clone("")
	w.mustGit(dir, "checkout", "-q", "nod/x")
	if to, err := os.Readlink(filepath.Join(dir, "link")); err != nil || to != "README.md" {
		t.Errorf("got %q, %v", to, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "run.sh")); !os.IsNotExist(err) {
		t.Errorf("the removed file is there: %v", err)
	}
}
