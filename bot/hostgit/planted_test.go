package hostgit

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// plant puts everything into a repository that makes git run a program, each of
// which leaves a file in the returned directory.
func (f *fixture) plant(dir string) (traps string) {
	f.t.Helper()
	traps = f.t.TempDir()
	script := func(path, text string) string {
		f.t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			f.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			f.t.Fatal(err)
		}
		return path
	}
	bins := f.t.TempDir()
	bin := script(filepath.Join(bins, "trap"), ": > \""+traps+"/$1\"\ncase $1 in clean|smudge|textconv) exec cat ;; uploadhook) shift; exec \"$@\" ;; merge|extdiff|diffdriver) exit 0 ;; esac\nexit 1\n")
	named := func(name string) string { return script(filepath.Join(bins, name), "exec "+bin+" "+name+"\n") } // for what git gives arguments of its own
	for _, h := range plantedHooks {
		script(filepath.Join(dir, ".git", "hooks", h), ": > \""+traps+"/hook-"+h+"\"\n")
	}
	included := filepath.Join(dir, ".git", "more")
	f.write(dir, ".git/more", "[alias]\n\tincluded = \"!"+bin+" include\"\n")
	for _, kv := range [][2]string{
		{"core.fsmonitor", bin + " fsmonitor"}, {"core.sshCommand", bin + " ssh"}, {"core.editor", bin + " editor"}, {"sequence.editor", bin + " sequence"},
		{"core.askPass", named("askpass")}, {"credential.helper", "!" + bin + " credential"}, {"gpg.program", named("gpg")}, {"gpg.ssh.program", named("gpgssh")},
		{"filter.trap.clean", bin + " clean"}, {"filter.trap.smudge", bin + " smudge"}, {"diff.trap.textconv", bin + " textconv"}, {"diff.external", bin + " extdiff"},
		{"diff.driven.command", bin + " diffdriver"}, {"merge.trap.driver", bin + " merge"}, {"uploadpack.packObjectsHook", bin + " uploadhook"},
		{"alias.planted", "!" + bin + " alias"}, {"include.path", included}, {"remote.local.url", f.origin}, {"remote.local.uploadpack", bin + " uploadpack"},
		{"remote.local.receivepack", bin + " receivepack"}, {"protocol.ext.allow", "always"}, {"url.ext::" + bin + " ext .insteadOf", "https://"},
		{"commit.gpgSign", "true"}, {"user.signingKey", "key::ssh-ed25519 AAAA"},
	} {
		f.plain(dir, "config", "--", kv[0], kv[1])
	}
	f.write(dir, ".gitattributes", "* filter=trap diff=trap merge=trap\ndriven.txt diff=driven\nREADME.md !diff\n")
	return traps
}

// plantedHooks is every hook that a plain clone can be made to run here.
var plantedHooks = []string{"pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "post-checkout", "pre-push", "pre-rebase", "post-rewrite", "post-merge",
	"post-index-change", "reference-transaction", "pre-receive", "update", "post-receive", "post-update"}

// trip does with plain git, in the planted clone, what sets each trap off.
func (f *fixture) trip() {
	f.t.Helper()
	plainly := func(args ...string) { _, _ = f.try(f.agent, "", args...) } // traps may make it fail
	const unsigned = "commit.gpgSign=false"
	plainly("status")
	plainly("add", "-A")
	plainly("diff", "HEAD")
	plainly("diff", "--no-ext-diff", "--textconv", "HEAD")
	plainly("commit", "--quiet", "-m", "fix: signed")
	plainly("-c", "gpg.format=ssh", "commit", "--quiet", "-m", "fix: signed")
	plainly("-c", unsigned, "commit", "--quiet")
	plainly("-c", unsigned, "commit", "--quiet", "-m", "fix: work")
	plainly("-c", unsigned, "-c", "core.editor=true", "commit", "--quiet", "--amend")
	plainly("-c", unsigned, "rebase", "-i", "HEAD~1")
	plainly("rebase", "--abort")
	plainly("branch", "other")
	for _, branch := range []string{"other", f.task.Branch} {
		plainly("checkout", "--quiet", "-f", branch)
		f.write(f.agent, "lib/a.txt", lines(20, " changed on "+branch))
		plainly("-c", unsigned, "commit", "--quiet", "-a", "-m", "fix: on "+branch)
	}
	plainly("-c", unsigned, "merge", "--quiet", "-m", "merge", "other")
	plainly("reset", "--quiet", "--hard", "HEAD~1") // a merge would not be published
	plainly("planted")
	plainly("included")
	plainly("fetch", "ssh://example.invalid/x")
	plainly("fetch", "https://example.invalid/x")
	plainly("fetch", "local")
	plainly("push", "local", "HEAD:refs/heads/planted")
	plainly("ls-remote", f.url)
	plainly("push", f.origin, "HEAD:refs/heads/planted")
	_, _ = f.try(f.origin, "", "push", f.agent, "main:refs/heads/pushed-to")
	_, _ = f.try(f.origin, "", "update-ref", "-d", "refs/heads/planted")
	// A program that hands out packs is taken from the user's own configuration only.
	cmd := exec.CommandContext(f.t.Context(), "git", "clone", "--quiet", "--no-local", "--bare", "--origin", "copied", f.agent, filepath.Join(f.t.TempDir(), "c"))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + f.home, "GIT_CONFIG_GLOBAL=" + filepath.Join(f.agent, ".git", "config")}
	if out, err := cmd.CombinedOutput(); err != nil {
		f.t.Logf("the clone: %v: %s", err, out)
	}
}

