//go:build linux

package linux_test

import (
	"io"
	"os/exec"
	"testing"
	"time"

	"nod"
	"nod/runtime"
	"nod/runtime/linux"
)

func provisioned(b *testing.B) *linux.Driver {
	b.Helper()
	d := open(b, linux.Config{StateDir: b.TempDir()})
	closing(b, d)
	needEnvironments(b, d)
	ws := b.TempDir()
	p, err := runtime.Prepare(runtime.Spec{ID: "e1", Owner: "o", Image: runtime.HostImage, Workspace: ws}, runtime.Roots{Allowed: []string{ws}})
	if err != nil {
		b.Fatal(err)
	}
	if err := d.Provision(b.Context(), p); err != nil {
		b.Fatal(err)
	}
	return d
}

func roundTrip(b *testing.B, d *linux.Driver) {
	p, err := d.Exec(b.Context(), "e1", nod.Command{Argv: []string{"/usr/bin/true"}})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, p.Stdout()); err != nil {
		b.Fatal(err)
	}
	if status, err := p.Wait(); err != nil || status.Code != 0 {
		b.Fatal(status, err)
	}
}

// BenchmarkStartToStop starts an environment, attests it, runs one command in it
// and ends it, proven; beside it is bwrap, without proxy, probe or filter, when it
// is there.
func BenchmarkStartToStop(b *testing.B) {
	d := provisioned(b)
	var ready time.Duration
	for b.Loop() {
		begin := time.Now()
		if _, err := d.Start(b.Context(), "e1"); err != nil {
			b.Fatal(err)
		}
		ready += time.Since(begin)
		roundTrip(b, d)
		if err := d.Stop(b.Context(), "e1"); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(ready.Microseconds())/float64(b.N)/1000, "ready-ms/op")
	b.StopTimer()
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		return
	}
	n := min(b.N, 50)
	begin := time.Now()
	for range n {
		if out, err := exec.Command(bwrap, "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv",
			"--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev",
			"--tmpfs", "/tmp", "/usr/bin/true").CombinedOutput(); err != nil {
			b.Fatalf("bwrap: %v\n%s", err, out)
		}
	}
	theirs := time.Since(begin) / time.Duration(n)
	b.ReportMetric(float64(theirs.Microseconds())/1000, "bwrap-ms")
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(theirs), "x-bwrap")
}

func BenchmarkExecRoundTrip(b *testing.B) {
	d := provisioned(b)
	if _, err := d.Start(b.Context(), "e1"); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		roundTrip(b, d)
	}
}
