package webhooks_test

import (
	"database/sql"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"nod/store"
	"nod/webhooks"
)

// BenchmarkDurableAccept says what a delivery costs from its request to its answer,
// signature, parsing and sync to disk included, with 1, 8 and 64 at once. "x_bare"
// is that over one bare INSERT and commit into the same file, one after the other.
func BenchmarkDurableAccept(b *testing.B) {
	for _, connections := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(connections), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "nod.db")
			s, err := store.Open(b.Context(), store.Config{Path: path})
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := s.Close(); err != nil {
					b.Error(err)
				}
			}()
			rc, _, _ := receiver(b, func(c *webhooks.Config) { c.Accept, c.Log, c.Now = s, slog.New(slog.DiscardHandler), time.Now })
			from := time.Now()
			var wg sync.WaitGroup
			for c := range connections {
				wg.Go(func() {
					for n := c; n < b.N; n += connections {
						guid := fmt.Sprintf("00000000-0000-4000-8000-%012d", n)
						answer := httptest.NewRecorder()
						rc.ServeHTTP(answer, delivery(guid, "issues", labelled(n)))
						if answer.Code != http.StatusAccepted {
							b.Error(answer.Code)
							return
						}
					}
				})
			}
			wg.Wait()
			accept := time.Since(from)
			b.StopTimer()
			bare := bareInserts(b, path, b.N, labelled(0))
			b.ReportMetric(float64(accept)/float64(bare), "x_bare")
			b.ReportMetric(float64(bare.Microseconds())/float64(b.N), "bare_us")
		})
	}
}

func labelled(n int) []byte {
	return fmt.Appendf(nil, `{"action":"labeled","issue":{"number":%d,"updated_at":"2026-01-01T00:00:00Z","body":"%0*d"},"label":{"name":"nod"},`+
		`"repository":{"full_name":"ada/web"},"installation":{"id":1},"sender":{"id":7,"type":"User"}}`, n+1, 8000, 0)
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