func sprung(t *testing.T, traps string) []string {
	t.Helper()
	list, err := os.ReadDir(traps)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
		if err := os.Remove(filepath.Join(traps, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// The control: plain git in the agent's clone runs what was planted there. The
// claim: the same work goes the whole way without running any of it.
func TestNothingPlantedByAnAgentEverRuns(t *testing.T) {
	f := newFixture(t)
	base := f.seed()
	traps := f.plant(f.agent)
	f.write(f.agent, "lib/a.txt", lines(20, " changed"))
	f.write(f.agent, "driven.txt", "x\n")
	f.write(f.agent, "README.md", "hello\nchanged\n")
	f.trip()
	got := sprung(t, traps)
	want := []string{"fsmonitor", "ssh", "editor", "sequence", "askpass", "credential", "gpg", "gpgssh", "clean", "smudge", "textconv", "extdiff", "diffdriver",
		"merge", "uploadhook", "alias", "include", "uploadpack", "receivepack", "ext"}
	for _, h := range plantedHooks {
		want = append(want, "hook-"+h)
	}
	for _, trap := range want {
		if !slices.Contains(got, trap) {
			t.Errorf("the control did not run %s; it ran %q", trap, got)
		}
	}
	bundle := f.bundle(base)
	if got := sprung(t, traps); len(got) > 0 {
		t.Logf("making the bundle, inside the environment, ran %q", got)
	}
	// The same traps in what the host's user has configured, and in its environment.
	global := filepath.Join(f.agent, ".git", "config")
	for k, v := range map[string]string{
		"HOME": f.agent, "XDG_CONFIG_HOME": f.agent, "GIT_CONFIG_GLOBAL": global, "GIT_CONFIG_SYSTEM": global, "GIT_CONFIG_PARAMETERS": "'core.fsmonitor=touch " + traps + "/parameters'",
		"GIT_EXTERNAL_DIFF": "touch " + traps + "/env-diff", "GIT_SSH_COMMAND": "touch " + traps + "/env-ssh", "GIT_ASKPASS": "touch " + traps + "/env-askpass",
		"GIT_PAGER": "touch " + traps + "/env-pager", "GIT_EDITOR": "touch " + traps + "/env-editor", "GIT_DIR": filepath.Join(f.agent, ".git"), "GIT_WORK_TREE": f.agent,
		"GIT_INDEX_FILE": filepath.Join(f.agent, ".git", "index"), "GIT_TEMPLATE_DIR": filepath.Join(f.agent, ".git"), "GIT_PROXY_COMMAND": "touch " + traps + "/env-proxy",
		"GIT_TRACE": filepath.Join(traps, "trace"), "GIT_OBJECT_DIRECTORY": filepath.Join(f.agent, ".git", "objects"), "LC_ALL": "de_DE.UTF-8", "PATH": f.agent,
	} {
		t.Setenv(k, v)
	}
	head, err := f.git.Import(t.Context(), f.task, bytes.NewReader(bundle))
	if err != nil {
		t.Fatal(err)
	}
	p := f.prepare(head)
	if err := f.git.Bundle(t.Context(), f.task, base, p.Revision.SHA, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	f.push(p.Revision.SHA, "")
	next := f.task
	next.ID, next.Branch = "t2222222222222222", "nod/8-next"
	clone := filepath.Join(t.TempDir(), "next")
	if _, err := f.git.Seed(t.Context(), next, f.task.Branch, clone); err != nil { // attributes that name filters, checked out
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(clone, "lib/a.txt")); err != nil || !strings.Contains(string(b), "changed") {
		t.Errorf("clone: %q, %v", b, err)
	}
	if err := f.git.Forget(t.Context(), f.task); err != nil {
		t.Fatal(err)
	}
	if got := sprung(t, traps); len(got) > 0 {
		t.Errorf("the host ran %q", got)
	}
	if !strings.Contains(string(p.Diff), "+line 1 changed") {
		t.Errorf("diff:\n%s", p.Diff)
	}
}
