package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"nod"
	"nod/runtime"
	"nod/runtime/runtimetest"
)

// TestDoctorSaysWhatWasSeenInside runs the real self-test.
func TestDoctorSaysWhatWasSeenInside(t *testing.T) {
	var out, errs bytes.Buffer
	code := Main([]string{"doctor", "runtime", "--json"}, &out, &errs)
	if code == nod.Unsupported.ExitCode() {
		runtimetest.Missing(t, "an environment: "+errs.String())
	}
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	var wrapped struct{ Data report }
	if err := json.Unmarshal(out.Bytes(), &wrapped); err != nil {
		t.Fatal(err)
	}
	r := wrapped.Data
	seen := map[string]fact{}
	for _, f := range r.Facts {
		seen[f.Name] = f
		if !f.OK && !f.Optional {
			t.Errorf("%s: %s", f.Name, f.Detail)
		}
	}
	if len(seen) != 16 || !r.Supported || seen["user"].Detail != "1000:1000" || seen["network interfaces"].Detail != "lo" {
		t.Errorf("%d facts of a machine that holds environments: %+v", len(seen), r)
	}
	out.Reset()
	if code := Main([]string{"doctor", "runtime"}, &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	if got := strings.Count(out.String(), "\n"); got != 1+len(r.Facts) {
		t.Errorf("%d lines for %d facts:\n%s", got, len(r.Facts), out.String())
	}
}

func TestDoctorTellsWhatIsMissing(t *testing.T) {
	got := facts(runtime.Capabilities{Missing: []string{"user namespaces"}, Hint: "enable them"})
	if len(got) != 1 || got[0].OK || got[0].Detail != "user namespaces" || got[0].Hint != "enable them" {
		t.Errorf("nothing starts: %+v", got)
	}
	bad := 0
	for _, f := range facts(runtime.Capabilities{Seen: nod.Attestation{Isolation: "none"}, Limits: []string{"memory"}}) {
		if !f.OK {
			bad++
		}
	}
	if bad != 15 { // all but the memory limit
		t.Errorf("%d facts are bad where nothing holds", bad)
	}
}
