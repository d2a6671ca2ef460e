package runtimetest

import (
	"io"
	"slices"
	"strconv"
	"strings"

	"nod"
	"nod/runtime"
)

const (
	maxPIDs   = 64
	maxMemory = 256 << 20 // of which guests with the race detector need a good part themselves
	maxCPUs   = 1
)

// limitsHold is C29: what the driver says that it enforces holds at the number
// that was asked for; the rest is refused when it is required.
func limitsHold(b *bench) {
	caps := b.caps
	enforces := func(kind string) bool { return slices.Contains(caps.Limits, kind) }
	b.refusesLimits(caps)
	if !enforces("pids") {
		b.t.Fatal("the driver enforces no process limit: a fork bomb would take the host")
	}
	b.provision("e4", owner, func(s *runtime.Spec) {
		s.Limits = runtime.Limits{PIDs: maxPIDs, TmpBytes: 16 << 20, Required: true}
		if enforces("memory") {
			s.Limits.MemoryBytes = maxMemory
		}
		if enforces("cpu") {
			s.Limits.CPUs = maxCPUs
		}
	})
	b.start("e4")
	defer b.gone("e4")
	sh := func(script string) string {
		out, _, _ := b.run("e4", "", nod.Command{Argv: []string{"sh", "-c", script}})
		return out
	}
	out := strings.Fields(sh(`i=0; while [ $i -lt 200 ]; do sleep 60 & i=$((i+1)); echo $i; done 2>/dev/null`))
	if n, err := strconv.Atoi(append(out, "")[max(0, len(out)-1)]); err != nil || n > maxPIDs || n < maxPIDs/4 {
		b.t.Errorf("a fork bomb made %d processes under a limit of %d", n, maxPIDs)
	}
	alive := func(after string) {
		b.t.Helper()
		if got := sh("echo alive"); got != "alive\n" {
			b.t.Errorf("after %s: %q", after, got)
		}
	}
	alive("the fork bomb")
	files, stderr, _ := b.run("e4", "", b.guest("e4", roleFiles))
	if n, err := strconv.Atoi(strings.TrimSpace(files)); err != nil || n > 65536 || n < 100 {
		b.t.Errorf("files could be opened up to %q: %s", files, stderr)
	}
	alive("the files")
	full, stderr, _ := b.run("e4", "", b.guest("e4", roleFill, "/tmp/full"))
	if n, err := strconv.Atoi(strings.TrimSpace(full)); err != nil || n > 16<<20 || n < 8<<20 {
		b.t.Errorf("/tmp took %q bytes of %d: %s", full, 16<<20, stderr)
	}
	b.flood("e4")
	alive("the flood")
	if enforces("cpu") {
		spent, stderr, _ := b.run("e4", "", b.guest("e4", roleSpin))
		if ms, err := strconv.Atoi(strings.TrimSpace(spent)); err != nil || ms < 10 || ms > 1300*maxCPUs {
			b.t.Errorf("two busy threads had %q ms of a second under a limit of %v core: %s", spent, maxCPUs, stderr)
		}
	}
	if enforces("memory") {
		if got, _, _ := b.run("e4", "", b.guest("e4", roleHold, strconv.Itoa(maxMemory/2))); got != "held\n" {
			b.t.Errorf("half of the memory could not be used: %q", got)
		}
		p := b.exec("e4", b.guest("e4", roleHold, strconv.Itoa(2*maxMemory)))
		got, err := io.ReadAll(p.Stdout())
		status, werr := p.Wait()
		// The whole environment may end with it: nobody then waits for a status.
		if err != nil || len(got) > 0 || werr == nil && status.Signal != 9 {
			b.t.Errorf("twice the memory limit: %q, %+v, %v", got, status, werr)
		}
	}
}

// flood has a command write without end to nobody: it blocks, and can be killed.
func (b *bench) flood(id string) {
	b.t.Helper()
	p := b.exec(id, nod.Command{Argv: []string{"sh", "-c", "yes >&2 & yes"}})
	if err := p.Kill(within(b.t, killBound)); err != nil {
		b.t.Errorf("kill a command that floods: %v", err)
	}
}

// refusesLimits wants that no driver takes a limit that it does not enforce.
func (b *bench) refusesLimits(caps runtime.Capabilities) {
	b.t.Helper()
	for kind, l := range map[string]runtime.Limits{"memory": {MemoryBytes: 64 << 20}, "cpu": {CPUs: 0.5}, "pids": {PIDs: 64}} {
		if slices.Contains(caps.Limits, kind) {
			continue
		}
		l.Required = true
		p, _ := b.prepare("e5", owner, func(s *runtime.Spec) { s.Limits = l })
		wantCode(b.t, "a required "+kind+" limit", b.Provision(b.t.Context(), p), nod.Unsupported)
	}
}
