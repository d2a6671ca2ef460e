package runtimetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nod"
	"nod/runtime"
)

// limitsHold is C29, as far as the driver says that it enforces limits.
func limitsHold(t *testing.T, c Config) {
	probe := open(t, c, nil, quiet(nil))
	caps := probe.Capabilities(t.Context())
	if !slices.Contains(caps.Limits, "pids") {
		Missing(t, "a process limit")
	}
	l := runtime.Limits{PIDs: 64, TmpBytes: 16 << 20, Required: true}
	if slices.Contains(caps.Limits, "memory") {
		l.MemoryBytes = 128 << 20
	}
	if slices.Contains(caps.Limits, "cpu") {
		l.CPUs = 1.5
	}
	b := started(t, c, func(s *runtime.Spec) { s.Limits = l }, quiet(nil))
	out, _ := b.sh(`i=0; while [ $i -lt 200 ]; do sleep 60 & i=$((i+1)); done 2>&1; echo; echo end`)
	if !strings.Contains(out, "fork") && !strings.Contains(out, "esource") {
		t.Errorf("200 processes were started under a limit of 64: %.200q", out)
	}
	if out, status := b.sh("echo alive"); out != "alive\n" || status.Code != 0 {
		t.Errorf("after the fork bomb: %q, %+v", out, status)
	}
	if l.MemoryBytes > 0 {
		script := `head -c 210000000 /dev/zero | tail -c 200000000 | wc -c`
		p := b.exec("e1", nod.Command{Argv: []string{"sh", "-c", script}})
		out, err := io.ReadAll(p.Stdout())
		if err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(string(out)) == "200000000" {
			t.Error("a process held 200 MB under a limit of 128 MiB")
		}
		if _, err := p.Wait(); err != nil {
			t.Logf("the environment ended with it: %v", err)
		}
	}
	// What cannot be enforced is refused when it is required.
	for _, kind := range []string{"memory", "cpu"} {
		if slices.Contains(caps.Limits, kind) {
			continue
		}
		p, err := runtime.Prepare(runtime.Spec{ID: "e3", Owner: owner, Image: runtime.HostImage, Workspace: mkdir(t, b.root, "e3"),
			Limits: runtime.Limits{MemoryBytes: 64 << 20, CPUs: 1, Required: true}}, runtime.Roots{Allowed: []string{b.root}})
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, "a required "+kind+" limit", b.Provision(t.Context(), p), nod.Unsupported)
	}
}

// survivors counts the processes inside e1 that the tree of growTree consists of.
func (b *bench) survivors() int {
	b.t.Helper()
	out, _ := b.sh(`n=0; for f in /proc/[0-9]*/cmdline; do if tr '\0' ' ' < $f 2>/dev/null | grep -Eq '^(sleep 60[0-9]|sh -c .*sleep 60|/nod/guest nod-try-tree)'; then n=$((n+1)); fi; done; echo $n`)
	var n int
	if _, err := fmt.Sscan(out, &n); err != nil {
		b.t.Fatalf("count survivors: %q", out)
	}
	return n
}

// killEndsTree is C30: a tree that does its best to outlive its parent.
func killEndsTree(t *testing.T, c Config) {
	b := started(t, c, nil, quiet(nil))
	other := b.exec("e1", nod.Command{Argv: []string{"cat"}})
	p := b.exec("e1", nod.Command{Argv: []string{nod.GuestPath, roleTree}})
	readUntil(t, p.Stdout(), "grown")
	// The counter itself is "sh -c … sleep 60 …": the tree is more than that.
	if n := b.survivors(); n < 8 {
		t.Fatalf("the tree is %d processes, it should be more", n)
	}
	begin := time.Now()
	if err := p.Kill(within(t, 10*time.Second)); err != nil {
		t.Fatalf("kill: %v", err)
	}
	t.Logf("killed in %v", time.Since(begin))
	if status, err := p.Wait(); err != nil || status.Signal != 9 || status.Code != 137 {
		t.Errorf("Wait: %+v, %v", status, err)
	}
	if n := b.survivors(); n > 1 { // the counter
		t.Errorf("%d processes survive", n-1)
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Errorf("kill again: %v", err)
	}
	// Another exec is untouched.
	if _, err := io.WriteString(other.Stdin(), "still here\n"); err != nil {
		t.Fatal(err)
	}
	if err := other.Stdin().Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := io.ReadAll(other.Stdout()); err != nil || string(out) != "still here\n" {
		t.Errorf("the other exec said %q, %v", out, err)
	}
	// A command that ends by itself takes along what it left behind.
	if out, _ := b.sh(`setsid sleep 607 >/dev/null 2>&1 & echo started`); out != "started\n" {
		t.Errorf("got %q", out)
	}
	if n := b.survivors(); n > 1 {
		t.Errorf("%d processes outlive their command", n-1)
	}
}

