package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"nod"
	"nod/notify/answer/answertest"
	"nod/notify/answer/answertest/chromium"
)

// newcomer is a person who tries the demo with a phone in one hand, on which pushes
// come and are answered, and GitHub in front.
type newcomer struct {
	t     *testing.T
	demo  *demo
	phone *chromium.Browser
	desk  *chromium.Browser
	seen  map[string]bool // links of pushes that have been followed
}

// newNewcomer starts the demo and two browsers, and enrols the phone's passkey by
// the link that the demo prints.
func newNewcomer(t *testing.T, decisionTime string) *newcomer {
	t.Helper()
	needEnvironments(t)
	p := &newcomer{t: t, seen: map[string]bool{},
		phone: chromium.Start(t, chromium.Phone()), desk: chromium.Start(t, chromium.Desk())}
	log := testWriter{t}
	d, err := startDemo(t.Context(), demoOptions{talk: log, errs: log, decisionTime: decisionTime})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close the demo: %v", err)
		}
	})
	p.demo = d
	p.phone.Open(d.enrol)
	p.phone.Wait("#go:enabled")
	p.phone.Screenshot("e2e-enrol")
	p.phone.Click("#go")
	p.phone.Wait("main[data-ceremony=signin] #go:enabled")
	p.phone.Screenshot("e2e-signin")
	p.phone.Click("#go")
	p.phone.Wait("body[data-page=inbox]")
	p.phone.Screenshot("e2e-inbox-empty")
	return p
}

// until polls, because what it waits for is in another process or on another page.
func (p *newcomer) until(what string, ok func() bool) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), childTime)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			p.t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

// label sets the label nod with the form of the issue's page.
func (p *newcomer) label() {
	p.t.Helper()
	p.desk.Open(p.demo.issueURL())
	p.desk.Screenshot("e2e-issue")
	p.desk.Type("[aria-label=Labels] input[aria-label=Label]", "nod")
	p.desk.Click("[aria-label=Labels] button.go")
	p.desk.Wait("[aria-label=Labels] button[aria-label='Remove label nod']")
}

// watch opens the phone page and waits until it hears of pushes.
func (p *newcomer) watch() {
	p.t.Helper()
	p.phone.Open(p.demo.phoneURL())
	p.phone.Wait("#live.on")
}

// push waits until the phone page, which is open, shows a push that has not been
// followed, and follows its link. It returns what it leads to.
func (p *newcomer) push(shot string) nod.Decision {
	p.t.Helper()
	var link string
	p.until("the phone shows a new push", func() bool {
		link = chromium.Eval[string](p.phone, `document.getAnimations().length ? '' : document.querySelector('.push.newest a[target=_blank]')?.href ?? ''`)
		return link != "" && !p.seen[link]
	})
	p.seen[link] = true
	p.phone.Screenshot(shot + "-push")
	p.phone.Open(link)
	p.phone.Wait("main[data-decision]")
	p.phone.Screenshot(shot)
	_, id, _ := strings.Cut(link, "/d/")
	return p.decision(id)
}

func (p *newcomer) decision(id string) nod.Decision {
	p.t.Helper()
	d, err := p.demo.system.store.Decision(p.t.Context(), id)
	if err != nil {
		p.t.Fatal(err)
	}
	return d
}

// shows fails the test unless the text that css matches on the phone holds each of want.
func (p *newcomer) shows(css string, want ...string) {
	p.t.Helper()
	got := p.phone.Text(css)
	for _, w := range want {
		if !strings.Contains(got, w) {
			p.t.Errorf("%s does not show %q: %q", css, w, got)
		}
	}
}

// allow allows what the phone shows, with the passkey.
func (p *newcomer) allow() {
	p.t.Helper()
	p.phone.Click("[data-answer=allow]:enabled")
	p.phone.Wait("#closed")
}

