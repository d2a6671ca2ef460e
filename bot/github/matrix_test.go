package github_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"nod"
	"nod/bot"
	"nod/bot/github"
	"nod/bot/github/githubsim"
	"nod/bot/hostgit"
	"nod/runtime/runtimetest"
)

// publisher is the whole last metre over real git: a repository on the simulated
// GitHub, the supervisor's own git, and both ways to push.
type publisher struct {
	*world
	git     *hostgit.Git
	commits *github.Commits
	home    string
	allows  string // file of allowed signers
	n       int
}

func newPublisher(t *testing.T) *publisher {
	t.Helper()
	p := &publisher{world: newWorld(t), home: t.TempDir()}
	key := filepath.Join(p.home, "key")
	public, err := hostgit.GenerateSigningKey(key)
	p.ok(err)
	p.ok(p.sim.AddSigningKey("wil", public))
	email := p.users["wil"].Email
	p.allows = filepath.Join(p.home, "allowed")
	p.ok(os.WriteFile(p.allows, []byte(email+" "+public+"\n"), 0o600))
	p.git, err = hostgit.New(hostgit.Config{Dir: filepath.Join(t.TempDir(), "git"), SigningKey: key, Author: hostgit.Identity{Name: "Wil", Email: email},
		Remote: p.client.Remote})
	p.ok(err)
	p.commits = p.client.Commits(p.git)
	return p
}

// in runs git as an agent would.
func (p *publisher) in(dir string, args ...string) string {
	p.Helper()
	cmd := exec.CommandContext(p.Context(), "git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.home, "LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=core.precomposeUnicode", "GIT_CONFIG_VALUE_0=false", "GIT_AUTHOR_NAME=agent", "GIT_AUTHOR_EMAIL=agent@example.invalid",
		"GIT_COMMITTER_NAME=agent", "GIT_COMMITTER_EMAIL=agent@example.invalid"}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		p.Fatalf("git %q: %v: %s", args, err, errs.String())
	}
	return strings.TrimRight(string(out), "\n")
}

