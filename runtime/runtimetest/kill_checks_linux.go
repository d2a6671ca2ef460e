package runtimetest

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nod"
)

const killBound = time.Minute // what must not hang; the proof itself takes milliseconds

// grown starts the tree that does not want to end.
func (b *bench) grown(id string) (p nod.Process, m string) {
	b.t.Helper()
	m = mark()
	p = b.exec(id, b.guest(id, roleTree, m))
	readUntil(b.t, p.Stdout(), "grown")
	if n := b.showing(id, m); n < treeSize {
		b.t.Fatalf("the tree is %d processes, it should be %d", n, treeSize)
	}
	return p, m
}

// killLeavesNothing is C30.
func killLeavesNothing(b *bench) {
	b.t.Run("kill", func(t *testing.T) { b.at(t).killEndsTree() })
	if !b.c.Guestless {
		b.t.Run("the runner is no way out", func(t *testing.T) { runnerIsNoWayOut(b.at(t)) })
	}
	b.t.Run("stop", func(t *testing.T) {
		b.at(t).endsTree(func(ctx context.Context, id string) error { return b.Stop(ctx, id) })
	})
	b.t.Run("delete", func(t *testing.T) {
		b.at(t).endsTree(func(ctx context.Context, id string) error { return b.Delete(ctx, id) })
	})
	b.t.Run("the supervisor is killed", func(t *testing.T) { supervisorIsKilled(b.at(t)) })
}

func (b *bench) killEndsTree() {
	other := b.exec("e1", nod.Command{Argv: []string{"cat"}})
	p, m := b.grown("e1")
	begin := time.Now()
	if err := p.Kill(within(b.t, killBound)); err != nil {
		b.t.Fatalf("kill: %v", err)
	}
	b.t.Logf("killed and proven in %v", time.Since(begin))
	if status, err := p.Wait(); err != nil || status.Signal != 9 || status.Code != 137 {
		b.t.Errorf("Wait: %+v, %v", status, err)
	}
	if n := b.showing("e1", m); n != 0 {
		b.t.Errorf("%d processes survive", n)
	}
	if err := p.Kill(b.t.Context()); err != nil {
		b.t.Errorf("kill again: %v", err)
	}
	// Another exec is untouched.
	if _, err := io.WriteString(other.Stdin(), "still here\n"); err != nil {
		b.t.Fatal(err)
	}
	if err := other.Stdin().Close(); err != nil {
		b.t.Fatal(err)
	}
	if out, err := io.ReadAll(other.Stdout()); err != nil || string(out) != "still here\n" {
		b.t.Errorf("the other exec said %q, %v", out, err)
	}
	// A command that ends by itself takes along what it left behind.
	m = mark()
	if out, _ := b.sh(`setsid sleep ` + m + ` >/dev/null 2>&1 & echo started`); out != "started\n" {
		b.t.Errorf("got %q", out)
	}
	if n := b.showing("e1", m); n != 0 {
		b.t.Errorf("%d processes outlive their command", n)
	}
}

// runnerIsNoWayOut has a command attack the process that holds it. What would
// survive by that is ended all the same, and nothing else is.
func runnerIsNoWayOut(b *bench) {
	other := b.exec("e1", nod.Command{Argv: []string{"cat"}})
	for name, script := range map[string]string{
		"killed":  `cat >/dev/null; kill -KILL $PPID; sleep 600`,
		"stopped": `cat >/dev/null; echo $PPID >/tmp/runner; kill -STOP $PPID; sleep 600`,
	} {
		m := mark()
		tree := `setsid sleep ` + m + ` >/dev/null 2>&1 & (setsid sleep ` + m + ` >/dev/null 2>&1 &) ; echo ready; `
		p := b.exec("e1", nod.Command{Argv: []string{"sh", "-c", tree + script}})
		readUntil(b.t, p.Stdout(), "ready")
		if err := p.Stdin().Close(); err != nil {
			b.t.Fatal(err)
		}
		if name == "killed" {
			if _, err := p.Wait(); err != nil && nod.CodeOf(err) != nod.Unavailable {
				b.t.Errorf("runner %s: Wait: %v", name, err)
			}
		} else if out, _ := b.sh(`until grep -q "^State:.T" /proc/$(cat /tmp/runner)/status; do sleep 0.02; done 2>/dev/null; echo so`); out != "so\n" {
			b.t.Fatalf("the runner is not stopped: %q", out)
		}
		if err := p.Kill(within(b.t, killBound)); err != nil {
			b.t.Errorf("runner %s: Kill: %v", name, err)
		}
		if n := b.showing("e1", m); n != 0 {
			b.t.Errorf("runner %s: %d processes survive", name, n)
		}
	}
	if err := other.Stdin().Close(); err != nil {
		b.t.Fatal(err)
	}
	if status, err := other.Wait(); err != nil || status.Code != 0 {
		b.t.Errorf("the other exec ended with %+v, %v", status, err)
	}
}

// endsTree wants that end ends everything that the host sees of an environment.
func (b *bench) endsTree(end func(context.Context, string) error) {
	b.provision("e6", owner, nil)
	b.start("e6")
	p, m := b.grown("e6")
	if showing(m) < treeSize {
		b.t.Fatal("the host does not see the environment's processes: nothing would be shown")
	}
	if err := end(b.t.Context(), "e6"); err != nil {
		b.t.Fatal(err)
	}
	if n := showing(m); n != 0 {
		b.t.Errorf("%d processes outlive it", n)
	}
	_, err := p.Wait()
	wantCode(b.t, "Wait afterwards", err, nod.Unavailable)
	if err := p.Kill(b.t.Context()); err != nil {
		b.t.Errorf("Kill afterwards: %v", err)
	}
	b.gone("e6")
	b.nothingOf("e6")
}

// nothingOf wants that no mount, process and file of the driver's tells of an
// environment that was deleted.
func (b *bench) nothingOf(id string) {
	b.t.Helper()
	if m := mounted(b.t, "/proc/[0-9]*/mountinfo", filepath.Join(b.root, id+"-workspace")); len(m) > 0 {
		b.t.Errorf("%s is still mounted: %v", id, m)
	}
	err := filepath.WalkDir(b.state, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == id {
			b.t.Errorf("%s is left", path)
		}
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if b.c.Left == nil {
		return
	}
	for _, what := range b.c.Left(b.t, b.state) {
		if strings.HasSuffix(what, id) {
			b.t.Errorf("%s is left", what)
		}
	}
}

// mounted are the lines of such lists of mounts that mention dir.
func mounted(t *testing.T, pattern, dir string) (lines []string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		// A process may end while it is looked at, or be another user's.
		text, err := os.ReadFile(f)
		for line := range strings.Lines(string(text)) {
			if err == nil && strings.Contains(line, dir) {
				lines = append(lines, f+": "+line)
			}
		}
	}
	return lines
}
