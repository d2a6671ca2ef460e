package bot_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nod"
	"nod/bot"
	"nod/notify"
	"nod/notify/ntfytest"
)

const phoneTopic = "Zq3f8Lk0vB7nXw2RtY6s"

// pipes is a network inside a bubble: every connection is a pipe in memory.
type pipes struct {
	conns   chan net.Conn
	closed  chan struct{}
	mu      sync.Mutex
	refused int // how many dials are still to be refused
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

func (p *pipes) refuse(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused += n
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	p.mu.Lock()
	refuse := p.refused > 0
	if refuse {
		p.refused--
	}
	p.mu.Unlock()
	if refuse {
		return nil, errors.New("connection refused")
	}
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// phone is an ntfy server, and the publisher that reaches it, in the test's bubble.
type phone struct {
	*ntfytest.Server
	net       *pipes
	performer notify.Performer
	close     func()
}

func newPhone(t *testing.T, second notify.Channel) *phone {
	t.Helper()
	p := &phone{Server: ntfytest.New(ntfytest.Config{Keep: 10_000}), net: &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}}
	web := &http.Server{Handler: p.Server}
	ended := make(chan error, 1)
	go func() { ended <- web.Serve(p.net) }()
	transport := &http.Transport{DialContext: p.net.dial, DisableKeepAlives: true}
	first, err := notify.New(notify.Config{URL: "http://localhost", Topic: nod.NewSecret(phoneTopic), HTTP: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	p.performer = notify.Performer{First: first, Second: second, Now: time.Now}
	p.close = func() {
		if err := p.Server.Close(); err != nil {
			t.Error(err)
		}
		if err := web.Close(); err != nil {
			t.Error(err)
		}
		<-ended
		first.Close()
	}
	return p
}

// told counts the pushes that ask for a decision, and says what the phone shows in
// the place of each of them by now.
func (p *phone) told(d nod.Decision) (n int, shown map[string]string) {
	shown = map[string]string{}
	for _, m := range p.Messages(phoneTopic) {
		if !strings.HasSuffix(m.Click, "/d/"+d.ID) {
			continue
		}
		shown[m.Sequence] = m.Title
		if m.Priority > 1 {
			n++
		}
	}
	return n, shown
}

// withPhone runs f in a bubble with a bot whose pushes go to a phone.
func withPhone(t *testing.T, second notify.Channel, f func(t *testing.T, w *world, p *phone)) {
	synctest.Test(t, func(t *testing.T) {
		w, p := newWorld(t), newPhone(t, second)
		defer p.close()
		w.phone, w.tick = p.performer, 15*time.Second
		w.change = func(c *bot.Config) {
			c.RemindAfter, c.Reminders, c.SecondChannel = 3*time.Minute, 2, second != nil
			c.Push = func(d nod.Decision, t nod.Task, w nod.Telling) nod.Push {
				return notify.Tell(d, t, w, "https://nod.test")
			}
		}
		w.start()
		defer w.halt()
		f(t, w, p)
	})
}

func (w *world) decisions() []nod.Decision { return w.task(1).Decisions }

// TestEveryBlockingDecisionArrivesWhateverTheServerDoes: in front of each push five
// faults lie, in another order each time. Each decision arrives at least once, and no
// more often than there are reminders besides, also where the server kept a message
// and its answer was lost.
func TestEveryBlockingDecisionArrivesWhateverTheServerDoes(t *testing.T) {
	withPhone(t, nil, func(t *testing.T, w *world, p *phone) {
		const rounds = 12
		faults := []func(){
			func() { p.net.refuse(1) },
			func() { p.Fail(ntfytest.Fault{Status: 500}) },
			func() { p.Fail(ntfytest.Fault{Status: 429, RetryAfter: "20"}) },
			func() { p.Fail(ntfytest.Fault{Hang: true}) },
			func() { p.Fail(ntfytest.Fault{Truncate: true}) },
			func() { p.Fail(ntfytest.Fault{Slow: true}) },
			func() { p.Fail(ntfytest.Fault{Status: 503, Body: "<html>"}) },
		}
		w.agent = func(a *fakeSession) nod.Result {
			for i := range rounds {
				for j := range 5 {
					faults[(i+j*(1+i%3))%len(faults)]()
				}
				a.asks("Bash", fmt.Sprintf(`{"command":"echo %d"}`, i)) // nobody answers: it runs out
			}
			return nod.Result{OK: true}
		}
		w.issue(1, ada)
		w.label(1, ada)
		for range rounds {
			time.Sleep(nod.ApprovalDeadline)
		}
		w.until("the review is asked for", waitingFor(nod.CauseReadyToPush))
		time.Sleep(time.Hour) // the review is reminded of, and everything is taken back
		synctest.Wait()
		asked, most := 0, 0
		for _, d := range w.decisions() {
			if !d.Blocking {
				t.Errorf("%s does not block", d.Cause)
			}
			asked++
			n, shown := p.told(d)
			if most = max(most, n); n < 1 || n > 1+2 {
				t.Errorf("%s arrived %d times: %v", d.Subject, n, shown)
			}
			for name, title := range shown {
				if d.State == nod.DecisionExpired && title != "Ran out of time" {
					t.Errorf("the phone still shows %q for %s (%s)", title, name, d.State)
				}
			}
		}
		if asked != rounds+1 || most != 3 {
			t.Errorf("%d decisions, told of at most %d times", asked, most)
		}
	})
}

// TestReminderStopsOnceThePageWasOpened: whoever has looked is left alone.
func TestReminderStopsOnceThePageWasOpened(t *testing.T) {
	withPhone(t, nil, func(t *testing.T, w *world, p *phone) {
		w.agent = func(a *fakeSession) nod.Result {
			a.asks("Bash", `{"command":"ls"}`)
			a.asks("Bash", `{"command":"pwd"}`)
			return nod.Result{OK: true}
		}
		key := w.enrol("phone")
		w.issue(1, ada)
		w.label(1, ada)
		first := w.until("the agent asks", waitingFor(nod.CauseTool)).Open()[0]
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		if n, _ := p.told(first); n != 2 {
			t.Errorf("told %d times before anybody looked, want the push and a reminder", n)
		}
		if err := w.store.See(t.Context(), first.ID, key); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Minute)
		second := w.until("it asks again", waitingFor(nod.CauseTool)).Open()[0]
		if err := w.store.See(t.Context(), second.ID, key); err != nil {
			t.Fatal(err)
		}
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		for d, want := range map[*nod.Decision]int{&first: 2, &second: 1} {
			if n, _ := p.told(*d); n != want {
				t.Errorf("told %d times, want %d", n, want)
			}
		}
		w.answer(nod.Deny, "")
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, shown := p.told(second); shown[second.ID] != "Answered" {
			t.Errorf("the phone shows %v", shown)
		}
	})
}

// ear is a second channel that keeps what it hears.
type ear struct {
	mu    sync.Mutex
	heard []nod.Push
}

func (e *ear) Send(_ context.Context, p nod.Push) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, p)
	return "", nil
}

