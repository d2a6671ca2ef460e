package claude

import (
	"flag"
	"strings"
	"testing"
	"testing/synctest"

	"nod"
	"nod/agent/agenttest/golden"
)

var update = flag.Bool("update", false, "write the golden files")

// Each testdata/*.jsonl is what a program writes in one session; the file beside
// it is what that means.
func TestLinesBecomeEvents(t *testing.T) {
	golden.Each(t, "testdata/*.jsonl", 1, *update, events)
}

// events plays a recording and renders the events and the result, one a line.
func events(t *testing.T, recording string) []byte {
	var out []byte
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		a, err := New(config(nil))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			lines := strings.Split(recording, "\n")
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
		out = golden.Session(t, drain(s), s)
	})
	return out
}
