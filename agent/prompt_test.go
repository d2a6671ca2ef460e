package agent

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nod"
)

// deaf is a process of which only the input is used.
type deaf struct {
	nod.Process
	in io.WriteCloser
}

func (d deaf) Stdin() io.WriteCloser { return d.in }

// asking runs check on a session whose one prompt was allowed, with the answer on its
// way to the program that reads from in.
func asking(t *testing.T, check func(l *Live, in io.Reader, prompt context.Context)) {
	synctest.Test(t, func(t *testing.T) {
		in, out := io.Pipe()
		var prompt context.Context
		l := NewLive("test", Limits{}, slog.New(slog.DiscardHandler), func(ctx context.Context, _ nod.ApprovalRequest) nod.ApprovalAnswer {
			prompt = ctx
			return nod.ApprovalAnswer{Allow: true}
		}, deaf{in: out}, nil)
		l.Change(func(s *State) { s.Open = true })
		l.work.Go(l.write)
		l.Ask(nod.ApprovalRequest{ID: "1", Kind: nod.RequestTool}, "", func(nod.ApprovalAnswer) { l.Send([]byte("yes\n")) })
		synctest.Wait()
		check(l, in, prompt)
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		close(l.shut)
		l.work.Wait()
	})
}

func TestTheProgramHearsBeforeAnybodyElse(t *testing.T) {
	asking(t, func(l *Live, in io.Reader, prompt context.Context) {
		if prompt.Err() != nil || len(l.events) > 0 {
			t.Errorf("before the program has the answer: context %v, %d events", prompt.Err(), len(l.events))
		}
		if _, err := io.ReadFull(in, make([]byte, len("yes\n"))); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if prompt.Err() == nil || len(l.events) != 1 {
			t.Errorf("once it has: context %v, %d events", prompt.Err(), len(l.events))
		}
	})
}

func TestAnEventIsToldBeforeThoseThatFollowFromIt(t *testing.T) {
	asking(t, func(l *Live, _ io.Reader, _ context.Context) {
		l.Emit(nod.EventMessage, nod.Message{Text: "what the program said then"})
		if first, second := <-l.events, <-l.events; first.Kind != nod.EventApproval || second.Kind != nod.EventMessage || !strings.Contains(string(first.Data), nod.SettledAllowed) {
			t.Errorf("%s %s, then %s", first.Kind, first.Data, second.Kind)
		}
	})
}

func TestAProgramThatDoesNotReadHoldsNobodyUpForLong(t *testing.T) {
	asking(t, func(l *Live, _ io.Reader, prompt context.Context) {
		begin := time.Now()
		<-prompt.Done()
		if took := time.Since(begin); took != hearingTime {
			t.Errorf("others wait for %v", took)
		}
		if e := <-l.events; e.Kind != nod.EventApproval {
			t.Errorf("the event is %s", e.Kind)
		}
	})
}
