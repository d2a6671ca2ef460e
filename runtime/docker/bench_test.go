//go:build linux

package docker

import (
	"context"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"nod"
	"nod/runtime"
	"nod/runtime/linux"
	"nod/runtime/runtimetest"
)

// BenchmarkBesideOthers measures, one after the other in each round, how long the
// embedded driver takes until an environment is attested and ready, and until one
// command in it has ended and it is stopped, proven; and how long bwrap, docker run
// and podman run take from start to exit, where they are installed. The others set
// up neither a proxy nor a probe. Each runs three times in a round, of which only the
// last counts: the first also pays for what the one before it, an engine above all,
// has left to the kernel to clean up. Medians are told: one round in which the machine
// had something else to do counts as one.
func BenchmarkBesideOthers(b *testing.B) {
	embedded := embeddedEnvironment(b)
	type rival struct {
		name string
		argv []string
		took []time.Duration
	}
	var rivals []*rival
	if bwrap, err := exec.LookPath("bwrap"); err == nil {
		rivals = append(rivals, &rival{name: "bwrap", argv: []string{bwrap, "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv",
			"--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "/usr/bin/true"}})
	}
	for name, client := range map[string][]string{Docker: {"docker", "--host"}, Podman: {"podman", "--remote", "--url"}} {
		if _, err := exec.LookPath(client[0]); err != nil || os.Geteuid() != 0 {
			continue
		}
		e := startEngine(b, name)
		c := e.config(b, image(b))
		c.StateDir = b.TempDir()
		d := open(b, c)
		if caps := d.Capabilities(b.Context()); !caps.Supported { // which has the image imported
			runtimetest.Missing(b, name)
		}
		if err := d.Close(); err != nil {
			b.Fatal(err)
		}
		rivals = append(rivals, &rival{name: name, argv: append(append([]string{}, client...), "unix://"+e.socket, "run", "--rm", "--network", "none", "--read-only", "--cap-drop", "ALL",
			"--security-opt", "no-new-privileges", "--user", "1000:1000", testImage, "/usr/bin/true")})
	}
	const runs = 3
	var ready, whole []time.Duration
	for b.Loop() {
		for run := range runs {
			begin := time.Now()
			if _, err := embedded.Start(b.Context(), "e1"); err != nil {
				b.Fatal(err)
			}
			up := time.Since(begin)
			p, err := embedded.Exec(b.Context(), "e1", nod.Command{Argv: []string{"/usr/bin/true"}})
			if err != nil {
				b.Fatal(err)
			}
			if status, err := p.Wait(); err != nil || status.Code != 0 {
				b.Fatal(status, err)
			}
			if err := embedded.Stop(b.Context(), "e1"); err != nil {
				b.Fatal(err)
			}
			if run == runs-1 {
				ready, whole = append(ready, up), append(whole, time.Since(begin))
			}
		}
		for _, r := range rivals {
			for run := range runs {
				begin := time.Now()
				if out, err := exec.Command(r.argv[0], r.argv[1:]...).CombinedOutput(); err != nil {
					b.Fatalf("%s: %v\n%s", r.name, err, out)
				}
				if run == runs-1 {
					r.took = append(r.took, time.Since(begin))
				}
			}
		}
	}
	ms := func(list []time.Duration) float64 {
		slices.Sort(list)
		return float64(list[len(list)/2].Microseconds()) / 1000
	}
	b.ReportMetric(ms(ready), "ready-ms")
	b.ReportMetric(ms(whole), "start-to-exit-ms")
	for _, r := range rivals {
		b.ReportMetric(ms(r.took), r.name+"-ms")
		b.ReportMetric(ms(ready)/ms(r.took), "ready/"+r.name)
		b.ReportMetric(ms(whole)/ms(r.took), "whole/"+r.name)
	}
}

func embeddedEnvironment(b *testing.B) *linux.Driver {
	b.Helper()
	static := filepath.Join(b.TempDir(), "nod-guest")
	build := exec.Command("go", "build", "-o", static, "nod/cmd/nod-guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("build the guest: %v\n%s", err, out)
	}
	d, err := linux.New(linux.Config{StateDir: b.TempDir(), Guest: static, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := d.Close(); err != nil {
			b.Error(err)
		}
	})
	if c := d.Capabilities(b.Context()); !c.Supported {
		runtimetest.Missing(b, "an environment")
	}
	ws := b.TempDir()
	p, err := runtime.Prepare(runtime.Spec{ID: "e1", Owner: "o", Image: runtime.HostImage, Workspace: ws}, runtime.Roots{Allowed: []string{ws}})
	if err != nil {
		b.Fatal(err)
	}
	if err := d.Provision(context.Background(), p); err != nil {
		b.Fatal(err)
	}
	return d
}
