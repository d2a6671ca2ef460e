package webhooks_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"nod/store"
	"nod/webhooks"
)

// BenchmarkDurableAccept says what a delivery costs from its request to its answer,
// HTTP, signature, parsing and sync to disk included, over 1, 8 and 64 connections.
// "x_bare" is that over one bare INSERT and commit into the same file, one after the
// other; below 1, deliveries that came at once shared syncs.
func BenchmarkDurableAccept(b *testing.B) {
	for _, connections := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(connections), func(b *testing.B) {
			d := newDoor(b)
			b.ResetTimer()
			from := time.Now()
			var wg sync.WaitGroup
			for c := range connections {
				wg.Go(func() {
					for n := c; n < b.N; n += connections {
						d.deliver(n)
					}
				})
			}
			wg.Wait()
			accept := time.Since(from)
			b.StopTimer()
			bare := bareInserts(b, d.path, b.N, labelled(0, realistic))
			b.ReportMetric(float64(accept)/float64(bare), "x_bare")
			b.ReportMetric(float64(bare.Microseconds())/float64(b.N), "bare_us")
		})
	}
}

// BenchmarkAcceptAt200PerSecond has deliveries come at a fixed pace, whether or not
// those before them were answered, and says how long answers take from the moment at
// which each was due. Run it with -benchtime 2000x: ten seconds.
func BenchmarkAcceptAt200PerSecond(b *testing.B) {
	d := newDoor(b)
	took := make([]time.Duration, b.N)
	b.ResetTimer()
	from := time.Now()
	var wg sync.WaitGroup
	for n := range b.N {
		due := from.Add(time.Duration(n) * time.Second / 200)
		<-time.After(time.Until(due))
		wg.Go(func() {
			d.deliver(n)
			took[n] = time.Since(due)
		})
	}
	wg.Wait()
	b.StopTimer()
	slices.Sort(took)
	for name, part := range map[string]float64{"p50_ms": 0.5, "p99_ms": 0.99, "max_ms": 1} {
		at := min(len(took)-1, int(part*float64(len(took))))
		b.ReportMetric(float64(took[at].Microseconds())/1000, name)
	}
}

// door is a receiver on a real store behind a real listener.
type door struct {
	b      *testing.B
	path   string
	server *httptest.Server
	client *http.Client
}

func newDoor(b *testing.B) *door {
	b.Helper()
	path := filepath.Join(b.TempDir(), "nod.db")
	s, err := store.Open(b.Context(), store.Config{Path: path})
	if err != nil {
		b.Fatal(err)
	}
	rc, _, _ := receiver(b, func(c *webhooks.Config) { c.Accept, c.Log, c.Now = s, slog.New(slog.DiscardHandler), time.Now })
	d := &door{b, path, httptest.NewServer(rc), &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	b.Cleanup(func() {
		d.client.CloseIdleConnections()
		d.server.Close()
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return d
}

// deliver sends the n-th delivery and waits for its answer.
func (d *door) deliver(n int) {
	body := labelled(n, realistic)
	from := delivery(fmt.Sprintf("00000000-0000-4000-8000-%012d", n), "issues", body)
	r, err := http.NewRequestWithContext(d.b.Context(), http.MethodPost, d.server.URL, bytes.NewReader(body))
	if err != nil {
		d.b.Error(err)
		return
	}
	r.Header = from.Header
	res, err := d.client.Do(r)
	if err != nil {
		d.b.Error(err)
		return
	}
	_, err = io.Copy(io.Discard, res.Body) // or the connection would not be used again
	if err := errors.Join(err, res.Body.Close()); err != nil || res.StatusCode != http.StatusAccepted {
		d.b.Errorf("answered %d, %v", res.StatusCode, err)
	}
}

// realistic is how long the body of an issue is in the benchmarks, in bytes.
const realistic = 8000

// labelled is the payload of the n-th label event, on an issue with a body of length.
func labelled(n, length int) []byte {
	return fmt.Appendf(nil, `{"action":"labeled","issue":{"number":%d,"updated_at":"2026-01-01T00:00:00Z","body":"%0*d"},"label":{"name":"nod"},`+
		`"repository":{"full_name":"ada/web"},"installation":{"id":1},"sender":{"id":7,"type":"User"}}`, n+1, length, 0)
}

func bareInserts(b *testing.B, path string, n int, payload []byte) time.Duration {
	b.Helper()
	raw, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		b.Fatal(err)
	}
	defer raw.Close()
	raw.SetMaxOpenConns(1)
	if _, err := raw.Exec(`CREATE TABLE IF NOT EXISTS bare (id INTEGER PRIMARY KEY, payload BLOB) STRICT`); err != nil {
		b.Fatal(err)
	}
	from := time.Now()
	for range n {
		tx, err := raw.BeginTx(b.Context(), nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := tx.ExecContext(b.Context(), `INSERT INTO bare (payload) VALUES (?)`, payload); err != nil {
			b.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(from)
}
