package codex

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nod"
	"nod/agent"
)

func TestStopGoesStepByStepAndEveryStepHasALimit(t *testing.T) {
	for name, c := range map[string]struct {
		play func(f *fake)
		max  time.Duration
	}{
		"obedient": {func(f *fake) { f.told("turn/interrupt"); f.say(ended("interrupted", "")) }, time.Second},
		"no end":   {func(f *fake) { f.told("turn/interrupt") }, 6 * time.Second},
		"never cleans": {func(f *fake) {
			f.told("turn/interrupt")
			f.silent.Store(true)
			f.say(ended("interrupted", ""))
		}, 11 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				s := begin(t, f, yes, nil)
				f.say(started(command("c1", "x", "")), mayRun("0", "c1", "x", ""))
				f.told(`"decision"`)
				events := make(chan []nod.Event, 1)
				go func() { events <- drain(s) }()
				go c.play(f)
				began := time.Now()
				if err := s.Stop(t.Context()); err != nil {
					t.Error(err)
				}
				if d := time.Since(began); d > c.max || f.kills != 1 {
					t.Errorf("took %v, %d kills", d, f.kills)
				}
				if r, err := s.Wait(); err != nil || r.OK || r.Reason != agent.ReasonInterrupted {
					t.Errorf("%+v, %v", r, err)
				}
				if err := s.Instruct(t.Context(), "more"); nod.CodeOf(err) != nod.Conflict {
					t.Errorf("%v", err)
				}
				calls := 0
				for _, e := range <-events {
					switch e.Kind {
					case nod.EventToolCall:
						calls++
					case nod.EventToolResult:
						calls--
					}
				}
				if calls != 0 {
					t.Errorf("%d calls are left open", calls)
				}
			})
		})
	}
}

func TestATurnThatHasNotStartedIsInterruptedWhenItDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		a, err := New(config(nil))
		if err != nil {
			t.Fatal(err)
		}
		s, err := a.Start(t.Context(), f, nod.AgentSpec{Prompt: "Go.", Approve: yes})
		if err != nil {
			t.Fatal(err)
		}
		go drain(s)
		stopped := make(chan error)
		go func() { stopped <- s.Stop(t.Context()) }()
		time.Sleep(time.Second)
		f.say(note("turn/started", `"turn":{"id":"`+turnID+`"}`))
		f.told("turn/interrupt")
		f.say(ended("interrupted", ""))
		if err := <-stopped; err != nil {
			t.Error(err)
		}
		if r, err := s.Wait(); err != nil || r.Reason != agent.ReasonInterrupted {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestASessionWaitsForEveryMessageItTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		s := begin(t, f, yes, nil)
		synctest.Wait()
		events := make(chan []nod.Event)
		go func() { events <- drain(s) }()
		f.silent.Store(true) // it takes the message only after its turn
		if err := s.Instruct(t.Context(), "and this"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		f.say(ended("completed", ""))
		time.Sleep(time.Hour) // of the bubble: it must still be there
		f.silent.Store(false)
		f.say(`{"id":5,"result":{"turn":{"id":"second"}}}`, strings.ReplaceAll(note("turn/started", `"turn":{"id":"second"}`), turnID, "second"))
		f.say(strings.ReplaceAll(completed(`{"type":"agentMessage","id":"m","text":"two"}`), turnID, "second"), strings.ReplaceAll(ended("completed", ""), turnID, "second"))
		<-events
		if r, err := s.Wait(); err != nil || !r.OK || r.Text != "two" {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestABackgroundCommandIsWaitedForOnlySoLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		s := begin(t, f, yes, nil)
		f.say(started(command("c1", "x", "")), mayRun("0", "c1", "x", ""))
		f.told(`"decision"`)
		began := time.Now()
		f.say(ended("completed", ""))
		events := drain(s)
		if r, err := s.Wait(); err != nil || !r.OK || f.kills != 1 || time.Since(began) < 2*time.Minute || time.Since(began) > 3*time.Minute {
			t.Errorf("%+v, %v, %v", r, err, time.Since(began))
		}
		if last := events[len(events)-1]; last.Kind != nod.EventToolResult || !strings.Contains(string(last.Data), "did not end before") {
			t.Errorf("the last event is %s %s", last.Kind, last.Data)
		}
	})
}

func TestOnePromptMoreThanMayWaitIsDeclined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		gate := make(chan struct{})
		s := begin(t, f, func(context.Context, nod.ApprovalRequest) nod.ApprovalAnswer {
			<-gate
			return nod.ApprovalAnswer{Allow: true}
		}, nil)
		ended := make(chan struct{})
		go func() { drain(s); close(ended) }()
		for i := range agent.MaxPrompts + 1 {
			f.say(started(command(fmt.Sprint("c", i), "x", "")), mayRun(fmt.Sprint(i), fmt.Sprint("c", i), "x", ""))
		}
		if got := f.told(`"decision"`); got != fmt.Sprintf(`{"id":%d,"result":{"decision":"decline"}}`, agent.MaxPrompts) {
			t.Errorf("told %s", got)
		}
		close(gate)
		for range agent.MaxPrompts {
			if got := f.told(`"decision"`); !strings.Contains(got, "accept") {
				t.Errorf("told %s", got)
			}
		}
		f.exit(0)
		<-ended
	})
}

func TestAKillThatIsNotProvenIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.deaf = true
		s := begin(t, f, yes, nil)
		go drain(s)
		if err := s.Stop(t.Context()); nod.CodeOf(err) != nod.Unavailable {
			t.Errorf("%v", err)
		}
	})
}
