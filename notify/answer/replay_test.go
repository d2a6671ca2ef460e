package answer_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"nod"
	"nod/store"
)

// R16: what was reviewed is not what would be pushed any more. The page says so, no
// allow can be begun, and one that was begun before is refused.
func TestR16ReviewOfAnotherCommitAllowsNothing(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	d := w.askReview(sampleDiff)
	before := begin(w, c, d.ID, nod.Allow, "")
	w.store.mu.Lock()
	moved := w.store.cases[d.Task]
	other := *moved.Revision
	other.SHA = strings.Repeat("e", 40)
	moved.Revision = &other
	w.store.cases[d.Task] = moved
	w.store.mu.Unlock()
	page, err := c.Page(t.Context(), "/d/"+d.ID)
	w.must(err)
	if strings.Contains(page, `data-answer="allow"`) || !strings.Contains(page, "not the one that was asked about") {
		t.Error("the page still offers to push")
	}
	w.wantCode(c.Answer(t.Context(), d.ID, nod.Allow, ""), nod.Conflict)
	w.store.mu.Lock()
	asked := w.store.decisions[d.ID]
	asked.CommitSHA = other.SHA // as if the same question were about another commit
	w.store.decisions[d.ID] = asked
	w.store.mu.Unlock()
	err = c.Post(t.Context(), "/api/answer/finish", map[string]any{"challenge": before.Challenge, "credential": sign(w, c, w.url, before.Options)}, nil)
	w.wantCode(err, nod.Conflict)
	w.wantOpen(d.ID)
}

// R27: a used-up quota is a question that also has a way to say no, and one that
// waits as long as it takes.
func TestR27QuotaQuestionHasAWayToSayNo(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	d := w.ask(nod.Decision{Kind: nod.Question, Cause: nod.CauseQuotaExhausted, Blocking: true, Subject: "resets at 17:00 UTC",
		Options: []string{nod.Retry, nod.Cancel}}, "You have reached your limit. It resets at 17:00 UTC.")
	w.pass(100 * time.Hour)
	w.must(c.SignIn(t.Context()))
	page, err := c.Page(t.Context(), "/d/"+d.ID)
	w.must(err)
	for _, want := range []string{`data-answer="retry"`, `data-answer="cancel"`, "17:00 UTC"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	w.must(c.Answer(t.Context(), d.ID, nod.Cancel, ""))
	if got := w.decision(d.ID); got.Answer != nod.Cancel {
		t.Errorf("answered %+v", got)
	}
}

// R28: an answer that comes twice, comes second, or comes late. The record holds
// across a restart of everything but the file.
func TestR28AnswerTwiceOrSecondOrLateOrAfterARestart(t *testing.T) {
	w := newReal(t)
	ada, bo := w.approver("ada"), w.approver("bo")
	d := w.askBash(w.task().ID, "make deploy")
	w.must(ada.Answer(t.Context(), d.ID, nod.Allow, ""))
	err := bo.Answer(t.Context(), d.ID, nod.Deny, "")
	first, rerr := w.Decision(t.Context(), d.ID)
	w.must(rerr)
	if nod.CodeOf(err) != nod.Conflict || !strings.Contains(err.Error(), "ada") || !strings.Contains(err.Error(), first.AnsweredAt.UTC().Format("2006-01-02")) {
		t.Errorf("the second is told %v", err)
	}
	host := nod.Answer{Decision: d.ID, Answer: nod.Allow, By: nod.Actor{Kind: nod.ActorHost}}
	if again, err := w.RecordAnswer(t.Context(), host); err != nil || !again.Permits() || again.AnsweredBy.Kind != nod.ActorPasskey {
		t.Errorf("the same again: %+v, %v", again, err)
	}
	late := w.ask(w.task().ID, nod.Decision{Kind: nod.Approval, Cause: nod.CauseTool, Subject: "Bash", Deadline: time.Now().Add(10 * time.Millisecond)}, `{"command":"ls"}`)
	w.eventually("it runs out", func() bool { return late.Late(time.Now()) })
	if err := bo.Answer(t.Context(), late.ID, nod.Allow, ""); nod.CodeOf(err) != nod.Expired {
		t.Errorf("too late: %v", err)
	}
	beside, err := store.Open(t.Context(), store.Config{Path: w.Path(), VerifyAssertion: verifySigned})
	w.must(err)
	defer beside.Close()
	for id, want := range map[string]bool{d.ID: true, late.ID: false} {
		if got, err := beside.Decision(t.Context(), id); err != nil || got.Permits() != want {
			t.Errorf("read anew: %+v, %v", got, err)
		}
	}
	w.verified(1)
}

// R30: whatever previews links fetches them first: the enrolment, the decision and the
// test push are there for the person who comes after.
func TestR30PreviewSpendsNoLink(t *testing.T) {
	w := newReal(t)
	const token = "single-use"
	w.must(w.CreateEnrolment(t.Context(), nod.Enrolment{TokenDigest: nod.Digest([]byte(token)), Name: "ada", ExpiresAt: time.Now().Add(time.Minute)}))
	w.must(w.CreateTap(t.Context(), nod.Digest([]byte(token)), time.Now().Add(time.Minute)))
	d := w.askBash(w.task().ID, "make deploy")
	kinds := len(w.kinds(d.Task))
	for _, path := range []string{"/enrol/" + token, "/tap/" + token, "/d/" + d.ID, "/t/" + d.Task} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodGet} {
			r, err := http.NewRequestWithContext(t.Context(), method, w.url+path, nil)
			w.must(err)
			r.Header.Set("User-Agent", "Slackbot-LinkExpanding 1.0")
			resp, err := (&http.Client{Transport: dial}).Do(r)
			w.must(err)
			w.must(resp.Body.Close())
		}
	}
	if tapped, err := w.Tappable(t.Context(), nod.Digest([]byte(token))); err != nil || tapped {
		t.Errorf("the test push: %v, %v", tapped, err)
	}
	c := w.client()
	w.must(c.Enrol(t.Context(), w.url+"/enrol/"+token))
	w.must(c.SignIn(t.Context()))
	if len(w.kinds(d.Task)) != kinds {
		t.Errorf("previews left %v", w.kinds(d.Task))
	}
	if list, err := w.Unseen(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("a preview counts as having looked: %d, %v", len(list), err)
	}
	w.must(c.Answer(t.Context(), d.ID, nod.Allow, ""))
	w.verified(1)
}

// TestRefusedAnswerLeavesATrace: what the page turns away before the store is in the
// audit log too, by nod itself, with the passkey of the session it came from.
func TestRefusedAnswerLeavesATrace(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	d := w.askBash("make deploy")
	b := begin(w, c, d.ID, nod.Allow, "")
	w.wantCode(c.Post(t.Context(), "/api/answer/finish", map[string]any{"challenge": b.Challenge, "credential": sign(w, c, "https://elsewhere.example", b.Options)}, nil), nod.Forbidden)
	w.wantCode(c.Post(t.Context(), "/api/answer/begin", map[string]any{"decision": d.ID, "answer": "perhaps", "reason": ""}, nil), nod.Invalid)
	w.wantCode(c.Post(t.Context(), "/api/answer/begin", map[string]any{"decision": d.ID, "answer": "later", "reason": "", "ahead": true}, nil), nod.Invalid)
	want := []string{d.ID + " allow forbidden", d.ID + " perhaps invalid"}
	if got := w.store.turnedAway; strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("recorded %q, want %q", got, want)
	}
}
