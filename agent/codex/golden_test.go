package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"nod"
)

var update = flag.Bool("update", false, "write the golden files")

// Each testdata/*.jsonl is what a program writes in one turn; the file beside it is
// what that means. "@wait" waits for an answer to a request of the program,
// "@clean" for the cleaning of its commands.
func TestLinesBecomeEvents(t *testing.T) {
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".jsonl"), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(file, ".jsonl") + ".golden"
			got := events(t, string(raw))
			if *update {
				if err := os.WriteFile(golden, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

// events plays a recording and renders the events and the result, one a line.
func events(t *testing.T, recording string) []byte {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		a, err := New(config(nil))
		if err != nil {
			t.Fatal(err)
		}
		s, err := a.Start(t.Context(), f, nod.AgentSpec{Prompt: "Go.", Approve: func(_ context.Context, r nod.ApprovalRequest) nod.ApprovalAnswer {
			return nod.ApprovalAnswer{Allow: !strings.Contains(string(r.Input), "deny me"), Reason: "not that"}
		}})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for l := range strings.SplitSeq(strings.TrimSpace(recording), "\n") {
				switch l {
				case "@wait":
					f.told(`"decision"`)
				case "@clean":
					f.told("thread/backgroundTerminals/clean")
				default:
					f.say(l)
				}
			}
		}()
		for _, e := range drain(s) {
			out.WriteString(string(e.Kind) + " " + string(e.Data) + "\n")
		}
		r, err := s.Wait()
		if err != nil {
			t.Errorf("wait: %v", err)
		}
		raw, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("= " + string(raw) + "\n")
	})
	return out.Bytes()
}
