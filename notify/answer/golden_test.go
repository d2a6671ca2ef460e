package answer_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nod"
)

var update = flag.Bool("update", false, "write the golden files anew")

var version = regexp.MustCompile(`\?v=[0-9a-f]+`)

// TestPagesLookAsTheyDid keeps the HTML of one decision of each kind.
func TestPagesLookAsTheyDid(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	for _, test := range []struct {
		name string
		ask  func() nod.Decision
	}{
		{"approval-bash", func() nod.Decision {
			return w.askBash("npm install --save-dev vitest@3.2.4 && npx vitest run src/cart")
		}},
		{"approval-write", func() nod.Decision {
			return w.ask(nod.Decision{Kind: nod.Approval, Cause: nod.CauseTool, Subject: "Write"}, `{"file_path":"a.txt","content":"one\ntwo\u202e","mode":420}`)
		}},
		{"approval-other", func() nod.Decision {
			return w.ask(nod.Decision{Kind: nod.Approval, Cause: nod.CauseTool, Subject: "mcp__db__query"}, `{"sql":"select 1","args":[1,"\u0000"]}`)
		}},
		{"approval-plan", func() nod.Decision {
			return w.ask(nod.Decision{Kind: nod.Approval, Cause: nod.CausePlan, Subject: "ExitPlanMode"}, `{"plan":"1. Read\n2. Fix"}`)
		}},
		{"approval-start", func() nod.Decision {
			return w.ask(nod.Decision{Kind: nod.Approval, Cause: nod.CauseUntrustedStart, Subject: "by first-timer, an outsider", Deadline: w.now().Add(72 * time.Hour)}, outsidersIssue)
		}},
		{"approval-egress", func() nod.Decision {
			return w.ask(nod.Decision{Kind: nod.Approval, Cause: nod.CauseEgressHost, Subject: "registry.example"}, "registry.example:443")
		}},
		{"question", func() nod.Decision {
			return w.ask(nod.Decision{Kind: nod.Question, Cause: nod.CauseAgentQuestion, Subject: "Which rounding?", FreeText: true,
				Options: []string{"half up", "half to even"}}, "Which rounding should the total use?")
		}},
		{"question-retry", func() nod.Decision {
			return w.ask(nod.Decision{Kind: nod.Question, Cause: nod.CauseRunFailed, Subject: "run 2 failed", Options: []string{nod.Retry, nod.Cancel}}, "exit status 1")
		}},
		{"review", func() nod.Decision { return w.askReview(sampleDiff) }},
		{"answered", func() nod.Decision {
			d := w.askBash("npm test")
			w.must(c.Answer(t.Context(), d.ID, nod.Deny, "use the lock file"))
			return d
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			page, err := c.Page(t.Context(), "/d/"+test.ask().ID)
			w.must(err)
			got := version.ReplaceAllString(page, "?v=VERSION")
			file := filepath.Join("testdata", test.name+".html")
			if *update {
				w.must(os.MkdirAll("testdata", 0o755))
				w.must(os.WriteFile(file, []byte(got), 0o644))
			}
			want, err := os.ReadFile(file)
			w.must(err)
			if d := cmp.Diff(string(want), got); d != "" {
				t.Errorf("%s (-update writes it anew):\n%s", file, d)
			}
		})
	}
}