// task returns the one task as it is now.
func (p *newcomer) task() nod.Case {
	p.t.Helper()
	tasks, err := p.demo.system.store.Tasks(p.t.Context())
	if err != nil || len(tasks) != 1 {
		p.t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	c, err := p.demo.system.store.Case(p.t.Context(), tasks[0].ID)
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

// question waits for the question that follows a run that came to nothing.
func (p *newcomer) question() nod.Decision {
	p.t.Helper()
	var found nod.Decision
	p.until("a question is asked", func() bool {
		i := slices.IndexFunc(p.task().Decisions, func(d nod.Decision) bool { return d.Kind == nod.Question && d.State == nod.DecisionOpen })
		if i >= 0 {
			found = p.task().Decisions[i]
		}
		return i >= 0
	})
	return found
}

// pushed reports whether anybody has tried to push to the simulated GitHub.
func (p *newcomer) pushed() bool {
	for _, r := range p.demo.sim.Requests() {
		if strings.Contains(r.Path, "git-receive-pack") {
			return true
		}
	}
	return false
}

// untouched fails the test when anything has reached the repository.
func (p *newcomer) untouched() {
	p.t.Helper()
	pulls, err := p.demo.sim.Pulls(demoRepo)
	if err != nil || len(pulls) != 0 || p.pushed() {
		p.t.Errorf("%d pull requests, pushed: %v, %v", len(pulls), p.pushed(), err)
	}
}

// told reports whether the transcript has a refused call whose text holds words.
func (p *newcomer) told(words string) bool {
	p.t.Helper()
	events, err := p.demo.system.store.Events(p.t.Context(), p.task().Task.ID, 0, 1000)
	if err != nil {
		p.t.Fatal(err)
	}
	return slices.ContainsFunc(events, func(e nod.Event) bool {
		var r nod.ToolResult
		return e.Kind == nod.EventToolResult && json.Unmarshal(e.Data, &r) == nil && r.IsError && strings.Contains(r.Text, words)
	})
}

// quiet fails the test when a browser complained, about a policy or a script.
func (p *newcomer) quiet() {
	p.t.Helper()
	for _, problem := range append(p.phone.Problems(), p.desk.Problems()...) {
		p.t.Errorf("chromium: %s", problem)
	}
}

func TestBrowserGoesFromLabelToPullRequest(t *testing.T) {
	p := newNewcomer(t, "")
	p.watch()
	p.phone.Screenshot("e2e-phone-empty")
	p.label()

	write := p.push("e2e-approval")
	if write.Cause != nod.CauseTool || write.Subject != "Write" {
		t.Fatalf("the first push leads to %s %s", write.Cause, write.Subject)
	}
	p.shows("h1", "Write this file?")
	p.shows(".theirs", "greet.sh", `echo "Hello, ${1:-world}!"`)
	p.shows(".clock time", "left")
	p.allow()
	p.phone.Screenshot("e2e-allowed")

	p.watch()
	commit := p.push("e2e-commit")
	if commit.Cause != nod.CauseTool || commit.Subject != "Bash" {
		t.Fatalf("the second push leads to %s %s", commit.Cause, commit.Subject)
	}
	p.shows("h1", "Allow this command?")
	p.shows("pre.first", "git add greet.sh && git commit -q -m 'fix: spell hello with two l'")
	p.allow()

	p.watch()
	review := p.push("e2e-review")
	if review.Kind != nod.Review || p.pushed() {
		t.Fatalf("the third push leads to a %s; pushed already: %v", review.Kind, p.pushed())
	}
	p.shows("h1", "Ready to push?")
	p.shows(".review ul.list", "fix: spell hello with two l")
	p.shows(".review .pill.ok", "passed")
	p.shows(".review dl", "sh test.sh", review.CommitSHA)
	p.shows("details.file[open]", "greet.sh")
	p.shows("table.diff tr.a", `echo "Hello, ${1:-world}!"`)
	p.shows("table.diff tr.d", `echo "Helo, ${1:-world}!"`)
	p.shows("[data-answer=allow]", review.CommitSHA[:7])
	chromium.Eval[bool](p.phone, `(document.querySelector('table.diff').scrollIntoView(), true)`)
	p.phone.Screenshot("e2e-review-diff")
	p.allow()
	p.phone.Screenshot("e2e-pushed")

	p.merge(review.CommitSHA)
	p.phone.Open(p.demo.public + "/t/" + review.Task)
	p.phone.Wait("#log li")
	p.shows("main > p .pill", "merged")
	p.phone.Screenshot("e2e-task")
	if to := chromium.Eval[string](p.phone, `document.querySelector('.where a').href`); to != p.demo.issueURL() {
		t.Errorf("the task's page leads to the issue %s", to)
	}
	p.phone.Click("main > p .pill + a")
	p.phone.Wait("form[action$='/comments']")
	p.shows("main", "Merged", "Verified")
	p.phone.Screenshot("e2e-pull")
	p.fits("the pull request")
	p.phone.Open(p.demo.issueURL())
	p.phone.Screenshot("e2e-issue-merged")
	p.fits("the issue")
	p.quiet()
}

// fits fails the test when the page on the phone has to be scrolled sideways.
func (p *newcomer) fits(page string) {
	p.t.Helper()
	if w := chromium.Eval[int64](p.phone, "document.documentElement.scrollWidth"); w > chromium.Phone().Width {
		p.t.Errorf("%s is %d pixels wide", page, w)
	}
}

// merge looks at what the bot says on the issue of the allowed commit, follows it to the pull
// request, merges that, and waits for the end of the task.
func (p *newcomer) merge(allowed string) {
	p.t.Helper()
	p.until("the issue says ready for review", func() bool {
		v, err := p.demo.sim.View(demoRepo, p.demo.issue)
		return err == nil && slices.Contains(v.Labels, "nod:review") && settled(p.task())
	})
	p.desk.Open(p.demo.issueURL())
	p.desk.Wait("[aria-label=Labels] button[aria-label='Remove label nod:review']")
	p.desk.Screenshot("e2e-status")
	r := p.task().Revision
	if r == nil || r.PullRequest.Number == 0 || r.SHA != allowed {
		p.t.Fatalf("allowed was %s, the revision is %+v", allowed, r)
	}
	sha := r.Published() // GitHub signs, so its commit has an id of its own
	if comment := p.desk.Text("[id^=issuecomment-]"); !strings.Contains(comment, fmt.Sprintf("#%d", r.PullRequest.Number)) {
		p.t.Errorf("the status comment does not name the pull request: %q", comment)
	}
	p.desk.Open(p.demo.simURL + "/" + demoRepo + "/pull/" + fmt.Sprint(r.PullRequest.Number))
	p.desk.Screenshot("e2e-pull")
	if row := p.desk.Text("main .row"); !strings.Contains(row, sha[:7]) || !strings.Contains(row, "Verified") {
		p.t.Errorf("the commit is shown as %q", row)
	}
	if head, err := p.demo.sim.Head(demoRepo, r.Branch); err != nil || head != sha {
		p.t.Errorf("the branch is at %s, not at the published %s: %v", head, sha, err)
	}
	p.desk.Click("form[action$='/merge'] button.go")
	p.until("the pull request shows as merged", func() bool {
		return chromium.Eval[bool](p.desk, `document.querySelector('main .pill')?.textContent === 'Merged'`)
	})
	p.desk.Screenshot("e2e-merged")
	p.until("the task is completed", func() bool { c := p.task(); return c.Task.State == nod.TaskCompleted && settled(c) })
	p.desk.Open(p.demo.issueURL())
	p.desk.Screenshot("e2e-issue-merged")
}

func TestBrowserDenialReachesTheAgent(t *testing.T) {
	const why = "Keep the greeting as it is; ask the author first."
	p := newNewcomer(t, "")
	p.watch()
	p.label()
	d := p.push("e2e-denial-asked")
	p.phone.Click("#ask:enabled")
	p.phone.Type("#reason", why)
	p.phone.Screenshot("e2e-denial-reason")
	p.phone.Click("#why [data-answer=deny]:enabled")
	p.phone.Wait("#closed")
	p.shows("#closed", "Denied", why)
	p.phone.Screenshot("e2e-denied")
	if d = p.decision(d.ID); d.State != nod.DecisionAnswered || d.Answer != nod.Deny || d.Reason != why {
		t.Errorf("the decision is %s, %q because of %q", d.State, d.Answer, d.Reason)
	}
	p.until("the agent is told why", func() bool { return p.told(why) })

	q := p.question()
	p.phone.Open(p.demo.public + "/")
	p.phone.Wait("a[href='/d/" + q.ID + "']")
	p.phone.Screenshot("e2e-denial-inbox")
	p.phone.Click("a[href='/d/" + q.ID + "']")
	p.phone.Wait("main[data-decision='" + q.ID + "']")
	p.phone.Screenshot("e2e-denial-question")
	p.untouched()
	p.phone.Open(p.demo.public + "/t/" + q.Task)
	p.phone.Wait("#log li")
	p.shows("#log", why)
	p.phone.Screenshot("e2e-denial-task")
	p.desk.Open(p.demo.issueURL())
	p.desk.Screenshot("e2e-denial-issue")
	p.quiet()
}

func TestBrowserExpiredApproval(t *testing.T) {
	p := newNewcomer(t, "30s") // in which a slow browser must have begun an answer
	late := p.another()
	p.watch()
	p.label()
	d := p.push("e2e-expiring")
	p.phone.Wait(".clock.soon")
	p.phone.Wait("[data-answer=allow]:enabled")
	// One answer is begun in time and finished too late.
	begun, credential := p.begin(late, d.ID)
	p.phone.Wait("#closed") // the countdown ends and the page loads itself again
	p.phone.Screenshot("e2e-expired")
	p.shows("#closed", "Expired", "nothing was permitted")
	if chromium.Eval[bool](p.phone, `document.querySelector('#act, [data-answer], .clock') !== null`) {
		t.Error("an expired decision still has buttons or a clock")
	}
	if err := late.Post(t.Context(), "/api/answer/finish", map[string]any{"challenge": begun, "credential": credential}, nil); nod.CodeOf(err) != nod.Expired {
		t.Errorf("an answer that was finished too late: %v", err)
	}
	if err := late.Answer(t.Context(), d.ID, nod.Allow, ""); nod.CodeOf(err) != nod.Expired {
		t.Errorf("an answer that was begun too late: %v", err)
	}
	p.until("the decision has expired", func() bool { return p.decision(d.ID).State == nod.DecisionExpired })
	if d = p.decision(d.ID); d.Permits() || d.Answer != "" {
		t.Errorf("the decision is %s, %q", d.State, d.Answer)
	}
	p.until("the agent is told", func() bool { return p.told("nobody answered before the deadline") })
	p.question()
	p.untouched()
	p.quiet()
}

// another enrols a software passkey beside the phone's and signs in with it.
func (p *newcomer) another() *answertest.Client {
	p.t.Helper()
	link, err := enrolmentLink(p.t.Context(), p.demo.system.store, p.demo.public, "late")
	if err != nil {
		p.t.Fatal(err)
	}
	c, err := answertest.NewClient(p.demo.public, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	if err := c.Enrol(p.t.Context(), link); err != nil {
		p.t.Fatal(err)
	}
	if err := c.SignIn(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	return c
}

// begin asks for a challenge to allow decision, and signs it.
func (p *newcomer) begin(c *answertest.Client, decision string) (challenge string, credential json.RawMessage) {
	p.t.Helper()
	var begun struct {
		Challenge string          `json:"challenge"`
		Options   json.RawMessage `json:"options"`
	}
	if err := c.Post(p.t.Context(), "/api/answer/begin", map[string]string{"decision": decision, "answer": nod.Allow}, &begun); err != nil {
		p.t.Fatal(err)
	}
	credential, err := c.Key.Sign(p.demo.public, begun.Options)
	if err != nil {
		p.t.Fatal(err)
	}
	return begun.Challenge, credential
}
