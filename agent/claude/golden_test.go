package claude

import (
	"bytes"
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

// Each testdata/*.jsonl is what a program writes in one session; the file beside
// it is what that means.
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
		go func() {
			lines := strings.Split(strings.TrimSpace(recording), "\n")
			f.told()
			f.say(lines[0])
			f.told()
			for _, l := range lines[1:] {
				f.say(l)
				if strings.Contains(l, "can_use_tool") {
					f.told() // its answer, so that the order is always one
				}
			}
			f.told() // the end of the input
			f.exit(0)
		}()
		s, err := a.Start(t.Context(), f, nod.AgentSpec{Prompt: "Go.", Approve: yes})
		if err != nil {
			t.Fatal(err)
		}
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
