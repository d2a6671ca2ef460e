package answer_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"nod"
	"nod/notify/answer/answertest/chromium"
)

// browser starts a browser whose passkey is enrolled in the real store, and signs in.
func (w *real) browser(name string, size chromium.Size) *chromium.Browser {
	w.Helper()
	token := w.id("token")
	w.must(w.CreateEnrolment(w.Context(), nod.Enrolment{TokenDigest: nod.Digest([]byte(token)), Name: name, ExpiresAt: time.Now().Add(time.Minute)}))
	b := chromium.Start(w.T, size)
	b.Open(w.url + "/enrol/" + token)
	b.Click("#go")
	b.Wait("main[data-ceremony=signin]")
	b.Click("#go")
	b.Wait("body[data-page=inbox]")
	return b
}

// running stores a task whose agent runs.
func (w *real) running() *nod.Task {
	w.Helper()
	t := w.task()
	t.Approved = true
	w.must(t.On(nod.TaskStart))
	e := &nod.Environment{ID: w.id("e"), Task: t.ID, State: nod.EnvironmentProvisioning}
	r := &nod.Run{ID: w.id("r"), Task: t.ID, Number: 1, Environment: e.ID, Agent: t.Agent, State: nod.RunStarting, Attempt: 1}
	w.apply(nod.Change{Tasks: []*nod.Task{t}, Environments: []*nod.Environment{e}, Runs: []*nod.Run{r}})
	w.must(r.On(nod.RunReady))
	w.apply(nod.Change{Runs: []*nod.Run{r}})
	return t
}

