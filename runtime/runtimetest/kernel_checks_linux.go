package runtimetest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"nod"
)

// noCapabilities adds to what was tried inside that the same line, read here, is
// not always zero.
func noCapabilities(b *bench) {
	b.verdicts(b.tried, "C02")
	if err := statusLine("self", "CapBnd", "0000000000000000")(); err == nil {
		b.t.Error("the host's own bounding set is empty: nothing was shown")
	}
}

// noGain adds a program that root left with the set-user-ID bit in the workspace,
// where root is who runs this test.
func noGain(b *bench) {
	b.verdicts(b.tried, "C03")
	if os.Geteuid() != 0 || b.c.Guestless {
		return
	}
	id, err := exec.LookPath("id")
	if err != nil {
		Missing(b.t, "id")
	}
	program, err := os.ReadFile(id)
	if err != nil {
		b.t.Fatal(err)
	}
	planted := filepath.Join(b.workspace, "planted-by-root")
	if err := errors.Join(os.WriteFile(planted, program, 0o755), os.Chmod(planted, 0o755|os.ModeSetuid|os.ModeSetgid)); err != nil {
		b.t.Fatal(err)
	}
	if out, status := b.sh("./planted-by-root -u; ./planted-by-root -g"); out != "1000\n1000\n" || status.Code != 0 {
		b.t.Errorf("a program that root planted ran as %q, %+v", out, status)
	}
	// The control: here an ordinary user becomes root by it, unless the file system forbids it.
	var fs unix.Statfs_t
	if err := unix.Statfs(planted, &fs); err != nil {
		b.t.Fatal(err)
	}
	open, err := os.MkdirTemp("", "nod-control-") // t.TempDir is closed to others
	if err != nil {
		b.t.Fatal(err)
	}
	defer os.RemoveAll(open)
	c := exec.Command(filepath.Join(open, "id"))
	if err := errors.Join(os.Chmod(open, 0o755), os.Rename(planted, c.Path)); err != nil {
		b.t.Fatal(err)
	}
	c.Args, c.Dir = []string{"id", "-u"}, "/"
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 54321, Gid: 54321}}
	if out, err := c.Output(); fs.Flags&unix.ST_NOSUID == 0 && string(out) != "0\n" {
		b.t.Errorf("here it runs as %q, %v", out, err)
	}
}

// writablePlaces is C05: no others than the agent's, and none without a bound but
// those that are the operator's directories.
func writablePlaces(b *bench) {
	b.verdicts(b.tried, "C05")
	out, stderr, status := b.run("e1", "", b.guest("e1", roleWritable))
	if status.Code != 0 {
		b.t.Fatalf("%+v: %s", status, stderr)
	}
	got := strings.Fields(out)
	slices.Sort(got)
	if want := []string{"/dev/shm", "/home/agent", "/tmp", "/workspace"}; !slices.Equal(slices.Compact(got), want) {
		b.t.Errorf("files can be made in %v, want %v", got, want)
	}
	for path, size := range map[string]int64{"/tmp/.full": 16 << 20, "/dev/shm/.full": 64 << 20} {
		out, stderr, _ := b.run("e1", "", b.guest("e1", roleFill, path))
		n, err := strconv.ParseInt(strings.TrimSpace(out), 10, 64)
		if err != nil || n > size || n < size/2 {
			b.t.Errorf("%s takes %q bytes of %d: %s", path, out, size, stderr)
		}
	}
}

// onlyOwnSignals is C15: what it signals is its own, and the driver still serves.
func onlyOwnSignals(b *bench) {
	b.verdicts(b.tried, "C15")
	m := mark()
	other := b.exec("e2", nod.Command{Argv: []string{"sleep", m}})
	p := b.exec("e1", nod.Command{Argv: []string{"sh", "-c", "cat >/dev/null; kill -9 -1; sleep 600"}})
	if err := p.Stdin().Close(); err != nil {
		b.t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil && nod.CodeOf(err) != nod.Unavailable {
		b.t.Errorf("kill -1: %v", err)
	}
	if out, status := b.sh("echo alive"); out != "alive\n" || status.Code != 0 {
		b.t.Errorf("after kill -1: %q, %+v", out, status)
	}
	if b.showing("e2", m) != 1 {
		b.t.Error("a process of another environment is gone")
	}
	if err := other.Kill(b.t.Context()); err != nil {
		b.t.Error(err)
	}
}
