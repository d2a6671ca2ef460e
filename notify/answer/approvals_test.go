package answer_test

import (
	"strings"
	"testing"
	"time"

	"nod"
	"nod/notify/answer/answertest"
)

// askTwo stores a decision that two different passkeys must allow.
func (w *real) askTwo(task string) nod.Decision {
	w.Helper()
	return w.ask(task, nod.Decision{Kind: nod.Approval, Cause: nod.CauseTool, Subject: "Bash", Approvals: 2}, `{"command":"make deploy"}`)
}

func (w *real) state(id string) nod.Decision {
	w.Helper()
	d, err := w.Decision(w.Context(), id)
	w.must(err)
	return d
}

func (w *real) page_(c *answertest.Client, path string) string {
	w.Helper()
	html, err := c.Page(w.Context(), path)
	w.must(err)
	return html
}

func (w *real) verified(signatures int) {
	w.Helper()
	report, err := w.VerifyChain(w.Context(), "")
	if err != nil || !report.Verified || report.Signatures != signatures {
		w.Errorf("the chain: %+v, %v", report, err)
	}
}

// TestTwoDifferentPasskeysAreNeeded: one passkey, twice and with the host's help,
// permits nothing; a second one does, and both signatures are in the audit log.
func TestTwoDifferentPasskeysAreNeeded(t *testing.T) {
	w := newReal(t)
	task := w.task()
	d := w.askTwo(task.ID)
	ada, bo := w.approver("ada's phone"), w.approver("bo's phone")
	if html := w.page_(ada, "/d/"+d.ID); !strings.Contains(html, "0 of 2") {
		t.Error("the page does not say that two must allow it")
	}
	w.must(ada.Answer(t.Context(), d.ID, nod.Allow, ""))
	w.must(ada.Answer(t.Context(), d.ID, nod.Allow, "")) // the same again
	if got := w.state(d.ID); got.State != nod.DecisionOpen || got.Permits() || got.Missing() != 1 {
		t.Fatalf("after one passkey: %+v", got)
	}
	if html := w.page_(ada, "/d/"+d.ID); !strings.Contains(html, "1 of 2") || !strings.Contains(html, `id="mine"`) || strings.Contains(html, `data-answer="allow"`) {
		t.Error("the page of who allowed it does not say so")
	}
	if html := w.page_(bo, "/d/"+d.ID); !strings.Contains(html, "1 of 2") || !strings.Contains(html, "ada&#39;s phone") || !strings.Contains(html, `data-answer="allow"`) {
		t.Error("the other's page does not say who allowed it")
	}
	_, err := w.RecordAnswer(t.Context(), nod.Answer{Decision: d.ID, Answer: nod.Allow, By: nod.Actor{Kind: nod.ActorHost}})
	if nod.CodeOf(err) != nod.Forbidden {
		t.Errorf("the host stood in for a passkey: %v", err)
	}
	w.must(bo.Answer(t.Context(), d.ID, nod.Allow, "fine by me"))
	if got := w.state(d.ID); !got.Permits() || len(got.ApprovedBy) != 1 || got.ApprovedBy[0].Passkey != ada.Key.ID() || got.AnsweredBy.Passkey != bo.Key.ID() {
		t.Errorf("after two: %+v", got)
	}
	w.verified(2)
	raw, err := w.ExportTask(t.Context(), task.ID)
	w.must(err)
	if r := verifyExport(t, raw, ""); !r.Verified || r.Signatures != 2 {
		t.Errorf("the export: %+v", r)
	}
}

func TestOneDenialIsEnough(t *testing.T) {
	w := newReal(t)
	task := w.task()
	d := w.askTwo(task.ID)
	ada := w.approver("ada's phone")
	w.must(ada.Answer(t.Context(), d.ID, nod.Allow, ""))
	w.must(ada.Answer(t.Context(), d.ID, nod.Deny, "on second thoughts"))
	if got := w.state(d.ID); got.State != nod.DecisionAnswered || got.Answer != nod.Deny {
		t.Errorf("denied by who had allowed it: %+v", got)
	}
	w.verified(2)
}

// TestTooFewApprovalsPermitNothing: what the database says cannot outvote the rule.
func TestTooFewApprovalsPermitNothing(t *testing.T) {
	d := nod.Decision{ID: "d1", Task: "t1", Kind: nod.Approval, Approvals: 2, InputDigest: "x", Deadline: epoch,
		State: nod.DecisionAnswered, Answer: nod.Allow, AnsweredBy: nod.Actor{Kind: nod.ActorPasskey, Passkey: "a"}, AnsweredAt: epoch}
	if err := d.Valid(); nod.CodeOf(err) != nod.Invalid || err == nil {
		t.Error("an allow by one of two is valid")
	}
	d.ApprovedBy = []nod.Actor{{Kind: nod.ActorPasskey, Passkey: "b"}}
	if err := d.Valid(); err != nil {
		t.Error(err)
	}
}

// TestPasskeyOfARepositoryAnswersForThatOnly: it reads and answers nothing else;
// a passkey without repositories, the owner's, does everywhere.
func TestPasskeyOfARepositoryAnswersForThatOnly(t *testing.T) {
	w := newReal(t)
	mine, other := w.task(), &nod.Task{ID: "t00000000000000ff", Repo: nod.Repo{Host: "github.com", Owner: "acme", Name: "vault"}, Issue: 1,
		Title: "Rotate the master key", State: nod.TaskQueued}
	w.apply(nod.Change{Tasks: []*nod.Task{other}})
	allowed, hidden := w.askBash(mine.ID, "make"), w.askBash(other.ID, "cat vault")
	web, owner := w.approver("web only", "github.com/acme/web"), w.approver("owner")
	if html := w.page_(web, "/"); !strings.Contains(html, allowed.ID) || strings.Contains(html, hidden.ID) || strings.Contains(html, "master key") {
		t.Error("the inbox shows what the passkey does not cover")
	}
	for _, path := range []string{"/d/" + hidden.ID, "/t/" + other.ID, "/t/" + other.ID + "/events"} {
		if _, err := web.Page(t.Context(), path); nod.CodeOf(err) != nod.NotFound {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := web.Post(t.Context(), "/api/answer/begin", map[string]string{"decision": hidden.ID, "answer": "deny"}, nil); nod.CodeOf(err) != nod.NotFound {
		t.Errorf("begin: %v", err)
	}
	// The rule is the store's, whatever the page did.
	c := nod.Challenge{ID: "c", Kind: nod.ChallengeAnswer, Nonce: "n", Decision: hidden.ID, Answer: nod.Deny, ExpiresAt: time.Now().Add(time.Minute),
		Bytes: nod.AnswerChallenge(hidden, nod.Deny, "", "n")}
	w.must(w.SaveChallenge(t.Context(), c))
	_, err := w.RecordAnswer(t.Context(), nod.Answer{Decision: hidden.ID, Answer: nod.Deny, Challenge: "c",
		By: nod.Actor{Kind: nod.ActorPasskey, Passkey: web.Key.ID()}, Assertion: &nod.Assertion{Credential: web.Key.ID()}})
	if nod.CodeOf(err) != nod.Forbidden || !strings.Contains(err.Error(), "repository") {
		t.Errorf("the store: %v", err)
	}
	w.must(web.Answer(t.Context(), allowed.ID, nod.Allow, ""))
	w.must(owner.Answer(t.Context(), hidden.ID, nod.Deny, ""))
	w.verified(2)
}
