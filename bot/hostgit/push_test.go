package hostgit

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"nod"
)

// prepared is work that only needs to be pushed.
func (f *fixture) prepared() nod.Revision {
	f.t.Helper()
	base := f.seed()
	f.write(f.agent, "lib/a.txt", lines(20, " work"))
	f.commit(f.agent, "fix: work")
	return f.prepare(f.importAll(base)).Revision
}

func (f *fixture) lookup(sha, old string) (string, error) {
	f.t.Helper()
	out, err := f.git.Pusher().Lookup(f.t.Context(), f.task, f.effect(sha, old))
	return string(out), err
}

func TestPushTwiceIsOnePush(t *testing.T) {
	f := newFixture(t)
	r := f.prepared()
	var pushes atomic.Int32
	f.serve(func(_ http.ResponseWriter, req *http.Request) bool {
		if strings.HasSuffix(req.URL.Path, "/git-receive-pack") {
			pushes.Add(1)
		}
		return false
	})
	f.push(r.SHA, "")
	f.push(r.SHA, "")
	if n := pushes.Load(); n != 1 {
		t.Errorf("%d pushes", n)
	}
}

func TestLookupAfterACrashTellsWhatHappened(t *testing.T) {
	f := newFixture(t)
	r := f.prepared()
	if out, err := f.lookup(r.SHA, ""); out != "" || err != nil {
		t.Errorf("before the push: %q, %v", out, err)
	}
	// The push arrives; the supervisor dies before it hears of it.
	f.plain(f.mirrorDir(), "push", "--quiet", f.origin, r.SHA+":refs/heads/"+f.task.Branch)
	f.git = f.open()
	if out, err := f.lookup(r.SHA, ""); out != `{"sha":"`+r.SHA+`"}` || err != nil {
		t.Errorf("after the push: %q, %v", out, err)
	}
	f.onBranch(f.task.Branch, "more", "x\n")
	_, err := f.lookup(r.SHA, "")
	wantCode(t, err, nod.NeedsHuman, "neither where it was")
	f.token.Store("revoked")
	_, err = f.lookup(r.SHA, "")
	wantCode(t, err, nod.Unavailable)
}

func TestR16BranchMovedBySomeoneElseIsNeverOverwritten(t *testing.T) {
	f := newFixture(t)
	r := f.prepared()
	perform := func(sha, old string) error {
		_, err := f.git.Pusher().Perform(t.Context(), f.task, f.effect(sha, old))
		return err
	}
	f.plain(f.origin, "branch", f.task.Branch, "main")
	theirs := f.onBranch(f.task.Branch, "theirs", "x\n")
	wantCode(t, perform(r.SHA, ""), nod.Conflict, "moved by someone else")
	wantCode(t, perform(r.SHA, r.BaseSHA), nod.Conflict, "moved by someone else")
	wantCode(t, perform(r.SHA, theirs), nod.Conflict, "never saw")
	if got := f.remoteBranch(f.task.Branch); got != theirs {
		t.Fatalf("their branch is at %s, was at %s", got, theirs)
	}
	// Moved between our look and our push: the server's answer is what counts.
	f.plain(f.origin, "update-ref", "-d", "refs/heads/"+f.task.Branch)
	var looks atomic.Int32
	f.serve(func(_ http.ResponseWriter, req *http.Request) bool {
		if strings.Contains(req.URL.RawQuery, "git-receive-pack") {
			looks.Add(1)
			if _, err := f.try(f.origin, "", "update-ref", "refs/heads/"+f.task.Branch, theirs); err != nil {
				t.Error(err)
			}
		}
		return false
	})
	wantCode(t, perform(r.SHA, ""), nod.Conflict, "someone else")
	if got := f.remoteBranch(f.task.Branch); got != theirs || looks.Load() != 1 {
		t.Fatalf("their branch is at %s, was at %s (%d looks)", got, theirs, looks.Load())
	}
	f.serve(func(http.ResponseWriter, *http.Request) bool { return false })
	// Gone, where it should be somewhere.
	f.plain(f.origin, "update-ref", "-d", "refs/heads/"+f.task.Branch)
	wantCode(t, perform(r.SHA, r.BaseSHA), nod.Conflict, "gone")
	// A neighbour whose name differs in case.
	f.plain(f.origin, "branch", "nod/7-FIX", "main")
	wantCode(t, perform(r.SHA, ""), nod.Conflict, "only in case")
	if got := f.remoteBranch(f.task.Branch); got != "" {
		t.Errorf("branch at %s", got)
	}
}