func (p *publisher) file(dir, name, text string) {
	p.Helper()
	p.ok(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
	p.ok(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
}

func (p *publisher) save(dir, message string) {
	p.Helper()
	p.in(dir, "add", "-A")
	p.in(dir, "commit", "-q", "--allow-empty", "-m", message)
}

// begin makes a task and a workspace for it.
func (p *publisher) begin() (t nod.Task, dir, base string) {
	p.Helper()
	p.n++
	t = p.task
	t.ID, t.Branch = fmt.Sprintf("t%016x", p.n), fmt.Sprintf("nod/1-%d", p.n)
	dir = filepath.Join(p.TempDir(), "w")
	base, err := p.git.Seed(p.Context(), t, t.BaseRef, dir)
	p.ok(err)
	return t, dir, base
}

// prepare takes what is in dir out and prepares it.
func (p *publisher) prepare(t nod.Task, dir, base string) (nod.Revision, error) {
	p.Helper()
	p.in(dir, "bundle", "create", "-q", filepath.Join(dir, ".git", "out"), base+"..HEAD")
	raw, err := os.ReadFile(filepath.Join(dir, ".git", "out"))
	p.ok(err)
	head, err := p.git.Import(p.Context(), t, bytes.NewReader(raw))
	if err != nil {
		return nod.Revision{}, err
	}
	got, err := p.git.Prepare(p.Context(), nod.PrepareSpec{Task: t, Head: head, BaseRef: t.BaseRef, Trailers: []string{"Nod-Task: " + t.ID}})
	return got.Revision, err
}

func (p *publisher) performer(mode nod.SignMode) bot.Performer {
	if mode == nod.SignGitHub {
		return p.commits
	}
	return p.git.Pusher()
}

func (p *publisher) pushOf(r nod.Revision, mode nod.SignMode, old string) nod.Effect {
	e := p.effect(nod.EffectPush, nod.PushBranch{Branch: r.Branch, SHA: r.SHA, Base: r.BaseSHA, Old: old, Sign: mode})
	e.Key = "push/" + r.SHA
	return e
}

// push publishes r and returns it as the store would keep it.
func (p *publisher) push(t nod.Task, r nod.Revision, mode nod.SignMode, old string) (nod.Revision, error) {
	raw, err := p.performer(mode).Perform(p.Context(), t, p.pushOf(r, mode, old))
	if err != nil {
		return r, err
	}
	var out nod.PushOutcome
	p.ok(json.Unmarshal(raw, &out))
	r.Publish(out.Published)
	if r.Published() != out.SHA {
		p.Errorf("branch at %s, the revision says %s", out.SHA, r.Published())
	}
	return r, nil
}

// same compares every commit of r on GitHub, fetched with plain git, with what was prepared.
func (p *publisher) same(r nod.Revision, mode nod.SignMode) {
	p.Helper()
	dir := p.TempDir()
	token, err := p.sim.UserToken("wil")
	p.ok(err)
	p.in(dir, "init", "-q", "--bare")
	p.in(dir, "fetch", "-q", strings.Replace(p.base, "http://", "http://x:"+token.Reveal()+"@", 1)+"/"+full+".git", r.BaseRef, "refs/heads/"+r.Branch+":refs/heads/got")
	ids := strings.Fields(p.in(dir, "rev-list", "--reverse", r.BaseSHA+"..got"))
	if len(ids) != len(r.Commits) {
		p.Fatalf("%d commits on GitHub, %d prepared", len(ids), len(r.Commits))
	}
	parent := r.BaseSHA
	for i, id := range ids {
		want := r.Commits[i]
		got := strings.SplitN(p.in(dir, "log", "-1", "--format=%T%n%P%n%B", id), "\n", 3)
		if id != want.OnGitHub() || got[0] != want.Tree || got[1] != parent || strings.TrimRight(got[2], "\n") != strings.TrimRight(want.Message, "\n") {
			p.Errorf("commit %d is %s %q on GitHub, prepared was %+v", i, id, got, want)
		}
		if mode == nod.SignSSH {
			p.in(dir, "-c", "gpg.ssh.allowedSignersFile="+p.allows, "verify-commit", id)
		}
		parent = id
	}
}

type matrixCase struct {
	make    func(p *publisher, dir string)
	refused map[nod.SignMode]nod.Code // while preparing (both), or while pushing
	says    string
	only    nod.SignMode // empty: both
}

func both(code nod.Code) map[nod.SignMode]nod.Code {
	return map[nod.SignMode]nod.Code{nod.SignSSH: code, nod.SignGitHub: code}
}

var matrix = map[string]matrixCase{
	"create": {make: func(p *publisher, dir string) {
		p.file(dir, "new/deep/file.txt", "new\n")
		p.file(dir, "empty", "")
		p.save(dir, "feat: create")
	}},
	"edit": {make: func(p *publisher, dir string) {
		p.file(dir, "a.txt", "edited\r\nwithout an end")
		p.save(dir, "fix: edit")
	}},
	"delete": {make: func(p *publisher, dir string) {
		p.ok(os.RemoveAll(filepath.Join(dir, "dir")))
		p.save(dir, "fix: delete")
	}},
	"rename": {make: func(p *publisher, dir string) { p.in(dir, "mv", "a.txt", "b.txt"); p.save(dir, "refactor: rename") }},
	"directory in place of a file and back": {make: func(p *publisher, dir string) {
		p.ok(os.Remove(filepath.Join(dir, "a.txt")))
		p.file(dir, "a.txt/inside", "x\n")
		p.ok(os.RemoveAll(filepath.Join(dir, "dir")))
		p.file(dir, "dir", "a file now\n")
		p.save(dir, "refactor: swap")
	}},
	"mode": {make: func(p *publisher, dir string) {
		p.ok(os.Chmod(filepath.Join(dir, "a.txt"), 0o755))
		p.ok(os.Chmod(filepath.Join(dir, "run.sh"), 0o644))
		p.save(dir, "fix: modes")
	}},
	"symlink": {make: func(p *publisher, dir string) {
		p.ok(os.Symlink("a.txt", filepath.Join(dir, "link")))
		p.ok(os.Symlink("../a.txt", filepath.Join(dir, "dir", "up")))
		p.save(dir, "feat: links")
	}},
	"binary": {make: func(p *publisher, dir string) {
		p.file(dir, "bin", "\x00\xff\xfe\x80PNG\r\n\x1a")
		p.file(dir, "nul", "text with a \x00 in it")
		p.file(dir, "latin1", "caf\xe9\n")
		p.save(dir, "feat: bytes")
	}},
	"5 MB file": {make: func(p *publisher, dir string) {
		p.file(dir, "big", strings.Repeat("\x00123456789abcde\n", 5<<16))
		p.save(dir, "feat: big")
	}},
	"5 MB of text": {make: func(p *publisher, dir string) {
		p.file(dir, "big", strings.Repeat("0123456789abcde\n", 5<<16))
		p.save(dir, "feat: big")
	}, refused: both(nod.TooLarge), says: "could not be shown whole"},
	"unicode names": {make: func(p *publisher, dir string) {
		for _, name := range []string{"caf\u00e9.txt", "nfd/cafe\u0301.txt", "\U0001F389 party.txt", "日本/語.txt", "line\nbreak", `"quo"te'd \back`, "tab\there", ":(top)x", "-x", " lead"} {
			p.file(dir, name, name)
		}
		p.save(dir, "feat: names\n\nBody with ä, 🎉 and \"quotes\".")
	}},
	"empty commit": {make: func(p *publisher, dir string) {
		p.save(dir, "chore: nothing")
		p.file(dir, "a.txt", "something\n")
		p.save(dir, "fix: something")
	}},
	"name that is not UTF-8": {make: func(p *publisher, dir string) {
		p.file(dir, "caf\xe9.txt", "x\n")
		p.save(dir, "feat: latin1 name")
	}, refused: both(nod.Invalid), says: "not UTF-8"},
	"only an empty commit": {make: func(p *publisher, dir string) { p.save(dir, "chore: nothing") }, refused: both(nod.NotFound), says: "nothing to publish"},
	"50 commits": {make: func(p *publisher, dir string) {
		for i := range 50 {
			p.file(dir, "a.txt", fmt.Sprintf("step %d\n", i))
			p.save(dir, fmt.Sprintf("feat: step %d", i))
		}
	}},
	"merge commit": {make: func(p *publisher, dir string) {
		p.in(dir, "checkout", "-q", "-b", "side", "HEAD")
		p.file(dir, "side", "x\n")
		p.save(dir, "feat: side")
		p.in(dir, "checkout", "-q", "-")
		p.file(dir, "a.txt", "other\n")
		p.save(dir, "feat: other")
		p.in(dir, "merge", "-q", "--no-ff", "-m", "Merge side", "side")
	}, refused: both(nod.Invalid), says: "merge commit"},
	"1,000 files": {make: func(p *publisher, dir string) {
		for i := range 1000 {
			p.file(dir, fmt.Sprintf("many/%d/%d.txt", i%40, i), fmt.Sprintf("file %d\n", i))
		}
		p.save(dir, "feat: many")
	}},
	"no file left": {make: func(p *publisher, dir string) {
		p.in(dir, "rm", "-q", "-r", ".")
		p.save(dir, "feat: clean slate")
	}, refused: map[nod.SignMode]nod.Code{nod.SignGitHub: nod.Unsupported}, says: "leaves no file"},
	"large file": {make: func(p *publisher, dir string) {
		p.file(dir, "huge", strings.Repeat("\x00123456789abcde\n", 31<<16))
		p.save(dir, "feat: huge")
	}, only: nod.SignGitHub, refused: map[nod.SignMode]nod.Code{nod.SignGitHub: nod.Unsupported}, says: "larger than 30 MiB"},
}

// TestPublishedIsWhatWasPrepared holds invariant 7 with both ways to sign: each kind
// of change comes out on GitHub with the tree, message and parents that were prepared
// and verified, or is refused with the documented words and moves nothing.
func TestPublishedIsWhatWasPrepared(t *testing.T) {
	p := newPublisher(t)
	text := "one\n"
	_, err := p.sim.Commit("wil", full, "main", "feat: files", map[string]*string{"a.txt": &text, "dir/b.txt": &text, "run.sh": ptr("#!/bin/sh\n")})
	p.ok(err)
	names := make([]string, 0, len(matrix))
	for name := range matrix {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, mode := range []nod.SignMode{nod.SignSSH, nod.SignGitHub} {
			if only := matrix[name].only; only != "" && only != mode {
				continue
			}
			t.Run(name+"/"+string(mode), func(t *testing.T) {
				if mode == nod.SignSSH {
					runtimetest.Program(t, "ssh-keygen") // git verifies with it
				}
				outer := p.T
				p.T = t
				defer func() { p.T = outer }()
				p.walk(matrix[name], mode)
			})
		}
	}
}

func ptr(s string) *string { return &s }

func (p *publisher) walk(c matrixCase, mode nod.SignMode) {
	task, dir, base := p.begin()
	c.make(p, dir)
	r, err := p.prepare(task, dir, base)
	if err == nil {
		r, err = p.push(task, r, mode, "")
	}
	if code := c.refused[mode]; code != "" {
		p.wantCode(err, code)
		if msg := nod.PublicMessage(err); !strings.Contains(msg, c.says) {
			p.Errorf("refused with %q, not with %q", msg, c.says)
		}
		seen, err := p.client.Delivered(p.Context(), task, nod.Revision{Branch: task.Branch, BaseRef: task.BaseRef})
		if err != nil || seen.BranchSHA != "" {
			p.Errorf("after the refusal the branch is %q, %v", seen.BranchSHA, err)
		}
		return
	}
	p.ok(err)
	p.same(r, mode)
	_, err = p.client.OpenPulls().Perform(p.Context(), task, p.effect(nod.EffectOpenPR, nod.OpenPullRequest{Title: "x", Head: r.Branch, Base: r.BaseRef, SHA: r.Published()}))
	p.ok(err)
	seen, err := p.client.Delivered(p.Context(), task, r)
	p.ok(err)
	if seen.BranchSHA != r.Published() || seen.PullRequest.HeadSHA != r.Published() || len(seen.Commits) != len(r.Commits) {
		p.Fatalf("delivered %+v", seen)
	}
	for i, on := range seen.Commits {
		if !on.Verified || on.SHA != r.Commits[i].OnGitHub() || on.Tree != r.Commits[i].Tree {
			p.Errorf("commit %d of the pull request is %+v", i, on)
		}
	}
}

// TestAnotherRoundGoesOnTopOfWhatGitHubMade: rework after GitHub made the commits
// anew prepares only what is new, on top, and never rewrites the branch.
func TestAnotherRoundGoesOnTopOfWhatGitHubMade(t *testing.T) {
	p := newPublisher(t)
	task, dir, base := p.begin()
	p.file(dir, "a.txt", "one\n")
	p.save(dir, "feat: one")
	first, err := p.prepare(task, dir, base)
	p.ok(err)
	first, err = p.push(task, first, nod.SignGitHub, "")
	p.ok(err)
	p.file(dir, "a.txt", "two\n")
	p.save(dir, "feat: two")
	second, err := p.prepare(task, dir, base)
	p.ok(err)
	if second.BaseSHA != first.Published() || len(second.Commits) != 1 {
		t.Fatalf("the second round is %d commits on %s, want 1 on %s", len(second.Commits), second.BaseSHA, first.Published())
	}
	second, err = p.push(task, second, nod.SignGitHub, first.Published())
	p.ok(err)
	p.same(second, nod.SignGitHub)
}

// TestPushThatGitHubSignsHappensOnce: whatever is lost on the way, one branch update.
func TestPushThatGitHubSignsHappensOnce(t *testing.T) {
	p := newPublisher(t)
	task, dir, base := p.begin()
	for i := range 3 {
		p.file(dir, "a.txt", fmt.Sprint(i))
		p.save(dir, fmt.Sprintf("feat: %d", i))
	}
	r, err := p.prepare(task, dir, base)
	p.ok(err)
	e := p.pushOf(r, nod.SignGitHub, "")
	lookup := func() string {
		t.Helper()
		out, err := p.client.Commits(p.git).Lookup(t.Context(), task, e)
		p.ok(err)
		return string(out)
	}
	if out := lookup(); out != "" {
		t.Errorf("before the push: %s", out)
	}
	done, err := p.push(task, r, nod.SignGitHub, "")
	p.ok(err)
	updates := func() int { return p.count("POST", "/repos/"+full+"/git/refs") }
	n := updates()
	var found nod.PushOutcome
	p.ok(json.Unmarshal([]byte(lookup()), &found))
	if found.SHA != done.Published() || len(found.Published) != 3 {
		t.Errorf("found %+v", found)
	}
	again, err := p.push(task, r, nod.SignGitHub, "") // by a process that knows nothing
	p.ok(err)
	if again.Published() != done.Published() || updates() != n || n != 1 {
		t.Errorf("pushed again to %s with %d updates", again.Published(), updates())
	}
	_, err = p.sim.Commit("wil", full, task.Branch, "feat: theirs", map[string]*string{"theirs": ptr("x")})
	p.ok(err)
	_, err = p.commits.Lookup(t.Context(), task, e)
	p.wantCode(err, nod.NeedsHuman)
	_, err = p.push(task, r, nod.SignGitHub, "")
	p.wantCode(err, nod.Conflict)
}

// TestRetryGoesOnWhereItWasStopped: what was made is not made again.
func TestRetryGoesOnWhereItWasStopped(t *testing.T) {
	p := newPublisher(t)
	task, dir, base := p.begin()
	for i := range 4 {
		p.file(dir, "a.bin", fmt.Sprintf("\x00%d", i))
		p.save(dir, fmt.Sprintf("feat: %d", i))
	}
	r, err := p.prepare(task, dir, base)
	p.ok(err)
	p.sim.Inject(githubsim.Fault{Method: "POST", Path: "/git/commits", Skip: 2, Status: 502})
	_, err = p.push(task, r, nod.SignGitHub, "")
	p.wantCode(err, nod.Unavailable)
	r, err = p.push(task, r, nod.SignGitHub, "")
	p.ok(err)
	p.same(r, nod.SignGitHub)
	if blobs, commits := p.count("POST", "/repos/"+full+"/git/blobs"), p.count("POST", "/repos/"+full+"/git/commits"); blobs != 4 || commits > 5 {
		t.Errorf("%d blobs and %d commits were made", blobs, commits)
	}
}

// TestPushThatIsNotSignedIsRefusedAloud: GitHub leaves the commits unsigned.
func TestPushThatIsNotSignedIsRefusedAloud(t *testing.T) {
	p := newPublisher(t)
	task, dir, base := p.begin()
	p.file(dir, "a.txt", "one\n")
	p.save(dir, "feat: one")
	r, err := p.prepare(task, dir, base)
	p.ok(err)
	p.sim.SignsForApps(false)
	_, err = p.push(task, r, nod.SignGitHub, "")
	p.wantCode(err, nod.Failed)
	if at, err := p.client.Delivered(t.Context(), task, r); err != nil || at.BranchSHA != "" {
		t.Errorf("branch at %q, %v", at.BranchSHA, err)
	}
	e, ok := errors.AsType[*nod.Error](err)
	if !ok || !strings.Contains(e.Hint, "ssh") {
		t.Errorf("the refusal offers %v", err)
	}
	p.sim.SignsForApps(true)
	_, err = p.push(task, r, nod.SignGitHub, "")
	p.ok(err)
}

// TestR24APICommitsAreExactOrRefused: what commits made by API lose elsewhere (the old
// file of a rename, execute bits, links, the signature) comes out as prepared, and a
// branch that moved meanwhile is told apart from every other error.
func TestR24APICommitsAreExactOrRefused(t *testing.T) {
	p := newPublisher(t)
	text := "one\n"
	_, err := p.sim.Commit("wil", full, "main", "feat: files", map[string]*string{"a.txt": &text, "run.sh": ptr("#!/bin/sh\n")})
	p.ok(err)
	task, dir, base := p.begin()
	p.in(dir, "mv", "a.txt", "renamed.txt")
	p.ok(os.Chmod(filepath.Join(dir, "run.sh"), 0o755))
	p.ok(os.Symlink("renamed.txt", filepath.Join(dir, "link")))
	p.save(dir, "refactor: move")
	r, err := p.prepare(task, dir, base)
	p.ok(err)
	p.sim.Inject(githubsim.Fault{Method: "POST", Path: "/git/refs", Status: 422})
	_, err = p.push(task, r, nod.SignGitHub, "")
	if err == nil || nod.CodeOf(err) == nod.Conflict {
		t.Errorf("a refusal that is not about the branch's place is taken for one: %v", err)
	}
	_, err = p.sim.Commit("wil", full, task.Branch, "feat: theirs", map[string]*string{"theirs": ptr("x")})
	p.ok(err)
	_, err = p.push(task, r, nod.SignGitHub, "")
	p.wantCode(err, nod.Conflict)
	p.ok(p.sim.DeleteBranch("wil", full, task.Branch))
	r, err = p.push(task, r, nod.SignGitHub, "")
	p.ok(err)
	p.same(r, nod.SignGitHub)
	for _, c := range r.Commits {
		if verified, reason, err := p.sim.Verification(full, c.OnGitHub()); err != nil || !verified {
			t.Errorf("commit %s is not verified: %s, %v", c.OnGitHub(), reason, err)
		}
	}
}