// runnerIsNoWayOut has a command attack the process that holds it. What would
// survive by that is ended all the same, and nothing else is.
func runnerIsNoWayOut(t *testing.T, c Config) {
	b := started(t, c, nil, quiet(nil))
	other := b.exec("e1", nod.Command{Argv: []string{"cat"}})
	tree := `setsid sleep 608 >/dev/null 2>&1 & (setsid sleep 609 >/dev/null 2>&1 &) ; echo ready; `
	for name, script := range map[string]string{
		"killed":  tree + `cat >/dev/null; kill -KILL $PPID; sleep 600`,
		"stopped": tree + `cat >/dev/null; echo $PPID >/tmp/runner; kill -STOP $PPID; sleep 600`,
	} {
		p := b.exec("e1", nod.Command{Argv: []string{"sh", "-c", script}})
		readUntil(t, p.Stdout(), "ready")
		if err := p.Stdin().Close(); err != nil {
			t.Fatal(err)
		}
		if name == "killed" {
			if _, err := p.Wait(); err != nil && nod.CodeOf(err) != nod.Unavailable {
				t.Errorf("runner %s: Wait: %v", name, err)
			}
		} else if out, _ := b.sh(`until grep -q "^State:.T" /proc/$(cat /tmp/runner)/status; do sleep 0.02; done 2>/dev/null; echo so`); out != "so\n" {
			t.Fatalf("the runner is not stopped: %q", out)
		}
		if err := p.Kill(within(t, 20*time.Second)); err != nil {
			t.Errorf("runner %s: Kill: %v", name, err)
		}
		if n := b.survivors(); n > 1 {
			t.Errorf("runner %s: %d processes survive", name, n-1)
		}
	}
	if err := other.Stdin().Close(); err != nil {
		t.Fatal(err)
	}
	if status, err := other.Wait(); err != nil || status.Code != 0 {
		t.Errorf("the other exec ended with %+v, %v", status, err)
	}
}

func stopEndsTree(t *testing.T, c Config) {
	b := started(t, c, nil, quiet(nil))
	p := b.exec("e1", nod.Command{Argv: []string{nod.GuestPath, roleTree}})
	readUntil(t, p.Stdout(), "grown")
	mark := "sleep\x00601"
	if !seenOnHost(t, mark, 10*time.Second) { // the tree says "grown" a moment before its last exec
		Missing(t, "a view of the environment's processes from the host")
	}
	if err := b.Stop(t.Context(), "e1"); err != nil {
		t.Fatal(err)
	}
	if onHost(t, mark) {
		t.Error("a process outlives Stop")
	}
	_, err := p.Wait()
	wantCode(t, "Wait after Stop", err, nod.Unavailable)
	if err := p.Kill(t.Context()); err != nil {
		t.Errorf("Kill after Stop: %v", err)
	}
}

// seenOnHost reports whether a process with mark shows within patience.
func seenOnHost(t *testing.T, mark string, patience time.Duration) bool {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); time.Now().Before(end); <-tick.C {
		if onHost(t, mark) {
			return true
		}
	}
	return false
}

func onHost(t *testing.T, mark string) bool {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range lines {
		if text, err := os.ReadFile(f); err == nil && strings.Contains(string(text), mark) {
			return true
		}
	}
	return false
}

func execStreams(t *testing.T, c Config) {
	b := started(t, c, nil, quiet(nil))
	for script, want := range map[string]struct {
		out, err string
		status   nod.ExitStatus
	}{
		"echo out; echo err >&2; exit 3": {"out\n", "err\n", nod.ExitStatus{Code: 3}},
		"kill -TERM $$":                  {"", "", nod.ExitStatus{Code: 143, Signal: 15}},
		"pwd":                            {"/workspace\n", "", nod.ExitStatus{}},
		"cat; cat":                       {"in", "", nod.ExitStatus{}},
		"true > /dev/stdout; echo x > /dev/stderr": {"", "x\n", nod.ExitStatus{}},
	} {
		out, stderr, status := b.run("e1", "in", nod.Command{Argv: []string{"sh", "-c", script}})
		if out != want.out || stderr != want.err || status != want.status {
			t.Errorf("%q: %q, %q, %+v; want %+v", script, out, stderr, status, want)
		}
	}
	_, err := b.Exec(t.Context(), "e1", nod.Command{Argv: []string{"no-such-program"}})
	wantCode(t, "a program that is not there", err, nod.NotFound)
	_, err = b.Exec(t.Context(), "e1", nod.Command{})
	wantCode(t, "an empty command", err, nod.Invalid)
	_, err = b.Exec(t.Context(), "e1", nod.Command{Argv: []string{"true"}, Dir: "/no/such"})
	wantCode(t, "a directory that is not there", err, nod.NotFound)
	_, err = b.Exec(t.Context(), "e1", nod.Command{Argv: []string{"true"}, Dir: "relative"})
	wantCode(t, "a relative directory", err, nod.Invalid)
}

