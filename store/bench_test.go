package store_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"nod"
	"nod/store"
)

// BenchmarkAcceptDelivery says how much accepting a delivery costs on top of
// what any durable row costs here: "x_bare" is its time over that of a bare
// INSERT and commit into the same file.
func BenchmarkAcceptDelivery(b *testing.B) {
	path := filepath.Join(b.TempDir(), "nod.db")
	secrets := []nod.Secret{nod.NewSecret("a-webhook-secret-of-some-length"), nod.NewSecret("another-secret-of-some-length")}
	s, err := store.Open(b.Context(), store.Config{Path: path, Secrets: secrets})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	}()
	raw, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)&_txlock=immediate")
	if err != nil {
		b.Fatal(err)
	}
	defer raw.Close()
	raw.SetMaxOpenConns(1)
	if _, err := raw.Exec(`CREATE TABLE bare (id INTEGER PRIMARY KEY, payload BLOB) STRICT`); err != nil {
		b.Fatal(err)
	}
	payload := []byte(`{"action":"labeled","text":"` + string(make([]byte, 0)) + fmt.Sprintf("%08000d", 0) + `"}`)

	var accept, bare time.Duration
	n := 0
	for b.Loop() {
		from := time.Now()
		fresh, err := s.AcceptDelivery(b.Context(), nod.Delivery{GUID: fmt.Sprint("guid-", n), SemanticKey: fmt.Sprint("key-", n),
			Event: "issues", Action: "labeled", Order: "o/n#1", Payload: payload})
		if err != nil || !fresh {
			b.Fatal(fresh, err)
		}
		accept += time.Since(from)
		from = time.Now()
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
		bare += time.Since(from)
		n++
	}
	b.ReportMetric(float64(accept)/float64(bare), "x_bare")
	b.ReportMetric(float64(accept.Microseconds())/float64(n), "accept_us")
	b.ReportMetric(float64(bare.Microseconds())/float64(n), "bare_us")
}
