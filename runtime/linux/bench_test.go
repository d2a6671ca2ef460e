//go:build linux

package linux_test

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"nod"
	"nod/runtime"
	"nod/runtime/linux"
)

// provisioned is a driver with environments of these ids, not running.
func provisioned(b *testing.B, ids ...string) *linux.Driver {
	b.Helper()
	d := open(b, linux.Config{StateDir: b.TempDir(), Guest: staticGuest(b)})
	closing(b, d)
	needEnvironments(b, d)
	top := b.TempDir()
	for _, id := range ids {
		ws := filepath.Join(top, id)
		if err := os.Mkdir(ws, 0o755); err != nil {
			b.Fatal(err)
		}
		p, err := runtime.Prepare(runtime.Spec{ID: id, Owner: "o", Image: runtime.HostImage, Workspace: ws}, runtime.Roots{Allowed: []string{top}})
		if err != nil {
			b.Fatal(err)
		}
		if err := d.Provision(b.Context(), p); err != nil {
			b.Fatal(err)
		}
	}
	return d
}

func roundTrip(b *testing.B, d *linux.Driver, id string) {
	b.Helper()
	p, err := d.Exec(b.Context(), id, nod.Command{Argv: []string{"/usr/bin/true"}})
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
// and ends it, proven.
func BenchmarkStartToStop(b *testing.B) {
	d := provisioned(b, "e1")
	var ready time.Duration
	for b.Loop() {
		begin := time.Now()
		if _, err := d.Start(b.Context(), "e1"); err != nil {
			b.Fatal(err)
		}
		ready += time.Since(begin)
		roundTrip(b, d, "e1")
		if err := d.Stop(b.Context(), "e1"); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(ready.Microseconds())/float64(b.N)/1000, "ready-ms/op")
}

func BenchmarkExecRoundTrip(b *testing.B) {
	d := provisioned(b, "e1")
	if _, err := d.Start(b.Context(), "e1"); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		roundTrip(b, d, "e1")
	}
}

// BenchmarkCancel kills a command that would end by itself when asked, and one with
// ten processes that leave their parent, their session and their signals behind.
// Kill gives no grace; survivors are counted by the host after it has returned.
func BenchmarkCancel(b *testing.B) {
	d := provisioned(b, "e1")
	if _, err := d.Start(b.Context(), "e1"); err != nil {
		b.Fatal(err)
	}
	seconds := "7" + strconv.Itoa(os.Getpid())
	stubborn := `trap "" TERM HUP INT; for i in 1 2 3; do setsid sleep N & (setsid sleep N &); (nohup sleep N >/dev/null 2>&1 &); done; `
	for name, script := range map[string]string{"cooperative": "", "stubborn": stubborn} {
		b.Run(name, func(b *testing.B) {
			var spent, worst time.Duration
			survivors := 0
			for b.Loop() {
				p, err := d.Exec(b.Context(), "e1", nod.Command{Argv: []string{"sh", "-c", strings.ReplaceAll(script+"echo grown; exec sleep N", "N", seconds)}})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(p.Stdout(), make([]byte, len("grown\n"))); err != nil {
					b.Fatal(err)
				}
				begin := time.Now()
				if err := p.Kill(b.Context()); err != nil {
					b.Fatal(err)
				}
				took := time.Since(begin)
				spent, worst = spent+took, max(worst, took)
				survivors += showing(b, "sleep\x00"+seconds)
			}
			b.ReportMetric(float64(spent.Microseconds())/1000/float64(b.N), "cancel-ms/op")
			b.ReportMetric(float64(worst.Microseconds())/1000, "worst-ms")
			b.ReportMetric(float64(survivors), "survivors")
			if survivors > 0 {
				b.Fatalf("%d processes survive", survivors)
			}
		})
	}
}

// showing counts processes of this machine whose arguments hold mark.
func showing(b *testing.B, mark string) (n int) {
	b.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil && bytes.Contains(text, []byte(mark)) {
			n++
		}
	}
	return n
}

// BenchmarkFiftyAtOnce starts 50 environments at once, runs a command in each, says
// how much memory each holds while idle, and stops all. RSS counts the program's
// pages, which all share, in each; PSS divides them.
func BenchmarkFiftyAtOnce(b *testing.B) {
	var ids []string
	for i := range 50 {
		ids = append(ids, fmt.Sprintf("e%d", i))
	}
	d := provisioned(b, ids...)
	all := func(do func(id string) error) {
		var wg sync.WaitGroup
		for _, id := range ids {
			wg.Go(func() {
				if err := do(id); err != nil {
					b.Errorf("%s: %v", id, err)
				}
			})
		}
		wg.Wait()
	}
	var ready time.Duration
	var pss, rss int64
	for b.Loop() {
		begin := time.Now()
		all(func(id string) error { _, err := d.Start(b.Context(), id); return err })
		ready += time.Since(begin)
		all(func(id string) error { roundTrip(b, d, id); return nil })
		pss, rss = idle(b)
		all(func(id string) error { return d.Stop(b.Context(), id) })
	}
	b.ReportMetric(float64(ready.Milliseconds())/float64(b.N), "all-ready-ms/op")
	b.ReportMetric(float64(pss)/50, "pss-KiB/env")
	b.ReportMetric(float64(rss)/50, "rss-KiB/env")
}

// idle sums the memory of this process's children, in KiB.
func idle(b *testing.B) (pss, rss int64) {
	b.Helper()
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		b.Fatal(err)
	}
	var pids []string
	for _, f := range tasks {
		text, err := os.ReadFile(f)
		if err != nil {
			b.Fatal(err)
		}
		pids = append(pids, strings.Fields(string(text))...)
	}
	for _, pid := range pids {
		text, err := os.ReadFile("/proc/" + pid + "/smaps_rollup")
		if err != nil {
			b.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) < 2 {
				continue
			}
			n, _ := strconv.ParseInt(f[1], 10, 64) // the first line has no number
			switch f[0] {
			case "Pss:":
				pss += n
			case "Rss:":
				rss += n
			}
		}
	}
	return pss, rss
}
