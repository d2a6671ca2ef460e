package runtimetest

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Crash kills supervisors of c's driver at random moments, times times: while they
// open the driver, and in each step of an environment's life. After each, the next
// one finds nothing that the killed one's store does not know.
func Crash(t *testing.T, c Config, times int) {
	if probe := c.New(t, c.TempDir(t), quiet(nil)); true {
		caps := probe.Capabilities(t.Context())
		if err := probe.Close(); err != nil {
			t.Fatal(err)
		}
		if !caps.Supported {
			Missing(t, "an environment")
		}
	}
	adopting(t)
	known := orphans()
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	b := &bench{t: t, c: c}
	o := order{State: c.TempDir(t), Root: c.TempDir(t), Mark: mark()}
	steps := []string{"open", "provision", "start", "exec", "stop", "delete"}
	lasts := map[string]time.Duration{} // what was seen of a step, at most
	struck := map[string]int{}
	for n := range times {
		step := steps[random.IntN(len(steps))]
		struck[step]++
		s := startSupervisor(t, c, o)
		if step == "open" {
			s.strike(t, step, random, lasts)
		} else {
			s.waitFor(t, "opened")
			b.nothingOfOrder(o, append(known, s.cmd.Process.Pid))
			s.goOn(t)
			s.strike(t, step, random, lasts)
		}
		settled(t, "what a killed supervisor had started", func() bool { return len(orphans(known...)) == 0 })
		if t.Failed() {
			t.Fatalf("before or after kill %d, in %s", n, step)
		}
	}
	s := newSupervisor(t, c, o)
	b.nothingOfOrder(o, append(known, s.cmd.Process.Pid))
	s.kill()
	t.Logf("killed in %v, of lengths %v", struck, lasts)
}

// strike kills s at a random moment of a step.
func (s *supervisor) strike(t *testing.T, step string, random *rand.Rand, lasts map[string]time.Duration) {
	t.Helper()
	s.waitFor(t, step)
	begin := time.Now()
	if lasts[step] == 0 { // the first of its kind shows how long it takes
		s.said.Scan()
		lasts[step] = max(time.Since(begin), 100*time.Microsecond)
	} else {
		<-time.After(time.Duration(random.Int64N(int64(lasts[step]))))
	}
	s.kill()
}
