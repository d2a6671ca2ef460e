package github_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"nod"
	"nod/runtime/runtimetest"
)

// gitIn runs the real git with nothing of this machine's settings.
func (w *world) gitIn(dir string, args ...string) string {
	w.Helper()
	cmd := exec.CommandContext(w.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_TERMINAL_PROMPT=0"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// A whole publication over the real parts: a commit signed with the bot's SSH key is
// pushed by git with a token of the Client, the pull request is opened, and GitHub is
// asked what it has.
func TestPublishedRevisionIsReadBackVerified(t *testing.T) {
	runtimetest.Program(t, "ssh-keygen")
	w := newWorld(t)
	pub, private, err := ed25519.GenerateKey(rand.Reader)
	w.ok(err)
	block, err := ssh.MarshalPrivateKey(private, "")
	w.ok(err)
	key := filepath.Join(t.TempDir(), "key")
	w.ok(os.WriteFile(key, pem.EncodeToMemory(block), 0o600))
	public, err := ssh.NewPublicKey(pub)
	w.ok(err)
	id, err := w.client.BotIdentity(t.Context())
	w.ok(err)
	w.ok(w.sim.AddSigningKey(id.Login, string(ssh.MarshalAuthorizedKey(public))))

	none, err := w.client.Delivered(t.Context(), w.task, nod.Revision{Branch: w.task.Branch, BaseRef: "main"})
	w.ok(err)
	if none.BranchSHA != "" || none.PullRequest.Number != 0 || none.Commits != nil {
		t.Errorf("before: got %+v", none)
	}
	remote, token, err := w.client.Remote(t.Context(), w.task, true)
	w.ok(err)
	dir := filepath.Join(t.TempDir(), "clone")
	w.gitIn(".", "clone", "-q", remote, dir)
	w.gitIn(dir, "-c", "user.name="+id.Login, "-c", "user.email="+id.Email, "-c", "gpg.format=ssh", "-c", "user.signingkey="+key,
		"commit", "-q", "-S", "--allow-empty", "-m", "fix: total\n\nWith the coupon.")
	sha := w.gitIn(dir, "rev-parse", "HEAD")
	withToken := strings.Replace(remote, "http://", "http://x-access-token:"+token.Reveal()+"@", 1)
	w.gitIn(dir, "push", "-q", withToken, sha+":refs/heads/"+w.task.Branch)
	var pull nod.PullRequest
	w.perform(w.client.OpenPulls(), w.openPR(sha, "text"), &pull)

	for _, number := range []int{0, pull.Number} {
		got, err := w.client.Delivered(t.Context(), w.task, nod.Revision{SHA: sha, Branch: w.task.Branch, BaseRef: "main", PullRequest: nod.PullRequest{Number: number}})
		w.ok(err)
		if got.BranchSHA != sha || got.PullRequest != pull || len(got.Commits) != 1 {
			t.Fatalf("got %+v", got)
		}
		c := got.Commits[0]
		if c.SHA != sha || !c.Verified || c.Subject != "fix: total" || c.Message != "fix: total\n\nWith the coupon." || len(c.Parents) != 1 || c.Tree != w.gitIn(dir, "rev-parse", sha+"^{tree}") {
			t.Errorf("got %+v", c)
		}
	}
	w.ok(w.sim.MergePull("ada", full, pull.Number))
	w.ok(w.sim.DeleteBranch("ada", full, w.task.Branch))
	got, err := w.client.Delivered(t.Context(), w.task, nod.Revision{Branch: w.task.Branch, BaseRef: "main"})
	w.ok(err)
	if got.BranchSHA != "" || !got.PullRequest.Merged || got.PullRequest.State != "closed" || len(got.Commits) != 1 {
		t.Errorf("after the merge: got %+v", got)
	}
}

func TestHookDeliveriesAreListedWithTheirPayloads(t *testing.T) {
	w := newWorld(t)
	w.sim.SetWebhook("http://127.0.0.1:1/nobody") // every delivery fails, and is kept all the same
	since := time.Now().Add(-time.Minute)
	for range 130 {
		_, err := w.sim.CreateIssue("out", full, "t", "")
		w.ok(err)
	}
	w.ok(w.sim.Flush(t.Context()))
	all, err := w.client.HookDeliveries(t.Context(), since, 1000)
	w.ok(err)
	if len(all) != 130 || all[0].OK || all[0].Event != "issues" || all[0].Action != "opened" {
		t.Fatalf("got %d, first %+v", len(all), all[0])
	}
	some, err := w.client.HookDeliveries(t.Context(), since, 7)
	w.ok(err)
	late, err := w.client.HookDeliveries(t.Context(), time.Now().Add(time.Hour), 1000)
	w.ok(err)
	if len(some) != 7 || len(late) != 0 {
		t.Errorf("got %d and %d", len(some), len(late))
	}
	one, err := w.client.HookDelivery(t.Context(), all[0].ID)
	w.ok(err)
	if one.GUID != all[0].GUID || !strings.Contains(string(one.Payload), `"action":"opened"`) {
		t.Errorf("got %+v", one)
	}
	_, err = w.client.HookDelivery(t.Context(), 999_999)
	w.wantCode(err, nod.NotFound)
}
