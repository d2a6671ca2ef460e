package answer_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nod"
	"nod/notify/answer"
	"nod/store"
)

// BenchmarkFollowers: 1,000 browsers follow one task over loopback, from the real
// store. Shown are the memory that one costs the process, both ends of its connection
// included, and how long after its commit an event has reached 99 of 100 of them.
func BenchmarkFollowers(b *testing.B) {
	const followers = 1000
	s, err := store.Open(b.Context(), store.Config{Path: b.TempDir() + "/nod.db"})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	sessions := everyone{s}
	page, err := answer.New(answer.Config{Decisions: s, Witness: s, Streams: s, Passkeys: s, Sessions: sessions, MaxStreams: followers,
		PublicURL: fmt.Sprintf("http://localhost:%d", listener.Addr().(*net.TCPAddr).Port), Log: slog.New(slog.DiscardHandler)})
	must(err)
	web := httptest.NewUnstartedServer(page)
	must(web.Listener.Close())
	web.Listener = listener
	web.Start()
	task := &nod.Task{ID: "t0000000000000001", Repo: nod.Repo{Host: "github.com", Owner: "acme", Name: "web"}, Issue: 1, Title: "x", State: nod.TaskQueued, Agent: "claude"}
	must(s.Apply(b.Context(), &nod.Change{By: nod.Supervisor(), Tasks: []*nod.Task{task}}))
	memory := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	before := memory()
	var arrived atomic.Int64
	var mu sync.Mutex
	var lags []time.Duration
	var committed atomic.Int64 // in nanoseconds; 0 is not yet
	var wg sync.WaitGroup
	ready := make(chan struct{}, followers)
	for i := range followers {
		r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, web.URL+"/t/"+task.ID+"/events?after=0", nil)
		must(err)
		r.Header.Set("Cookie", "nod="+fmt.Sprintf("%043d", i))
		resp, err := (&http.Client{Transport: &http.Transport{}}).Do(r)
		must(err)
		if resp.StatusCode != http.StatusOK {
			b.Fatalf("follower %d: %s", i, resp.Status)
		}
		wg.Go(func() {
			defer resp.Body.Close()
			lines := bufio.NewScanner(resp.Body)
			for first := true; lines.Scan(); {
				if !strings.HasPrefix(lines.Text(), "data: ") {
					continue
				}
				if first { // the task's beginning
					first = false
					ready <- struct{}{}
					continue
				}
				lag := time.Since(time.Unix(0, committed.Load()))
				mu.Lock()
				lags = append(lags, lag)
				mu.Unlock()
				arrived.Add(1)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
		})
	}
	for range followers {
		<-ready
	}
	each := float64(memory()-before) / followers / 1024
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for b.Loop() {
		arrived.Store(0)
		e := nod.NewEvent(task.ID, nod.Transcript, nod.EventMessage, nod.Actor{Kind: nod.ActorAgent}, nod.Message{Text: "It still fails."})
		committed.Store(time.Now().UnixNano()) // before the commit: the sync counts
		must(s.Apply(b.Context(), &nod.Change{By: nod.Supervisor(), Events: []*nod.Event{&e}}))
		for arrived.Load() < followers {
			<-tick.C
		}
	}
	page.Close()
	web.Close()
	wg.Wait()
	slices.Sort(lags)
	b.ReportMetric(each, "KiB/follower")
	b.ReportMetric(float64(lags[len(lags)/2].Microseconds())/1000, "ms-median")
	b.ReportMetric(float64(lags[len(lags)*99/100].Microseconds())/1000, "ms-p99")
	b.ReportMetric(0, "ns/op")
}

// everyone is a store in which every token is a session of its own.
type everyone struct{ *store.Store }

func (e everyone) Session(_ context.Context, digest string) (nod.Session, error) {
	return nod.Session{TokenDigest: digest, Passkey: "p", ExpiresAt: time.Now().Add(time.Hour), Idle: time.Hour}, nil
}

func (e everyone) Peek(ctx context.Context, digest string) (nod.Session, error) {
	return e.Session(ctx, digest)
}
