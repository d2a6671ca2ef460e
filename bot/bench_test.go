package bot_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"nod"
	"nod/agent/agenttest"
	"nod/agent/claude"
)

// stampsEnv names the file to which a scripted agent writes when its standard input
// gave it an answer, as nanoseconds since the epoch in eight bytes.
const stampsEnv = "NOD_TEST_STAMPS"

// stamped puts a reader of the agent's real standard input before the agent.
func stamped(path string) error {
	stamps, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return err
	}
	real := os.Stdin
	os.Stdin = out
	go func() {
		defer in.Close()
		for chunk := make([]byte, 64<<10); ; {
			n, err := real.Read(chunk)
			now := time.Now().UnixNano()
			if n <= 0 || err != nil {
				return
			}
			if bytes.Contains(chunk[:n], []byte(`"behavior"`)) {
				if _, err := stamps.Write(binary.BigEndian.AppendUint64(nil, uint64(now))); err != nil {
					return
				}
			}
			if _, err := in.Write(chunk[:n]); err != nil {
				return
			}
		}
	}()
	return nil
}

// processAgents starts real processes through an adapter, isolated by nothing.
type processAgents struct {
	adapter *claude.Adapter
	host    agenttest.Host
}

func (p processAgents) Start(ctx context.Context, _ string, _ nod.Executor, s nod.AgentSpec) (nod.AgentSession, error) {
	return p.adapter.Start(ctx, p.host, s)
}

// handedOver notes when the store hands a closed decision over.
type handedOver struct {
	w  *world
	at chan time.Time
}

func (h handedOver) Closed(ctx context.Context, id string) (nod.Decision, func(), error) {
	d, told, err := h.w.store.Closed(ctx, id)
	h.at <- time.Now()
	return d, told, err
}

// BenchmarkAnswerToAgent: from an answer that is durable, so after the disk's sync,
// until the agent's process has read it from its standard input: the scripted agent,
// a process of its own, through the adapter for Claude Code. An answer counts as
// durable from when the store said so to whom it told first, the one who answered or
// the one who waits for the agent. Beside it: the writing transaction, whose time is
// the disk's, and both together. Medians. The answer comes when all that
// follows from the question is done, as a person's does.
func BenchmarkAnswerToAgent(b *testing.B) {
	const asks = 25 // of one task
	w := newWorld(b)
	w.tick = time.Second
	path := filepath.Join(b.TempDir(), "stamps")
	script := agenttest.Script{Steps: make([]agenttest.Step, asks)}
	for i := range script.Steps {
		script.Steps[i].Bash = "exit 0; make" // no rule allows it
	}
	adapter, err := agenttest.Adapter(script, claude.Config{Env: map[string]string{"HOME": b.TempDir(), stampsEnv: path, "PATH": os.Getenv("PATH")}, Log: w.log()})
	if err != nil {
		b.Fatal(err)
	}
	w.agents = processAgents{adapter, agenttest.Host{Dir: b.TempDir()}}
	handed := handedOver{w, make(chan time.Time, 1)}
	w.closings = handed
	w.start()
	defer w.halt()
	waiting := func() nod.Decision {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for range 30_000 {
			open, err := w.store.OpenDecisions(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			for _, d := range open {
				if d.Cause == nod.CauseTool {
					return d
				}
			}
			<-tick.C
		}
		b.Fatal("the agent does not ask")
		return nod.Decision{}
	}
	settled := func() {
		for {
			select {
			case <-w.store.Committed():
			case <-time.After(25 * time.Millisecond):
				return
			}
		}
	}
	var durable, asked []time.Time
	var record []time.Duration
	for b.Loop() {
		b.StopTimer()
		if n := len(durable); n%asks == 0 {
			w.issue(1+n/asks, ada)
			w.label(1+n/asks, ada)
		}
		d := waiting()
		settled()
		b.StartTimer()
		from := time.Now()
		if _, err := w.store.RecordAnswer(b.Context(), nod.Answer{Decision: d.ID, Answer: nod.Allow, By: nod.Actor{Kind: nod.ActorHost}}); err != nil {
			b.Fatal(err)
		}
		recorded := time.Now()
		b.StopTimer()
		if at := <-handed.at; at.Before(recorded) {
			recorded = at
		}
		asked, durable, record = append(asked, from), append(durable, recorded), append(record, recorded.Sub(from))
		<-time.After(5 * time.Millisecond) // the next look must not take a processor from the agent
		b.StartTimer()
	}
	b.StopTimer()
	settled()
	raw, err := os.ReadFile(path)
	if err != nil || len(raw) != 8*len(durable) {
		b.Fatalf("%d answers were recorded, and %d bytes of stamps: %v", len(durable), len(raw), err)
	}
	reach, whole, stamps := make([]time.Duration, len(durable)), make([]time.Duration, len(durable)), bytes.NewReader(raw)
	for i := range reach {
		var at int64
		if err := binary.Read(stamps, binary.BigEndian, &at); err != nil && err != io.EOF {
			b.Fatal(err)
		}
		reach[i], whole[i] = time.Duration(at-durable[i].UnixNano()), time.Duration(at-asked[i].UnixNano())
	}
	at := func(all []time.Duration, percent int) float64 {
		slices.Sort(all)
		return float64(all[len(all)*percent/100].Nanoseconds()) / 1e6
	}
	b.ReportMetric(at(reach, 50), "ms-to-agent")
	b.ReportMetric(at(reach, 99), "ms-to-agent-p99")
	b.ReportMetric(at(record, 50), "ms-recording")
	b.ReportMetric(at(whole, 50), "ms-in-all")
	b.ReportMetric(0, "ns/op")
}
