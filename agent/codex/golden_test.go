package codex

import (
	"context"
	"flag"
	"strings"
	"testing"
	"testing/synctest"

	"nod"
	"nod/agent/agenttest/golden"
)

var update = flag.Bool("update", false, "write the golden files")

// Each testdata/*.jsonl is what a program writes in one turn; the file beside it is
// what that means. "@wait" waits for an answer to a request of the program,
// "@clean" for the cleaning of its commands.
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
		s, err := a.Start(t.Context(), f, nod.AgentSpec{Prompt: "Go.", Approve: func(_ context.Context, r nod.ApprovalRequest) nod.ApprovalAnswer {
			return nod.ApprovalAnswer{Allow: !strings.Contains(string(r.Input), "deny me"), Reason: "not that"}
		}})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for l := range strings.SplitSeq(recording, "\n") {
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
		out = golden.Session(t, drain(s), s)
	})
	return out
}