// told is what it has heard so far.
func (e *ear) told() []nod.Push {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.heard)
}

func (e *ear) Sent(context.Context, nod.Push, time.Duration) string { return "" }

// TestSecondChannelIsToldWhenNobodyLooked, and only then, also when the first has
// been down all the time; what it was told is taken back as well.
func TestSecondChannelIsToldWhenNobodyLooked(t *testing.T) {
	other := &ear{}
	withPhone(t, other, func(t *testing.T, w *world, p *phone) {
		p.net.refuse(1_000_000)
		w.agent = func(a *fakeSession) nod.Result {
			a.asks("Bash", `{"command":"ls"}`)
			return nod.Result{OK: true}
		}
		w.issue(1, ada)
		w.label(1, ada)
		d := w.until("the agent asks", waitingFor(nod.CauseTool)).Open()[0]
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if heard := other.told(); len(heard) != 0 {
			t.Errorf("told at once: %+v", heard)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if heard := other.told(); len(heard) != 1 || !strings.HasSuffix(heard[0].Click, d.ID) || heard[0].Closed {
			t.Errorf("heard %+v", heard)
		}
		w.answer(nod.Allow, "")
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		time.Sleep(time.Minute)
		synctest.Wait()
		if heard := other.told(); len(heard) != 2 || !heard[1].Closed || heard[1].Sequence != heard[0].Sequence {
			t.Errorf("heard %+v", heard)
		}
	})
}

// TestManyAtOnceAreToldTogether: the phone rings six times a minute for one task at
// most, and the rest of what blocks comes as one push that leads to all of it.
func TestManyAtOnceAreToldTogether(t *testing.T) {
	withPhone(t, nil, func(t *testing.T, w *world, p *phone) {
		w.agent = func(a *fakeSession) nod.Result {
			var wg sync.WaitGroup
			for i := range nod.MaxWaiting {
				wg.Go(func() { a.asks("Bash", fmt.Sprintf(`{"command":"echo %d"}`, i)) })
			}
			wg.Wait()
			return nod.Result{OK: true}
		}
		w.issue(1, ada)
		w.label(1, ada)
		c := w.until("eight prompts wait", func(c nod.Case) bool { return len(c.Open()) == nod.MaxWaiting })
		time.Sleep(time.Minute)
		synctest.Wait()
		single := 0
		for _, d := range c.Open() {
			n, _ := p.told(d)
			single += n
		}
		together := func() (titles []string) {
			for _, m := range p.Messages(phoneTopic) {
				if strings.HasSuffix(m.Click, "/t/"+c.Task.ID) {
					titles = append(titles, m.Title)
				}
			}
			return titles
		}
		if got := together(); single != 6 || len(got) != 1 || got[0] != "Several things wait for you" {
			t.Errorf("%d alone, together: %q", single, got)
		}
		time.Sleep(10 * time.Minute)
		w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
		w.answer(nod.Allow, "")
		w.until("delivered", in(nod.TaskReadyForReview))
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := together(); got[len(got)-1] != "Nothing waits any more" {
			t.Errorf("together, at the end: %q", got)
		}
	})
}

// TestPushThatDoesNotBlockIsLeftToTheInboxWhenThereAreMany: only that may be.
func TestPushThatDoesNotBlockIsLeftToTheInboxWhenThereAreMany(t *testing.T) {
	withPhone(t, nil, func(t *testing.T, w *world, p *phone) {
		w.agent = func(a *fakeSession) nod.Result { <-a.ctx.Done(); return nod.Result{} }
		w.issue(1, ada)
		w.label(1, ada)
		c := w.until("it runs", func(c nod.Case) bool { return c.Run != nil && c.Run.State == nod.RunRunning })
		time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
		ch := &nod.Change{By: nod.Supervisor()}
		for i := range 8 {
			d := nod.Decision{ID: fmt.Sprintf("d%032x", i+1), Task: c.Task.ID, Kind: nod.Approval, Cause: nod.CauseEgressHost, Subject: "a host",
				State: nod.DecisionOpen, Deadline: time.Now().Add(time.Hour)}
			d.SetInput(fmt.Sprintf("host%d.example", i))
			raw := fmt.Appendf(nil, `{"title":"Host","message":"m","click":"https://nod.test/d/%s","sequence":"%s"}`, d.ID, d.ID)
			ch.Decisions, ch.Blobs = append(ch.Decisions, &d), append(ch.Blobs, []byte(d.Input))
			ch.Effects = append(ch.Effects, &nod.Effect{Key: "notify/" + d.ID, Task: c.Task.ID, Kind: nod.EffectNotify, Intent: raw, State: nod.EffectIntended})
		}
		if err := w.store.Apply(t.Context(), ch); err != nil {
			t.Fatal(err)
		}
		time.Sleep(90 * time.Second)
		synctest.Wait()
		held := 0
		for _, e := range w.task(1).Effects {
			if e.Kind == nod.EffectNotify && e.State == nod.EffectAbandoned && strings.Contains(e.Error, "inbox") {
				held++
			}
		}
		if n := len(p.Messages(phoneTopic)); held != 2 || n != 6 {
			t.Errorf("%d held back, %d arrived", held, n)
		}
	})
}

// enrol puts a passkey into the store and returns its id.
func (w *world) enrol(name string) string {
	w.t.Helper()
	ctx := w.t.Context()
	token, challenge := nod.Digest([]byte(name)), "c-"+name
	for _, err := range []error{
		w.store.CreateEnrolment(ctx, nod.Enrolment{TokenDigest: token, Name: name, ExpiresAt: time.Now().Add(time.Minute)}),
		w.store.SaveChallenge(ctx, nod.Challenge{ID: challenge, Kind: nod.ChallengeEnrol, Bytes: make([]byte, 32), Enrolment: token, ExpiresAt: time.Now().Add(time.Minute)}),
		w.store.Enrol(ctx, challenge, nod.Passkey{ID: "key-" + name, PublicKey: []byte{1}}),
	} {
		if err != nil {
			w.t.Fatal(err)
		}
	}
	return "key-" + name
}
