package store

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"nod"
	"nod/migrations"
)

var update = flag.Bool("update", false, "rewrite golden files")

func rawDB(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, "foreign_keys(1)")+"&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func apply(t *testing.T, db *sql.DB, files fs.FS) error {
	t.Helper()
	return migrate(t.Context(), db, files, time.Now, slog.New(slog.DiscardHandler))
}

// withMore is the released migrations and those in more.
func withMore(t *testing.T, more map[string]string) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	names, err := fs.Glob(migrations.Files, "*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		raw, err := fs.ReadFile(migrations.Files, name)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = &fstest.MapFile{Data: raw}
	}
	for name, text := range more {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

// next names a migration after the released ones.
func next(t *testing.T, what string) string {
	t.Helper()
	known, err := load(migrations.Files)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%04d_%s.sql", len(known)+1, what)
}

// TestSchemaIsTheGoldenFile keeps schema.sql what the migrations make.
func TestSchemaIsTheGoldenFile(t *testing.T) {
	db := rawDB(t, filepath.Join(t.TempDir(), "nod.db"))
	if err := apply(t, db, migrations.Files); err != nil {
		t.Fatal(err)
	}
	lines, err := list(t.Context(), db, func(r scanner) (text string, err error) {
		err = r.Scan(&text)
		return text, err
	}, `SELECT sql || ';' FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY tbl_name, type DESC, name`)
	if err != nil {
		t.Fatal(err)
	}
	got := "-- What the migrations make. Written by: go test ./store -update\n\n" + strings.Join(lines, "\n\n") + "\n"
	if *update {
		if err := os.WriteFile("schema.sql", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("schema.sql is not what the migrations make (-file +made):\n%s", d)
	}
}

// TestMigrationKeepsRows applies a next migration to a database with rows.
func TestMigrationKeepsRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nod.db")
	s, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.AcceptDelivery(t.Context(), nod.Delivery{GUID: "g", Event: "issues"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db := rawDB(t, path)
	name := next(t, "add_note")
	if err := apply(t, db, withMore(t, map[string]string{name: `ALTER TABLE deliveries ADD COLUMN extra TEXT NOT NULL DEFAULT 'x'`})); err != nil {
		t.Fatal(err)
	}
	var extra string
	if err := db.QueryRow(`SELECT extra FROM deliveries WHERE guid = 'g'`).Scan(&extra); err != nil || extra != "x" {
		t.Errorf("row after the migration: %q, %v", extra, err)
	}
}

// TestChangedOrNewerDatabaseRefusesToStart: neither is opened, and nothing of it
// is touched.
func TestChangedOrNewerDatabaseRefusesToStart(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(t *testing.T, db *sql.DB)
		says    string
	}{
		"a newer database": {func(t *testing.T, db *sql.DB) {
			if err := apply(t, db, withMore(t, map[string]string{next(t, "add_later"): `CREATE TABLE later (id INTEGER PRIMARY KEY) STRICT`})); err != nil {
				t.Fatal(err)
			}
		}, "newer nod"},
		"a changed migration": {func(t *testing.T, db *sql.DB) {
			files := withMore(t, nil)
			files["0001_create_schema.sql"].Data = append(files["0001_create_schema.sql"].Data, "\n-- edited\n"...)
			if err := apply(t, db, files); err != nil {
				t.Fatal(err)
			}
		}, "0001_create_schema.sql"},
		"another program's database": {func(t *testing.T, db *sql.DB) {
			if _, err := db.Exec(`CREATE TABLE notes (id INTEGER PRIMARY KEY)`); err != nil {
				t.Fatal(err)
			}
		}, "not nod's"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "nod.db")
			c.prepare(t, rawDB(t, path))
			_, err := Open(t.Context(), Config{Path: path})
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("opened: %v, want an error that says %q", err, c.says)
			}
		})
	}
}

// TestMigrationThatFailsLeavesNothing: it is one transaction.
func TestMigrationThatFailsLeavesNothing(t *testing.T) {
	db := rawDB(t, filepath.Join(t.TempDir(), "nod.db"))
	broken := withMore(t, map[string]string{next(t, "add_half"): `CREATE TABLE half (id INTEGER PRIMARY KEY) STRICT; CREATE TABLE half (id INTEGER)`})
	if err := apply(t, db, broken); err == nil {
		t.Fatal("no error")
	}
	if err := apply(t, db, migrations.Files); err != nil {
		t.Errorf("the released migrations after that: %v", err)
	}
	var n int
	if err := db.QueryRow(`SELECT count(*) FROM sqlite_schema WHERE name = 'half'`).Scan(&n); err != nil || n != 0 {
		t.Errorf("%d tables are left, %v", n, err)
	}
}

func TestMigrationsAreNumberedWithoutGaps(t *testing.T) {
	for _, name := range []string{"0099_add_gap.sql", "1_add_short.sql", next(t, "Add_Upper"), next(t, "lonely")} {
		if _, err := load(withMore(t, map[string]string{name: "SELECT 1"})); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestOpenRefusesWhatCannotWork(t *testing.T) {
	dir := t.TempDir()
	for name, cfg := range map[string]Config{
		"no path":        {},
		"no directory":   {Path: filepath.Join(dir, "missing", "nod.db")},
		"a directory":    {Path: dir},
		"a short secret": {Path: filepath.Join(dir, "nod.db"), Secrets: []nod.Secret{nod.NewSecret("abc")}},
	} {
		if s, err := Open(context.Background(), cfg); err == nil {
			t.Errorf("%s: opened", name)
			_ = s.Close()
		}
	}
	path := filepath.Join(dir, "with space & ? and #.db")
	s, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Check(t.Context()); err != nil {
		t.Error(err)
	}
	for _, file := range []string{path, path + "-wal"} {
		info, err := os.Stat(file)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", file, info.Mode(), err)
		}
	}
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"} {
		var got string
		if err := s.writer.QueryRow("PRAGMA " + pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", pragma, got, err, want)
		}
	}
	if _, err := s.readers.Exec(`DELETE FROM tasks`); err == nil {
		t.Error("the read pool wrote")
	}
}

// A process that holds the write lock keeps nobody from opening the store and reading.
func TestOpeningNeedsNoWriteLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nod.db")
	first, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	tx, err := first.writer.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	second, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatalf("beside one that writes: %v", err)
	}
	if tasks, err := second.Tasks(t.Context()); err != nil || len(tasks) != 0 {
		t.Errorf("read %v, %v", tasks, err)
	}
	for _, err := range []error{second.Close(), tx.Rollback(), first.Close()} {
		if err != nil {
			t.Error(err)
		}
	}
}
