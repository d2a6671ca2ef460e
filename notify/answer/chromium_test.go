package answer_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"nod"
	"nod/notify/answer"
	"nod/notify/answer/answertest/chromium"
)

func TestMain(m *testing.M) { os.Exit(chromium.Main(m)) }

// quiet fails the test when the browser complained, about the page's policy or script.
func quiet(t *testing.T, b *chromium.Browser) {
	t.Helper()
	for _, p := range b.Problems() {
		t.Errorf("chromium: %s", p)
	}
}

// enrolled starts a browser and enrols its passkey by the page.
func (w *world) enrolled(size chromium.Size) *chromium.Browser {
	w.t.Helper()
	b := chromium.Start(w.t, size)
	b.Open(w.invite("ada's phone"))
	b.Wait("#go")
	b.Screenshot("enrol")
	b.Click("#go")
	b.Wait(`main[data-ceremony=signin]`)
	return b
}

func TestAPersonEnrolsReadsAndAllows(t *testing.T) {
	for _, size := range []chromium.Size{chromium.Phone(), chromium.Desk()} {
		t.Run(size.Name, func(t *testing.T) {
			w := newWorld(t)
			b := w.enrolled(size)
			d := w.askBash("npm install --save-dev vitest@3.2.4 && npx vitest run src/cart")
			// The push leads here; signing in keeps the link.
			b.Open(w.url + "/d/" + d.ID)
			b.Wait("#go")
			b.Screenshot("signin")
			b.Click("#go")
			b.Wait("main[data-decision]")
			b.Wait("[data-answer=allow]")
			b.Screenshot("approval")
			if got := b.Text("pre.first"); !strings.Contains(got, "npx vitest run src/cart") {
				t.Errorf("the command on the page is %q", got)
			}
			if got := b.Text(".clock time"); !strings.HasSuffix(got, " left") {
				t.Errorf("the clock says %q", got)
			}
			b.Dark(true)
			b.Screenshot("approval-dark")
			b.Dark(false)
			b.Click("[data-answer=allow]")
			b.Wait("#closed")
			b.Screenshot("allowed")
			if !w.decision(d.ID).Permits() {
				t.Error("the decision permits nothing")
			}
			if err := answer.VerifyAssertion(w.decision(d.ID), w.store.answers[0]); err != nil {
				t.Errorf("what Chromium signed does not verify offline: %v", err)
			}
			quiet(t, b)
		})
	}
}

func TestAPersonDeniesWithAReason(t *testing.T) {
	w := newWorld(t)
	b := w.enrolled(chromium.Phone())
	d := w.askBash("npm install left-pad")
	b.Open(w.url + "/d/" + d.ID)
	b.Click("#go")
	b.Click("#ask")
	b.Type("#reason", "use the standard library")
	b.Screenshot("deny")
	b.Click("#why [data-answer=deny]")
	b.Wait("#closed")
	if got := w.decision(d.ID); got.Answer != nod.Deny || got.Reason != "use the standard library" {
		t.Errorf("decision is %+v", got)
	}
	b.Screenshot("denied")
	quiet(t, b)
}

func TestAReviewIsReadAndPushed(t *testing.T) {
	for _, size := range []chromium.Size{chromium.Desk(), chromium.Phone()} {
		t.Run(size.Name, func(t *testing.T) {
			w := newWorld(t)
			b := w.enrolled(size)
			b.Click("#go")
			b.Wait("body[data-page=inbox]")
			d := w.askReview(sampleDiff)
			b.Open(w.url + "/d/" + d.ID)
			b.Wait("table.diff")
			b.Screenshot("review")
			b.Dark(true)
			b.Screenshot("review-dark")
			b.Click("[data-answer=allow]")
			b.Wait("#closed")
			if !w.decision(d.ID).Permits() {
				t.Error("the decision permits nothing")
			}
			quiet(t, b)
		})
	}
}

func TestAnExpiredDecisionOffersNothing(t *testing.T) {
	w := newWorld(t)
	b := w.enrolled(chromium.Phone())
	b.Click("#go")
	b.Wait("body[data-page=inbox]")
	d := w.askBash("npm test")
	w.pass(nod.ApprovalDeadline - time.Second)
	b.Open(w.url + "/d/" + d.ID)
	b.Wait(".clock.soon")
	w.pass(time.Second)
	b.Wait("#closed") // the clock runs out and the page says so by itself
	b.Screenshot("expired")
	if chromium.Eval[bool](b, "Boolean(document.querySelector('#act'))") {
		t.Error("there are still buttons")
	}
	quiet(t, b)
}