func (w *real) kinds(task string) (kinds []nod.EventKind) {
	w.Helper()
	events, err := w.Events(w.Context(), task, 0, 1000)
	w.must(err)
	for _, e := range events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

// eventually waits for what the page's script does by itself.
func (w *real) eventually(what string, ok func() bool) {
	w.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 1500 {
		if ok() {
			return
		}
		<-tick.C
	}
	w.Fatalf("never: %s", what)
}

// TestAPhoneAndADeskAllowTogether: two browsers, two passkeys, one decision; a third
// answer that comes too late is told who was first.
func TestAPhoneAndADeskAllowTogether(t *testing.T) {
	w := newReal(t)
	phone, desk := w.browser("ada's phone", chromium.Phone()), w.browser("bo's desk", chromium.Desk())
	d := w.askTwo(w.task().ID)
	link := w.url + "/d/" + d.ID
	desk.Open(link)
	desk.Wait("[data-answer=allow]")
	phone.Open(link)
	phone.Wait("[data-answer=allow]")
	phone.Screenshot("two-of-two")
	phone.Click("[data-answer=allow]")
	phone.Wait("#mine")
	phone.Screenshot("one-has-allowed")
	if got := w.state(d.ID); got.State != nod.DecisionOpen || len(got.ApprovedBy) != 1 {
		t.Errorf("after the first: %+v", got)
	}
	desk.Click("[data-answer=allow]")
	desk.Wait("#closed")
	desk.Screenshot("both-have-allowed")
	if got := w.state(d.ID); !got.Permits() {
		t.Errorf("after the second: %+v", got)
	}
	// The phone still shows the buttons; it denies now, and learns that it is late.
	phone.Click("#ask")
	phone.Click("#why [data-answer=deny]")
	phone.Wait("#status.bad")
	if got := phone.Text("#status"); !strings.Contains(got, "answered by bo's desk") {
		t.Errorf("the phone is told %q", got)
	}
	phone.Screenshot("conflict")
	phone.Wait("#closed") // and the page shows what holds
	if kinds := w.kinds(d.Task); !slices.Contains(kinds, nod.EventAnswerRefused) {
		t.Errorf("the late answer left no trace: %v", kinds)
	}
	quiet(t, desk)
	w.verified(2)
}

// TestAPersonSpeaksPausesResumesAndCancels, each with an assertion of its own.
func TestAPersonSpeaksPausesResumesAndCancels(t *testing.T) {
	for _, size := range []chromium.Size{chromium.Phone(), chromium.Desk()} {
		t.Run(size.Name, func(t *testing.T) {
			w := newReal(t)
			b := w.browser("ada", size)
			task := w.running()
			wanted := func() (last nod.Act) {
				acts, err := w.WantedActs(t.Context())
				w.must(err)
				if len(acts) > 0 {
					last = acts[len(acts)-1]
				}
				return last
			}
			// The page comes again by itself once an act is recorded; only then is it left.
			press := func(css string, kind nod.ActKind) {
				t.Helper()
				chromium.Eval[bool](b, "window.before = true")
				b.Click(css)
				w.eventually("recorded: "+string(kind), func() bool { return wanted().Kind == kind })
				w.eventually("the page comes again", func() bool { return chromium.Eval[bool](b, "!window.before && document.readyState === 'complete'") })
			}
			b.Open(w.url + "/t/" + task.ID)
			b.Type("#words", "use the ledger's rounding")
			b.Screenshot("message")
			press("#say", nod.ActSay)
			if got := wanted(); got.Words != "use the ledger's rounding" || got.By.Kind != nod.ActorPasskey {
				t.Errorf("recorded %+v", got)
			}
			w.must(w.FinishAct(t.Context(), wanted().ID, nod.ActDone, "handed to the agent"))
			b.Open(w.url + "/t/" + task.ID)
			b.Wait("#pause")
			if got := b.Text("#log"); !strings.Contains(got, "handed to the agent") {
				t.Errorf("what became of the words is not shown: %s", got)
			}
			press("#pause", nod.ActPause)
			w.must(w.FinishAct(t.Context(), wanted().ID, nod.ActDone, "paused"))
			c, err := w.Case(t.Context(), task.ID)
			w.must(err)
			w.must(c.Run.On(nod.RunPause))
			w.apply(nod.Change{Runs: []*nod.Run{c.Run}})
			b.Open(w.url + "/t/" + task.ID)
			b.Wait("#resume")
			b.Screenshot("paused")
			if got := b.Text("main .pill"); got != "paused" {
				t.Errorf("the state is %q", got)
			}
			press("#resume", nod.ActResume)
			w.must(w.FinishAct(t.Context(), wanted().ID, nod.ActDone, "goes on"))
			b.Open(w.url + "/t/" + task.ID)
			b.Click("#acts summary") // it takes two steps
			b.Screenshot("cancel")
			press("#cancel", nod.ActCancel)
			quiet(t, b)
			w.verified(4)
		})
	}
}

// TestAPersonSignsAnotherDeviceOut, whose page then asks to sign in.
func TestAPersonSignsAnotherDeviceOut(t *testing.T) {
	w := newReal(t)
	phone, desk := w.browser("ada's phone", chromium.Phone()), w.browser("ada's desk", chromium.Desk())
	phone.Open(w.url + "/devices")
	phone.Wait("form[action='/devices/signout']")
	phone.Screenshot("devices")
	chromium.Eval[bool](phone, `[...document.querySelectorAll("li")].find(e => e.querySelector("form") && !e.querySelector(".pill")).querySelector("form button").click(), true`)
	w.eventually("the session is gone", func() bool {
		open, err := w.Sessions(t.Context())
		w.must(err)
		return len(open) == 1
	})
	desk.Open(w.url + "/")
	desk.Wait("main[data-ceremony=signin]")
	quiet(t, phone)
}

// TestOptionsAreFetchedBeforeTheTap: the browser has what it needs for the passkey
// dialog before anybody presses anything, and asks for nothing more between the tap
// and the dialog. Nothing of that is an answer, and a page that was only looked at
// leaves no refused answer behind.
func TestOptionsAreFetchedBeforeTheTap(t *testing.T) {
	w := newReal(t)
	b := w.browser("ada's phone", chromium.Phone())
	// What the page sends, in order, with the dialog in between.
	b.BeforeEachPage(`window.calls = [];
		const send = window.fetch; window.fetch = (path, o) => { window.calls.push(path); return send(path, o); };
		const get = navigator.credentials.get.bind(navigator.credentials); navigator.credentials.get = (o) => { window.calls.push('dialog'); return get(o); };`)
	d := w.askBash(w.task().ID, "npm test")
	b.Open(w.url + "/d/" + d.ID)
	b.Wait("[data-answer=allow]")
	w.eventually("the page fetches ahead and says that it is seen", func() bool {
		return chromium.Eval[int](b, "window.calls.length") == 2 && slices.Contains(w.kinds(d.Task), nod.EventDecisionSeen)
	})
	chromium.Eval[bool](b, `window.calls.length = 0, sessionStorage.clear(), window.addEventListener('pagehide', () => sessionStorage.setItem('calls', JSON.stringify(window.calls))), true`)
	b.Click("[data-answer=allow]")
	b.Wait("#closed")
	var calls []string
	w.must(json.Unmarshal([]byte(chromium.Eval[string](b, "sessionStorage.getItem('calls')")), &calls))
	if !slices.Equal(calls, []string{"dialog", "/api/answer/finish"}) {
		t.Errorf("after the tap: %q", calls)
	}
	if slices.Contains(w.kinds(d.Task), nod.EventAnswerRefused) {
		t.Error("fetching ahead left a refused answer")
	}
	quiet(t, b)
}

// TestNothingMovesWhenEventsArrive: the layout of what a person reads stays, down to
// the browser's own measure of it.
func TestNothingMovesWhenEventsArrive(t *testing.T) {
	for _, size := range []chromium.Size{chromium.Phone(), chromium.Desk()} {
		t.Run(size.Name, func(t *testing.T) {
			w := newReal(t)
			b := w.browser("ada", size)
			task := w.running()
			say := func(text string) {
				e := nod.NewEvent(task.ID, nod.Transcript, nod.EventMessage, nod.Actor{Kind: nod.ActorAgent}, nod.Message{Text: text})
				w.apply(nod.Change{Events: []*nod.Event{&e}})
			}
			for range 5 {
				say("Looking at the cart.")
			}
			b.BeforeEachPage(`window.moved = 0; new PerformanceObserver((l) => { for (const e of l.getEntries()) window.moved += e.value; }).observe({ type: 'layout-shift', buffered: true });`)
			b.Open(w.url + "/t/" + task.ID)
			w.eventually("it is live", func() bool { return b.Text("#live") == "Live." })
			before := chromium.Eval[int](b, "document.querySelectorAll('#log li').length")
			at := chromium.Eval[float64](b, "document.querySelector('#acts').getBoundingClientRect().top + scrollY")
			for range 20 {
				say(strings.Repeat("It still fails. ", 12))
			}
			c, err := w.Case(t.Context(), task.ID)
			w.must(err)
			w.must(c.Run.On(nod.RunPause))
			w.apply(nod.Change{Runs: []*nod.Run{c.Run}})
			b.Wait("#fresh")
			w.eventually("they are shown", func() bool {
				return chromium.Eval[int](b, "document.querySelectorAll('#log li').length") >= before+21
			})
			b.Screenshot("task-changed")
			if now := chromium.Eval[float64](b, "document.querySelector('#acts').getBoundingClientRect().top + scrollY"); now != at {
				t.Errorf("the form moved from %v to %v", at, now)
			}
			if moved := chromium.Eval[float64](b, "window.moved"); moved > 0.01 {
				t.Errorf("the layout shifted by %v", moved)
			}
		})
	}
}

// TestWhatWentStandsBesideWhatCame on a wide screen, and above it on a narrow one.
func TestWhatWentStandsBesideWhatCame(t *testing.T) {
	for _, size := range []chromium.Size{chromium.Phone(), chromium.Desk()} {
		t.Run(size.Name, func(t *testing.T) {
			w := newWorld(t)
			b := w.enrolled(size)
			b.Click("#go")
			b.Wait("body[data-page=inbox]")
			b.Open(w.url + "/d/" + w.askReview(sampleDiff).ID)
			b.Wait("table.diff")
			beside := chromium.Eval[bool](b, `(() => { const r = (c) => document.querySelector('tbody.g tr.' + c).getBoundingClientRect(); return r('a').top === r('d').top && r('a').left >= r('d').right - 1; })()`)
			if beside == size.Phone {
				t.Errorf("beside each other: %t", beside)
			}
		})
	}
}

// TestATestPushIsConfirmedByOpeningIt, and by nothing that only fetches it.
func TestATestPushIsConfirmedByOpeningIt(t *testing.T) {
	w := newReal(t)
	digest := nod.Digest([]byte("test-token"))
	w.must(w.CreateTap(t.Context(), digest, time.Now().Add(time.Minute)))
	tapped := func() bool {
		yes, err := w.Tappable(t.Context(), digest)
		w.must(err)
		return yes
	}
	preview := w.approver("unused")
	if page, err := preview.Page(t.Context(), "/tap/test-token"); err != nil || !strings.Contains(page, "This is a test push") || tapped() {
		t.Errorf("a preview confirms it: %v", err)
	}
	b := chromium.Start(t, chromium.Phone())
	b.Open(w.url + "/tap/test-token")
	w.eventually("it is tapped", tapped)
	w.eventually("the page says so", func() bool { return strings.Contains(b.Text("h1"), "It arrived") })
	b.Screenshot("tapped")
	b.Open(w.url + "/tap/another")
	if got := b.Text("main"); !strings.Contains(got, "too old") {
		t.Errorf("an unknown one reads %q", got)
	}
}
