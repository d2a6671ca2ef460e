package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"nod"
)

// taps opens every test push as it arrives on the phone, until the test ends.
func (o *outside) taps(done <-chan struct{}) {
	opened := map[string]bool{}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		for _, m := range o.phone.Messages(o.topic) {
			if _, _, ok := strings.Cut(m.Click, "/tap/"); !ok || opened[m.ID] {
				continue
			}
			r, err := http.Get(m.Click) // what a preview does changes nothing
			if err != nil {
				continue
			}
			_ = r.Body.Close()
			r, err = http.Post(m.Click, "application/x-www-form-urlencoded", nil)
			if err == nil {
				_ = r.Body.Close()
				opened[m.ID] = true
			}
		}
		select {
		case <-done:
			return
		case <-tick.C:
		}
	}
}

// TestTestPushMustBeOpened, whether or not nod is serving; one that nobody opens
// says so.
func TestTestPushMustBeOpened(t *testing.T) {
	o := newOutside(t)
	if _, errs, code := o.run("doctor", "notify", "--wait", "100ms"); code != nod.NeedsHuman.ExitCode() || !strings.Contains(errs, "not as they should be") {
		t.Errorf("nobody opens it: %d %s", code, errs)
	}
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() { defer close(ended); o.taps(done) }()
	defer func() { close(done); <-ended }()
	check := func(when string) {
		t.Helper()
		out, errs, code := o.run("doctor", "notify", "--wait", "50s", "--json")
		var report struct{ Data []found }
		if code != 0 || json.Unmarshal([]byte(out), &report) != nil || len(report.Data) != 4 {
			t.Fatalf("%s: %d %s%s", when, code, out, errs)
		}
		for _, f := range report.Data {
			if !f.OK || strings.Contains(f.Detail, "cannot") {
				t.Errorf("%s: %+v", when, f)
			}
		}
	}
	check("alone")
	o.serve()
	check("beside a serving nod")
}

// TestSetupMakesATopicThatNobodyGuesses and shows it once, to whoever is at the
// terminal.
func TestSetupMakesATopicThatNobodyGuesses(t *testing.T) {
	o := newOutside(t)
	path := filepath.Join(filepath.Dir(o.config), "topic")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	out, errs, code := o.run("setup", "notify", "--wait", "100ms")
	if code != nod.NeedsHuman.ExitCode() {
		t.Fatalf("%d %s%s", code, out, errs)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	raw, err := os.ReadFile(path)
	topic := strings.TrimSpace(string(raw))
	if err != nil || len(topic) < 24 || !strings.Contains(errs, "ntfy://") || !strings.Contains(errs, topic) || strings.Contains(out, topic) {
		t.Errorf("a topic of %d characters, %v\n%s", len(topic), err, errs)
	}
	if got := o.phone.Messages(topic); len(got) != 1 || got[0].Title != "Test push" {
		t.Errorf("on the phone: %+v", got)
	}
	if _, _, code = o.run("setup", "notify", "--wait", "100ms"); code != nod.NeedsHuman.ExitCode() {
		t.Errorf("a second time: %d", code)
	}
	if again, err := os.ReadFile(path); err != nil || string(again) != string(raw) {
		t.Error("the topic was made anew")
	}
}