func execBackpressure(t *testing.T, c Config) {
	b := started(t, c, nil, quiet(nil))
	data := make([]byte, 5<<20)
	if _, err := rand.Read(data); err != nil {
		t.Fatal(err)
	}
	out, _, status := b.run("e1", string(data), nod.Command{Argv: []string{"cat"}})
	if sha256.Sum256([]byte(out)) != sha256.Sum256(data) || status.Code != 0 {
		t.Errorf("%d bytes went in, %d other ones came out", len(data), len(out))
	}
	// Nobody reads, the command writes without end: it blocks, and can be killed.
	p := b.exec("e1", nod.Command{Argv: []string{"sh", "-c", "yes >&2"}})
	if err := p.Kill(within(t, 10*time.Second)); err != nil {
		t.Errorf("kill a command that blocks on its output: %v", err)
	}
	// Nobody reads its input: the writer blocks until the command is gone.
	p = b.exec("e1", nod.Command{Argv: []string{"sleep", "600"}})
	wrote := make(chan error, 1)
	go func() {
		_, err := io.Copy(p.Stdin(), bytes.NewReader(data))
		wrote <- err
	}()
	if err := p.Kill(within(t, 10*time.Second)); err != nil {
		t.Errorf("kill a command that does not read: %v", err)
	}
	select {
	case err := <-wrote:
		if err == nil {
			t.Error("5 MiB were taken by a command that reads nothing")
		}
	case <-within(t, 10*time.Second).Done():
		t.Error("the writer still blocks")
	}
}

func execEnvironment(t *testing.T, c Config) {
	t.Setenv("NOD_TEST_LEAK", "1")
	b := started(t, c, nil, quiet(nil))
	out, _, _ := b.run("e1", "", nod.Command{Argv: []string{"env"}, Env: map[string]string{"LANG": "C", "MINE": "a b\nc"}})
	for _, want := range []string{"HOME=/home/agent\n", "TMPDIR=/tmp\n", "LANG=C\n", "MINE=a b\nc\n", "HTTPS_PROXY=http://127.0.0.1:3128\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in %q", want, out)
		}
	}
	if strings.Contains(out, "NOD_TEST_LEAK") {
		t.Error("the host's environment leaks")
	}
	_, err := b.Exec(t.Context(), "e1", nod.Command{Argv: []string{"env"}, Env: map[string]string{"A=B": "x"}})
	wantCode(t, "a malformed variable", err, nod.Invalid)
}

func lifecycle(t *testing.T, c Config) {
	b := open(t, c, nil, quiet(nil))
	ctx := t.Context()
	_, err := b.Exec(ctx, "e1", nod.Command{Argv: []string{"true"}})
	wantCode(t, "exec before start", err, nod.Conflict)
	_, err = b.Start(ctx, "nope")
	wantCode(t, "start of the unknown", err, nod.NotFound)
	wantCode(t, "stop of the unknown", b.Stop(ctx, "nope"), nod.NotFound)
	for range 2 {
		if _, err := b.Start(ctx, "e1"); err != nil {
			t.Fatal(err)
		}
		_, err = b.Start(ctx, "e1")
		wantCode(t, "start of a running one", err, nod.Conflict)
		if list, err := b.List(ctx, owner); err != nil || len(list) != 1 || !list[0].Running {
			t.Errorf("List while running: %+v, %v", list, err)
		}
		if out, _ := b.sh("ls /tmp; echo x > /tmp/left"); out != "" {
			t.Errorf("/tmp held %q at the start", out)
		}
		for range 2 {
			if err := b.Stop(ctx, "e1"); err != nil {
				t.Fatal(err)
			}
		}
		if list, err := b.List(ctx, owner); err != nil || len(list) != 1 || list[0].Running {
			t.Errorf("List when stopped: %+v, %v", list, err)
		}
	}
	if _, err := b.Start(ctx, "e1"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.Delete(ctx, "e1"); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := b.List(ctx, owner); err != nil || len(list) != 0 {
		t.Errorf("List when deleted: %+v, %v", list, err)
	}
	if _, err := os.Stat(b.workspace); err != nil {
		t.Errorf("the workspace is gone: %v", err)
	}
}

func unprepared(t *testing.T, c Config) {
	b := open(t, c, nil, quiet(nil))
	wantCode(t, "the zero spec", b.Provision(context.Background(), runtime.PreparedSpec{}), nod.Invalid)
}

func workspaceOutlives(t *testing.T, c Config) {
	b := open(t, c, nil, quiet(nil))
	if _, err := b.Start(t.Context(), "e1"); err != nil {
		t.Fatal(err)
	}
	if _, status := b.sh("echo w > /workspace/f && echo h > /home/agent/f && mkdir -p d && mv f d/f"); status.Code != 0 {
		t.Fatalf("write: %+v", status)
	}
	if err := b.Stop(t.Context(), "e1"); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{filepath.Join(b.workspace, "d/f"): "w\n", filepath.Join(b.home, "f"): "h\n"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if _, err := b.Start(t.Context(), "e1"); err != nil {
		t.Fatal(err)
	}
	if out, _ := b.sh("cat d/f ~/f; echo more >> d/f"); out != "w\nh\n" {
		t.Errorf("after the second start: %q", out)
	}
}
