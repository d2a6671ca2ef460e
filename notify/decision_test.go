package notify

import (
	"bytes"
	"encoding/json"
	"net/url"
	"regexp"
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
	{nod.CauseReadyToPush, nod.Review, true}, {nod.CauseAgentMayRun, nod.Approval, true}, {nod.CauseEffectUnknown, nod.Question, true}, {nod.CauseRework, nod.Question, false},
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
	put := func(cause nod.Cause, when string, d nod.Decision, w nod.Telling) {
		t.Helper()
		p := Tell(d, hostileTask(), w, "https://nod.test/")
		if err := check(p); err != nil {
			t.Errorf("%s, %s: %v", cause, when, err)
		}
		if err := e.Encode(struct {
			Cause nod.Cause `json:"cause"`
			When  string    `json:"when"`
			Push  nod.Push  `json:"push"`
		}{cause, when, p}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range causes {
		put(c.cause, "opened", hostileDecision(c.cause, c.kind, c.blocking), nod.Telling{})
	}
	d := hostileDecision(nod.CauseTool, nod.Approval, true)
	put(d.Cause, "second reminder", d, nod.Telling{Reminder: 2})
	put(d.Cause, "second channel", d, nod.Telling{Second: true})
	for _, state := range []nod.DecisionState{nod.DecisionAnswered, nod.DecisionExpired, nod.DecisionSuperseded} {
		d.State = state
		put(d.Cause, string(state), d, nod.Telling{Closed: true})
	}
	put("", "together", nod.Decision{Blocking: true}, nod.Telling{Together: true})
	put("", "none waits any more", nod.Decision{}, nod.Telling{Together: true, Closed: true})
	if err := check(Trial("https://nod.test/", "T0KEN", true)); err != nil {
		t.Errorf("the test push: %v", err)
	}
	if err := e.Encode(Trial("https://nod.test/", "T0KEN", false)); err != nil {
		t.Fatal(err)
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
	p := Tell(nod.Decision{ID: decisionID, Cause: "unheard_of", Kind: "unheard_of"}, hostileTask(), nod.Telling{}, "https://nod.test")
	if err := check(p); err != nil || p.Priority != calm {
		t.Errorf("unknown cause: %+v, %v", p, err)
	}
}

// TestNoDecisionCanForgeAPush: whatever is in a decision and a task, the push
// passes the rules, leads to the answer page and holds known words only.
func TestNoDecisionCanForgeAPush(t *testing.T) {
	fixed := map[string]bool{"Something waits for you": true, "Several things wait for you": true, "Nothing waits any more": true}
	for _, words := range title {
		fixed[words] = true
	}
	for _, words := range over {
		fixed[words] = true
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String()
		d := nod.Decision{ID: s.Draw(t, "id"), Kind: nod.DecisionKind(s.Draw(t, "kind")), Cause: nod.Cause(s.Draw(t, "cause")),
			Subject: s.Draw(t, "subject"), Blocking: rapid.Bool().Draw(t, "blocking")}
		task := nod.Task{ID: s.Draw(t, "task"), Title: s.Draw(t, "title")}
		d.State = nod.DecisionState(s.Draw(t, "state"))
		w := nod.Telling{Reminder: rapid.IntRange(0, 9).Draw(t, "reminder"), Second: rapid.Bool().Draw(t, "second"),
			Closed: rapid.Bool().Draw(t, "closed"), Together: rapid.Bool().Draw(t, "together")}
		p := Tell(d, task, w, "https://nod.test")
		if err := check(p); err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(p.Click)
		if err != nil || u.Host != "nod.test" || !strings.HasPrefix(u.Path, "/d/") && !strings.HasPrefix(u.Path, "/t/") || strings.Count(u.Path, "/") != 2 {
			t.Fatalf("leads to %q", p.Click)
		}
		if !fixed[p.Title] {
			t.Fatalf("title %q", p.Title)
		}
		rest, ok := strings.CutPrefix(p.Message, "Task "+plain(task.Short()))
		if !ok || !regexp.MustCompile(`^(: nothing to do any more\.| (still )?waits for (you|your answer|your approval|your review|more than one answer)\.( Reminder [1-9]\.)?)$`).MatchString(rest) {
			t.Fatalf("message %q", p.Message)
		}
	})
}
