package hostgit

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"nod"
)

// recording replaces git by a script that notes arguments and environment of every
// process before it becomes the real one.
func recording(t *testing.T) (change func(*Config), read func() (argv, env string)) {
	t.Helper()
	dir := t.TempDir()
	script := filepath.Join(dir, "git")
	return func(c *Config) {
			text := "#!/bin/sh\n{ printf '%s\\n' \"$@\"; echo; } >> '" + dir + "/argv'\n{ echo \"VERB=$1\"; /usr/bin/env; } >> '" + dir + "/env'\nexec '" + c.GitPath + "' \"$@\"\n"
			if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
				t.Fatal(err)
			}
			c.GitPath = script
		}, func() (string, string) {
			argv, err1 := os.ReadFile(filepath.Join(dir, "argv"))
			env, err2 := os.ReadFile(filepath.Join(dir, "env"))
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			return string(argv), string(env)
		}
}

func TestTokenIsInNoArgumentAndNoFile(t *testing.T) {
	change, read := recording(t)
	f := newFixture(t, change)
	r := f.prepared()
	f.push(r.SHA, "")
	argv, env := read()
	remote := &remote{token: nod.NewSecret(testToken)}
	for _, secret := range []string{testToken, remote.basic()} {
		if strings.Contains(argv, secret) {
			t.Error("the token is in an argument list")
		}
		for _, dir := range []string{f.config.Dir, f.agent} {
			err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
				if err != nil || !d.Type().IsRegular() {
					return err
				}
				b, err := os.ReadFile(path)
				if strings.Contains(string(b), secret) {
					t.Errorf("the token is in %s", path)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if !strings.Contains(env, remote.basic()) {
		t.Error("the control: the token is not in the environment either")
	}
	verb := ""
	for line := range strings.Lines(env) {
		if v, ok := strings.CutPrefix(line, "VERB="); ok {
			verb = strings.TrimSpace(v)
		}
		if strings.Contains(line, remote.basic()) && verb != "ls-remote" && verb != "fetch" && verb != "push" {
			t.Errorf("git %s, which has nobody to talk to, has the token", verb)
		}
	}
	allowed := []string{"VERB", "MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_", "PATH", "HOME", "XDG_CONFIG_HOME", "LC_ALL", "TZ", "SSH_ASKPASS", "PWD", "OLDPWD", "SHLVL", "_"}
	for line := range strings.Lines(env) {
		name, _, ok := strings.Cut(line, "=")
		if ok && !slices.Contains(allowed, name) && !strings.HasPrefix(name, "GIT_") {
			t.Errorf("unexpected in the environment: %s", name)
		}
	}
	for _, force := range []string{"--force\n", "-f\n", "+" + r.SHA, "--tags\n", "--mirror\n", "--delete\n"} {
		if strings.Contains(argv, force) {
			t.Errorf("an argument is %q", force)
		}
	}
}

func TestErrorsHoldNoToken(t *testing.T) {
	f := newFixture(t)
	f.token.Store("another")
	_, err := f.git.Seed(t.Context(), f.task, "main", filepath.Join(t.TempDir(), "x"))
	if err == nil || strings.Contains(err.Error(), testToken) {
		t.Errorf("error %v", err)
	}
	tl := &tail{limit: 1000}
	r := &remote{token: nod.NewSecret(testToken)}
	if _, err := tl.Write([]byte("fatal: " + testToken + " " + r.basic())); err != nil {
		t.Fatal(err)
	}
	if got := tl.scrubbed(r); strings.Contains(got, testToken) || strings.Contains(got, r.basic()) {
		t.Errorf("stderr %q", got)
	}
}

func TestOnlyPlainAddressesAreDialled(t *testing.T) {
	f := newFixture(t)
	for _, url := range []string{
		"ssh://git@github.com/o/r", "git@github.com:o/r", "file:///tmp/x", "/tmp/x", "ext::sh -c true", "http://github.com/o/r", "git://github.com/o/r",
		"https://user:pw@github.com/o/r", "https://github.com/o/r?x=1", "https://github.com/o/r\n", "-https://x", "http://localhost.evil.invalid/", "http://[::2]/x",
	} {
		f.git.remote = func(context.Context, nod.Task, bool) (string, nod.Secret, error) { return url, nod.NewSecret("t"), nil }
		if _, err := f.git.dial(t.Context(), f.task, false); nod.CodeOf(err) != nod.Invalid {
			t.Errorf("%q: %v", url, err)
		}
	}
	f.git.remote = func(context.Context, nod.Task, bool) (string, nod.Secret, error) {
		return "https://github.com/o/r.git", nod.NewSecret("t\r\nX-Header: y"), nil
	}
	_, err := f.git.dial(t.Context(), f.task, false)
	wantCode(t, err, nod.Invalid)
}

func TestTransportsAreOffUnlessNeeded(t *testing.T) {
	f := newFixture(t)
	for _, url := range []string{f.origin, "file://" + f.origin, f.url, "ext::sh -c true"} {
		if _, err := f.git.run(t.Context(), call{}, "ls-remote", "--", url); err == nil || !strings.Contains(err.Error(), "not allowed") {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, url := range []string{f.origin, "file://" + f.origin} {
		if _, err := f.git.run(t.Context(), call{remote: &remote{url: f.url, scheme: "http"}}, "ls-remote", "--", url); err == nil {
			t.Errorf("%s may be read while http is allowed", url)
		}
	}
}

func TestR13HostileNamesAreRefusedOrHarmless(t *testing.T) {
	f := newFixture(t)
	base := f.seed()
	f.write(f.agent, "x", "x\n")
	f.commit(f.agent, "feat: $(touch pwned) `touch pwned`; --exec=touch")
	head := f.importAll(base)
	for _, name := range []string{
		"", "-", "--upload-pack=touch pwned", "-c", "HEAD", "a..b", "a b", "a~1", "a^", "a:b", "a?", "a*", "a[", `a\b`, "a//b", "/a", "a/", "a.lock", ".a", "a/.b",
		"a.", "a@{1}", "a\x00b", "a\nb", "a\x7fb", strings.Repeat("a", 300),
	} {
		task := f.task
		task.Branch = name
		if _, err := f.git.Seed(t.Context(), task, "main", filepath.Join(t.TempDir(), "x")); nod.CodeOf(err) != nod.Invalid {
			t.Errorf("Seed of branch %q: %v", name, err)
		}
		if _, err := f.git.Prepare(t.Context(), nod.PrepareSpec{Task: f.task, Head: head, BaseRef: name}); nod.CodeOf(err) != nod.Invalid {
			t.Errorf("Prepare onto %q: %v", name, err)
		}
	}
	for _, name := range []string{"$(touch${IFS}pwned)", "`touch${IFS}pwned`", "a;touch-pwned", "a|b&c", "'quote\"", "ünï/日本/🎉", "nod/x'$(id)'", "refs/heads/x"} {
		f.plain(f.origin, "update-ref", "refs/heads/"+name, base)
		task := f.task
		task.Branch, task.BaseRef = "nod/"+name, name
		dir := filepath.Join(t.TempDir(), "x")
		if sha, err := f.git.Seed(t.Context(), task, name, dir); err != nil || sha != base {
			t.Errorf("Seed of %q: %q, %v", name, sha, err)
		}
		if _, err := f.git.Prepare(t.Context(), nod.PrepareSpec{Task: f.task, Head: head, BaseRef: name}); err != nil {
			t.Errorf("Prepare onto %q: %v", name, err)
		}
	}
	for _, id := range []string{"", "../x", "a/b", "-x", "a b", "a.lock", strings.Repeat("a", 70)} {
		task := f.task
		task.ID = id
		if err := f.git.Forget(t.Context(), task); nod.CodeOf(err) != nod.Invalid {
			t.Errorf("task id %q: %v", id, err)
		}
	}
	for _, dir := range []string{f.config.Dir, f.agent, "."} {
		if m, err := filepath.Glob(filepath.Join(dir, "*pwned*")); err != nil || len(m) > 0 {
			t.Errorf("found %v, %v", m, err)
		}
	}
}

func TestStaleLocksOfADeadSupervisorAreRemoved(t *testing.T) {
	f := newFixture(t)
	f.seed()
	mirror := f.mirrorDir()
	stale := []string{"HEAD.lock", "config.lock", "packed-refs.lock", "shallow.lock", "refs/nod-branch/x.lock", "objects/pack/tmp_pack_abc", "objects/pack/.tmp-123-pack-x.pack"}
	for _, name := range stale {
		f.write(mirror, name, "")
	}
	f.write(mirror, branchRef("main")+".lock", "")
	f.write(strings.TrimSuffix(mirror, ".git")+".tmp", "objects/left", "")
	f.onMain("moved", "x\n") // the fetch must write refs
	f.git = f.open()
	f.seed()
	for _, name := range append(stale, branchRef("main")+".lock") {
		if _, err := os.Stat(filepath.Join(mirror, name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
}

func TestGitOfADeadSupervisorKeepsTheMirrorLocked(t *testing.T) {
	f := newFixture(t)
	f.seed()
	m, err := f.git.open(t.Context(), f.task.Repo)
	if err != nil {
		t.Fatal(err)
	}
	o, err := m.objects(t.Context(), "", 1) // a git process that lives on
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.sizes(nil); err != nil {
		t.Fatal(err)
	}
	if err := m.lock.Close(); err != nil { // as a kill does; no unlock
		t.Fatal(err)
	}
	next := f.open()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = next.Seed(ctx, f.task, "main", filepath.Join(t.TempDir(), "x"))
	wantCode(t, err, nod.Unavailable, "another process")
	o.close()
	if _, err := next.Seed(t.Context(), f.task, "main", filepath.Join(t.TempDir(), "y")); err != nil {
		t.Fatal(err)
	}
}

func TestEndOfContextKillsTheWholeProcessGroup(t *testing.T) {
	f := newFixture(t)
	dir := t.TempDir()
	script := filepath.Join(dir, "git")
	text := "#!/bin/sh\n/bin/sh -c 'echo $$ > " + dir + "/child; exec /bin/sleep 300' &\necho $$ > " + dir + "/leader\nwhile [ ! -s " + dir + "/child ]; do :; done\necho up\nwait\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	f.git.path = script
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	up := &capped{limit: 1, over: cancel} // the second byte of "up" ends ctx
	_, err := f.git.run(ctx, call{stdout: up}, "anything")
	wantCode(t, err, nod.Unavailable)
	b, err := os.ReadFile(filepath.Join(dir, "child"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for syscall.Kill(pid, 0) == nil && !zombie(pid) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d lives on", pid)
		}
	}
}

// zombie reports whether a process has ended and only waits to be reaped by init.
func zombie(pid int) bool {
	b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return os.IsNotExist(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return strings.HasPrefix(rest, "Z")
}

func TestOutputIsCapped(t *testing.T) {
	f := newFixture(t)
	f.seed()
	_, err := f.git.run(t.Context(), call{repo: f.mirrorDir(), limit: 10}, "cat-file", "--batch-all-objects", "--batch-check")
	wantCode(t, err, nod.TooLarge)
}

func TestOldGitIsRefused(t *testing.T) {
	for version, want := range map[string]bool{
		"git version 2.39.5": true, "git version 2.38.0": true, "git version 3.0": true, "git version 2.50.1 (Apple Git-155)": true,
		"git version 2.37.9": false, "git version 1.99": false, "git version": false, "": false, "git version x.y": false,
	} {
		if newEnough(version) != want {
			t.Errorf("newEnough(%q) = %v", version, !want)
		}
	}
}
