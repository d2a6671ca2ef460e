package notify

import (
	"bytes"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nod"
)

// causes is every cause and the kind that it is asked with.
var causes = []struct {
	cause    nod.Cause
	kind     nod.DecisionKind
	blocking bool
}{
	{nod.CauseTool, nod.Approval, true}, {nod.CausePlan, nod.Approval, true}, {nod.CauseAgentQuestion, nod.Question, true},
	{nod.CauseUntrustedStart, nod.Approval, true}, {nod.CauseEgressHost, nod.Approval, false}, {nod.CauseFeatureSource, nod.Approval, true},
	{nod.CauseAuthExpired, nod.Question, true}, {nod.CauseQuotaExhausted, nod.Question, true}, {nod.CauseRebaseConflict, nod.Question, true},
	{nod.CausePrepareFailed, nod.Question, true}, {nod.CausePublishFailed, nod.Question, true}, {nod.CauseRunFailed, nod.Question, true},
	{nod.CauseReadyToPush, nod.Review, true}, {nod.CauseAgentMayRun, nod.Approval, true}, {nod.CauseEffectUnknown, nod.Question, true},
}

const (
	decisionID = "d0123456789abcdef0123456789abcdef"
	taskID     = "t3f9a12c44aa55bb0"
	hostile    = "evil\r\nX-Click: https://evil.example\x1b[2J\u202e<script>"
)

// hostileDecision has someone else's words wherever they can be.
func hostileDecision(cause nod.Cause, kind nod.DecisionKind, blocking bool) nod.Decision {
	d := nod.Decision{ID: decisionID, Task: taskID, Run: hostile, Kind: kind, Cause: cause, Blocking: blocking, Subject: hostile,
		Options: []string{hostile}, Answer: hostile, Reason: hostile, Deadline: time.Now(), CommitSHA: strings.Repeat("c", 40)}
	d.SetInput("rm -rf / # " + hostile)
	return d
}

func hostileTask() nod.Task {
	return nod.Task{ID: taskID, Title: hostile, Repo: nod.Repo{Host: "github.com", Owner: "acme", Name: "secret-project"}, Branch: "nod/" + hostile, Briefing: hostile, Reason: hostile}
}

func TestPushSaysOnlyFixedWordsAndIDs(t *testing.T) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	for _, c := range causes {
		p := ForDecision(hostileDecision(c.cause, c.kind, c.blocking), hostileTask(), "https://nod.test/")
		if err := check(p); err != nil {
			t.Errorf("%s: %v", c.cause, err)
		}
		if err := e.Encode(struct {
			Cause nod.Cause `json:"cause"`
			Push  nod.Push  `json:"push"`
		}{c.cause, p}); err != nil {
			t.Fatal(err)
		}
	}
	golden(t, "decisions.golden.json", out.Bytes())
	for _, secret := range []string{"evil", "rm -rf", "acme", "secret-project", "script", "cccc", "\x1b"} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("the pushes hold %q", secret)
		}
	}
}

func TestEveryCauseHasItsWords(t *testing.T) {
	listed := map[nod.Cause]bool{}
	for _, c := range causes {
		listed[c.cause] = true
		if title[c.cause] == "" {
			t.Errorf("%s has no title", c.cause)
		}
	}
	for cause := range title {
		if !listed[cause] {
			t.Errorf("%s is in no golden file", cause)
		}
	}
	p := ForDecision(nod.Decision{ID: decisionID, Cause: "unheard_of", Kind: "unheard_of"}, hostileTask(), "https://nod.test")
	if err := check(p); err != nil || p.Priority != calm {
		t.Errorf("unknown cause: %+v, %v", p, err)
	}
}

// TestNoDecisionCanForgeAPush: whatever is in a decision and a task, the push
// passes the rules, leads to the answer page and holds known words only.
func TestNoDecisionCanForgeAPush(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String()
		d := nod.Decision{ID: s.Draw(t, "id"), Kind: nod.DecisionKind(s.Draw(t, "kind")), Cause: nod.Cause(s.Draw(t, "cause")),
			Subject: s.Draw(t, "subject"), Blocking: rapid.Bool().Draw(t, "blocking")}
		task := nod.Task{ID: s.Draw(t, "task"), Title: s.Draw(t, "title")}
		p := ForDecision(d, task, "https://nod.test")
		if err := check(p); err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(p.Click)
		if err != nil || u.Host != "nod.test" || !strings.HasPrefix(u.Path, "/d/") || strings.Count(u.Path, "/") != 2 {
			t.Fatalf("leads to %q", p.Click)
		}
		if p.Title != "Something waits for you" && title[d.Cause] != p.Title {
			t.Fatalf("title %q", p.Title)
		}
		rest, ok := strings.CutPrefix(p.Message, "Task "+plain(task.Short())+" ")
		if !ok || rest != "waits for you." && ask[d.Kind].words != rest {
			t.Fatalf("message %q", p.Message)
		}
	})
}
