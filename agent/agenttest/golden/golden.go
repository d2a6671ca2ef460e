// Package golden compares what recordings of agents become with files beside them. It
// must not import an adapter: the adapters' own tests use it.
package golden

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nod"
)

// Each renders every recording that pattern matches, at least least of them, each in a
// subtest, and compares it with the file beside it that ends in ".golden", or writes
// that file where update is set.
func Each(t *testing.T, pattern string, least int, update bool, render func(t *testing.T, recording string) []byte) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) < least {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		stem := strings.TrimSuffix(file, filepath.Ext(file))
		t.Run(filepath.Base(stem), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := render(t, strings.TrimSpace(string(raw)))
			if update {
				if err := os.WriteFile(stem+".golden", got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(stem + ".golden")
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

// Session renders the events of a session that has ended, one a line, and its result.
// What was withdrawn comes last: a prompt's own goroutine tells it, so its place among
// the events is not fixed.
func Session(t *testing.T, events []nod.Event, s nod.AgentSession) []byte {
	t.Helper()
	var out, withdrawn bytes.Buffer
	for _, e := range events {
		line := string(e.Kind) + " " + string(e.Data) + "\n"
		if strings.Contains(line, `"outcome":"withdrawn"`) {
			withdrawn.WriteString(line)
			continue
		}
		out.WriteString(line)
	}
	out.Write(withdrawn.Bytes())
	result, err := s.Wait()
	if err != nil {
		out.Write(Failure(err))
	}
	raw, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	return append(out.Bytes(), "= "+string(raw)+"\n"...)
}

// Failure renders an error by its code and what strangers may read of it.
func Failure(err error) []byte {
	return []byte("! " + string(nod.CodeOf(err)) + " " + nod.PublicMessage(err) + "\n")
}
