package hostgit

import (
	"bytes"
	"os"
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
	bin := filepath.Join(f.t.TempDir(), "trap")
	if err := os.WriteFile(bin, []byte("#!/bin/sh\n: > \""+traps+"/$1\"\ncase $1 in clean|smudge|textconv) exec cat ;; esac\nexit 1\n"), 0o755); err != nil {
		f.t.Fatal(err)
	}
	hooks := filepath.Join(dir, ".git", "hooks")
	if err := os.MkdirAll(hooks, 0o755); err != nil {
		f.t.Fatal(err)
	}
	for _, h := range []string{"pre-commit", "post-commit", "post-checkout", "pre-push", "pre-rebase", "post-rewrite", "post-index-change", "reference-transaction", "post-update", "pre-receive", "update", "pre-auto-gc"} {
		if err := os.WriteFile(filepath.Join(hooks, h), []byte("#!/bin/sh\n: > \""+traps+"/hook-"+h+"\"\n"), 0o755); err != nil {
			f.t.Fatal(err)
		}
	}
	for key, value := range map[string]string{
		"core.fsmonitor": bin + " fsmonitor", "core.sshCommand": bin + " ssh", "core.pager": bin + " pager", "core.editor": bin + " editor",
		"core.askPass": bin + " askpass", "credential.helper": "!" + bin + " credential", "gpg.program": bin, "gpg.ssh.program": bin, "commit.gpgSign": "true",
		"filter.trap.clean": bin + " clean", "filter.trap.smudge": bin + " smudge", "diff.trap.textconv": bin + " textconv", "diff.external": bin + " extdiff",
		"diff.trap.command": bin + " diffdriver", "merge.trap.driver": bin + " merge", "uploadpack.packObjectsHook": bin + " upload", "core.alternateRefsCommand": bin + " alternates",
		"alias.log": "!" + bin + " alias", "remote.origin.uploadpack": bin + " uploadpack", "remote.origin.receivepack": bin + " receivepack", "remote.origin.vcs": "trap",
		"protocol.ext.allow": "always", "url.ext::" + bin + " ext.insteadOf": "https://", "sequence.editor": bin + " sequence", "interactive.diffFilter": bin + " interactive",
	} {
		f.plain(dir, "config", "--", key, value)
	}
	f.write(dir, ".gitattributes", "* filter=trap diff=trap merge=trap\n")
	return traps
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
	plainly := func(args ...string) { _, _ = f.try(f.agent, "", args...) } // traps may make it fail
	plainly("status")
	plainly("add", "-A")
	plainly("diff", "HEAD")
	plainly("-c", "commit.gpgSign=false", "commit", "--quiet", "-m", "fix: work")
	plainly("checkout", "--quiet", "HEAD~0")
	plainly("fetch", "ssh://example.invalid/x")
	got := sprung(t, traps)
	for _, want := range []string{"hook-pre-commit", "hook-post-commit", "clean", "fsmonitor", "diffdriver", "ssh"} {
		if !slices.Contains(got, want) {
			t.Errorf("the control did not run %s; it ran %q", want, got)
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
