package bot_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"nod"
)

// BenchmarkAnswerToAgent: from an answer that is recorded, and so synced to the disk,
// until an agent's process could read its bytes from a pipe as its standard input. The
// writing transaction, whose time is the disk's, is shown beside it. Medians.
func BenchmarkAnswerToAgent(b *testing.B) {
	w := newWorld(b)
	w.tick = time.Second
	in, out, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer in.Close()
	defer out.Close()
	line := append(fmt.Appendf(nil, `{"type":"control_response","response":{"behavior":"allow","updatedInput":{"command":"%0200d"}}}`, 0), '\n')
	w.agent = func(a *fakeSession) nod.Result {
		for a.ctx.Err() == nil {
			if !a.asks("Bash", `{"command":"make"}`).Allow {
				break
			}
			if _, err := out.Write(line); err != nil {
				break
			}
		}
		return nod.Result{OK: true}
	}
	w.issue(1, ada)
	w.start()
	defer w.halt()
	w.label(1, ada)
	waiting := func() (d nod.Decision) {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for range 10_000 {
			if open, err := w.store.OpenDecisions(b.Context()); err != nil {
				b.Fatal(err)
			} else if len(open) == 1 && open[0].Cause == nod.CauseTool {
				return open[0]
			}
			<-tick.C
		}
		b.Fatal("the agent does not ask")
		return d
	}
	var reach, record []time.Duration
	got := make([]byte, len(line))
	for b.Loop() {
		b.StopTimer()
		d := waiting()
		b.StartTimer()
		from := time.Now()
		if _, err := w.store.RecordAnswer(b.Context(), nod.Answer{Decision: d.ID, Answer: nod.Allow, By: nod.Actor{Kind: nod.ActorHost}}); err != nil {
			b.Fatal(err)
		}
		recorded := time.Now()
		n := 0
		for n < len(got) {
			m, err := in.Read(got[n:])
			if err != nil {
				b.Fatal(err)
			}
			n += m
		}
		reach, record = append(reach, time.Since(recorded)), append(record, recorded.Sub(from))
		if !bytes.Equal(got, line) {
			b.Fatal("the agent read something else")
		}
	}
	b.StopTimer()
	w.wants(nod.ActCancel, "")
	median := func(all []time.Duration) float64 {
		slices.Sort(all)
		return float64(all[len(all)/2].Nanoseconds()) / 1e6
	}
	b.ReportMetric(median(reach), "ms-to-agent")
	b.ReportMetric(median(record), "ms-recording")
	b.ReportMetric(0, "ns/op")
}