func TestAQuestionIsAnsweredInOwnWordsOrByOption(t *testing.T) {
	w := newWorld(t)
	b := w.enrolled(chromium.Phone())
	b.Click("#go")
	b.Wait("body[data-page=inbox]")
	const odd = "Round \"half\" up <b>\u202e"
	d := w.ask(nod.Decision{Kind: nod.Question, Cause: nod.CauseAgentQuestion, Subject: "Which?", FreeText: true, Options: []string{odd}}, "Which?")
	b.Open(w.url + "/d/" + d.ID)
	b.Click("[data-coded]")
	b.Wait("#closed")
	if got := w.decision(d.ID).Answer; got != odd {
		t.Errorf("the answer is %q", got)
	}
	free := w.ask(nod.Decision{Kind: nod.Question, Cause: nod.CauseAgentQuestion, Subject: "Which?", FreeText: true}, "Which?")
	b.Open(w.url + "/d/" + free.ID)
	b.Type("#words", "neither: truncate")
	b.Click("#send")
	b.Wait("#closed")
	if got := w.decision(free.ID).Answer; got != "neither: truncate" {
		t.Errorf("the answer is %q", got)
	}
	quiet(t, b)
}

func TestTheTranscriptIsLive(t *testing.T) {
	w := newWorld(t)
	b := w.enrolled(chromium.Phone())
	b.Click("#go")
	b.Wait("body[data-page=inbox]")
	task := w.task("t00000000000000aa", "Flaky login test").ID
	say(w, task, "before")
	b.Open(w.url + "/t/" + task)
	b.Wait("#log li:nth-child(1)")
	say(w, task, "<b>now</b>\u202e")
	b.Wait("#log li:nth-child(2) mark")
	if got := b.Text("#log li:nth-child(2) pre"); got != "<b>now</b>U+202E" {
		t.Errorf("the live entry reads %q", got)
	}
	w.store.commit(nod.NewEvent(task, nod.Audit, nod.EventTaskState, nod.Supervisor(), nod.StateChange{ID: task, To: "running"}))
	b.Wait("#fresh")
	quiet(t, b)
}

func TestALinkFromAnotherSiteOpensTheDecision(t *testing.T) {
	w := newWorld(t)
	b := w.enrolled(chromium.Phone())
	b.Click("#go")
	b.Wait("body[data-page=inbox]")
	d := w.askBash("npm test")
	// 127.0.0.1 is another site than localhost, so a strict cookie stays back at first.
	other := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = rw.Write([]byte(`<!doctype html><a id="there" href="` + w.url + `/d/` + d.ID + `">open</a>`))
	}))
	defer other.Close()
	b.Open(other.URL)
	b.Click("#there")
	b.Wait("main[data-decision]")
}

func TestABrowserWithoutPasskeysOffersTheLink(t *testing.T) {
	w := newWorld(t)
	b := chromium.Start(t, chromium.Phone())
	b.BeforeEachPage("delete window.PublicKeyCredential")
	d := w.askBash("npm test")
	b.Open(w.url + "/d/" + d.ID)
	b.Wait("#nokey")
	b.Screenshot("nokey")
	if got := chromium.Eval[string](b, "document.querySelector('#link').value"); got != w.url+"/d/"+d.ID {
		t.Errorf("the link is %q", got)
	}
	if !chromium.Eval[bool](b, "document.querySelector('#go').disabled") {
		t.Error("the button still works")
	}
}

func TestAnotherSiteCannotFrameThePage(t *testing.T) {
	w := newWorld(t)
	b := chromium.Start(t, chromium.Desk())
	other := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = rw.Write([]byte(`<!doctype html><iframe src="` + w.url + `/signin" onload="document.title='loaded'"></iframe>`))
	}))
	defer other.Close()
	b.Open(other.URL)
	refused := false
	for _, p := range b.Problems() {
		refused = refused || strings.Contains(p, "frame-ancestors")
	}
	if !refused {
		t.Errorf("chromium did not refuse the frame: %q", b.Problems())
	}
}