func TestOnlyPreparedCommitsGoOnlyUnderNod(t *testing.T) {
	f := newFixture(t)
	r := f.prepared()
	head := strings.TrimSpace(f.plain(f.agent, "rev-parse", "HEAD"))
	for _, c := range []struct {
		in   nod.PushBranch
		code nod.Code
	}{
		{nod.PushBranch{Branch: "main", SHA: r.SHA}, nod.Forbidden},
		{nod.PushBranch{Branch: "NOD/x", SHA: r.SHA}, nod.Forbidden},
		{nod.PushBranch{Branch: "refs/tags/v1", SHA: r.SHA}, nod.Forbidden},
		{nod.PushBranch{Branch: "nod/", SHA: r.SHA}, nod.Forbidden},
		{nod.PushBranch{Branch: "", SHA: r.SHA}, nod.Forbidden},
		{nod.PushBranch{Branch: "nod/../main", SHA: r.SHA}, nod.Invalid},
		{nod.PushBranch{Branch: "nod/x:refs/heads/main", SHA: r.SHA}, nod.Invalid},
		{nod.PushBranch{Branch: "nod/x", SHA: "HEAD"}, nod.Invalid},
		{nod.PushBranch{Branch: "nod/x", SHA: "+" + r.SHA}, nod.Invalid},
		{nod.PushBranch{Branch: "nod/x", SHA: ""}, nod.Invalid}, // would delete
		{nod.PushBranch{Branch: "nod/x", SHA: head}, nod.NotFound},
		{nod.PushBranch{Branch: "nod/x", SHA: r.BaseSHA}, nod.NotFound},
	} {
		intent, err := json.Marshal(c.in)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.git.Pusher().Perform(t.Context(), f.task, nod.Effect{Kind: nod.EffectPush, Intent: intent})
		if nod.CodeOf(err) != c.code {
			t.Errorf("push of %+v: %v, want %s", c.in, err, c.code)
		}
	}
	refs := f.plain(f.origin, "for-each-ref", "--format=%(refname)")
	if refs != "refs/heads/main\n" {
		t.Errorf("refs on the server: %s", refs)
	}
}

// rejecting makes the server refuse pushes with GitHub's words.
func (f *fixture) rejecting(words string) {
	f.t.Helper()
	hook := "#!/bin/sh\necho " + "'" + words + "' >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(f.origin, "hooks", "pre-receive"), []byte(hook), 0o755); err != nil {
		f.t.Fatal(err)
	}
}

func TestR17WorkflowRefusalSaysWhyAndLosesNothing(t *testing.T) {
	f := newFixture(t)
	base := f.seed()
	f.write(f.agent, "x", "x\n")
	f.commit(f.agent, "feat: no workflow")
	plain := f.prepare(f.importAll(base)).Revision
	f.write(f.agent, ".github/workflows/ci.yml", "on: push\n")
	f.commit(f.agent, "ci: workflow")
	touching := f.prepare(f.importAll(base)).Revision
	f.rejecting("refusing to allow a GitHub App to create or update workflow `.github/workflows/ci.yml` without `workflows` permission")
	_, err := f.git.Pusher().Perform(t.Context(), f.task, f.effect(plain.SHA, ""))
	wantCode(t, err, nod.Conflict, "touches none")
	_, err = f.git.Pusher().Perform(t.Context(), f.task, f.effect(touching.SHA, ""))
	wantCode(t, err, nod.Forbidden, "may not")
	var kept bytes.Buffer
	if err := f.git.Bundle(t.Context(), f.task, base, touching.SHA, &kept); err != nil || kept.Len() == 0 {
		t.Errorf("bundle of %d bytes, %v", kept.Len(), err)
	}
	f.rejecting("protected branch")
	_, err = f.git.Pusher().Perform(t.Context(), f.task, f.effect(plain.SHA, ""))
	wantCode(t, err, nod.Forbidden, "GitHub refused the push")
}

func TestServerAnswersBecomeCodes(t *testing.T) {
	f := newFixture(t)
	for status, code := range map[int]nod.Code{
		401: nod.Unavailable, 403: nod.Forbidden, 404: nod.NotFound, 429: nod.RateLimited, 500: nod.Unavailable, 302: nod.Unavailable,
	} {
		f.serve(func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Location", "https://elsewhere.invalid/")
			w.WriteHeader(status)
			return true
		})
		_, err := f.git.Seed(t.Context(), f.task, "main", filepath.Join(t.TempDir(), "x"))
		if nod.CodeOf(err) != code {
			t.Errorf("status %d: %v, want %s", status, err, code)
		}
	}
}

func TestRefusedTokenIsAskedForOnceMore(t *testing.T) {
	f := newFixture(t)
	f.token.Store("fresh")
	asked := 0
	inner := f.git.remote
	f.git.remote = func(ctx context.Context, t nod.Task, w bool) (string, nod.Secret, error) {
		url, token, err := inner(ctx, t, w)
		if asked++; asked > 1 {
			token = nod.NewSecret("fresh")
		}
		return url, token, err
	}
	f.seed()
}

// A ref that is gone for a moment is waited for; one that stays gone is said to be, and
// the work is kept.
func TestR15GoneBranchIsWaitedForThenSaid(t *testing.T) {
	f := newFixture(t)
	base := f.seed()
	f.write(f.agent, "x", "x\n")
	f.commit(f.agent, "feat: x")
	head := f.importAll(base)
	var looks atomic.Int32
	f.serve(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/info/refs") && r.Header.Get("Authorization") != "" {
			switch looks.Add(1) {
			case 1:
				f.plain(f.origin, "update-ref", "-d", "refs/heads/main")
			case 2:
				f.plain(f.origin, "update-ref", "refs/heads/main", base)
			}
		}
		return false
	})
	if p := f.prepare(head); p.Revision.BaseSHA != base || looks.Load() < 2 {
		t.Errorf("prepared on %s after %d looks", p.Revision.BaseSHA, looks.Load())
	}
	f.plain(f.origin, "update-ref", "-d", "refs/heads/main")
	_, err := f.git.Prepare(t.Context(), nod.PrepareSpec{Task: f.task, Head: head, BaseRef: "main"})
	wantCode(t, err, nod.NotFound, `"main" does not exist on GitHub`)
	if err := f.git.Bundle(t.Context(), f.task, base, head, &bytes.Buffer{}); err != nil {
		t.Errorf("the work is not kept: %v", err)
	}
}
