package storetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"nod"
)

func events(t *testing.T, open Open) {
	said := func(stream, text string) *nod.Event {
		e := nod.NewEvent(stream, nod.Transcript, nod.EventMessage, nod.Actor{Kind: nod.ActorAgent}, nod.Message{Text: text})
		return &e
	}
	t.Run("SequenceIsPerStreamAndGlobalOrderIsTotal", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		a, b := said("a", "1"), said("b", "1")
		a2 := &nod.Event{Stream: "a", Tier: nod.Audit, Kind: nod.EventVerdict}
		f.apply(nod.Change{Events: []*nod.Event{a, b, a2}})
		if a.Seq != 1 || b.Seq != 1 || a2.Seq != 2 || a.ID >= b.ID || b.ID >= a2.ID || !a2.At.Equal(f.now()) || a2.By != by || string(a2.Data) != `{}` {
			t.Errorf("events: %+v %+v %+v", a, b, a2)
		}
		got, err := f.Events(f.ctx, "a", 1, 10)
		if err != nil || len(got) != 1 || got[0].ID != a2.ID {
			t.Errorf("after 1: %v, %v", got, err)
		}
		if got, err := f.Events(f.ctx, "a", 0, 1); err != nil || len(got) != 1 || got[0].ID != a.ID {
			t.Errorf("limit 1: %v, %v", got, err)
		}
	})
	t.Run("BrokenOnesAreRefused", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		for name, e := range map[string]nod.Event{
			"no stream":       {Tier: nod.Transcript, Kind: nod.EventMessage},
			"no kind":         {Stream: "a", Tier: nod.Transcript},
			"no tier":         {Stream: "a", Kind: "x"},
			"purgeable proof": {Stream: "a", Tier: nod.Transcript, Kind: nod.EventVerdict},
			"chained chatter": {Stream: "a", Tier: nod.Audit, Kind: nod.EventMessage},
			"no JSON":         {Stream: "a", Tier: nod.Transcript, Kind: nod.EventMessage, Data: []byte(`{`)},
		} {
			f.refuses(name, nod.Invalid, nod.Change{Events: []*nod.Event{&e}})
		}
	})
	t.Run("PurgeTakesTheTranscriptOnlyAndReusesNoNumber", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		task, other := f.task(), f.task()
		f.apply(nod.Change{Events: []*nod.Event{said(task.ID, "1"), said(other.ID, "1"), said(task.ID, "2")}})
		before := f.head()
		must(t, f.Purge(f.ctx, task.ID, host))
		got, err := f.Events(f.ctx, task.ID, 0, 10)
		if err != nil || len(got) != 2 || got[0].Kind != nod.EventTaskCreated || got[1].Kind != nod.EventPurged || got[1].Seq != 4 || got[1].By != host ||
			string(got[1].Data) != `{"events":2}` {
			t.Errorf("after the purge: %+v, %v", got, err)
		}
		if kinds := f.kinds(other.ID); len(kinds) != 2 {
			t.Errorf("another task lost events: %v", kinds)
		}
		if f.head() == before {
			t.Error("the purge is not in the chain")
		}
		next := said(task.ID, "3")
		f.apply(nod.Change{Events: []*nod.Event{next}})
		if next.Seq != 5 {
			t.Errorf("the next sequence number is %d, want 5", next.Seq)
		}
		wants(t, "a task that is not there", f.Purge(f.ctx, "nothing", host), nod.NotFound)
		wants(t, "nobody", f.Purge(f.ctx, task.ID, nod.Actor{}), nod.Invalid)
	})
	t.Run("WaitWakesOnCommitAndEndsWithItsContext", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(t, open, Setup{Now: time.Now})
			type result struct {
				events []nod.Event
				err    error
			}
			any, one := make(chan result, 1), make(chan result, 1)
			go func() {
				e, err := f.Wait(f.ctx, "", 0)
				any <- result{e, err}
			}()
			go func() {
				e, err := f.Wait(f.ctx, "b", 0)
				one <- result{e, err}
			}()
			synctest.Wait()
			f.apply(nod.Change{Events: []*nod.Event{said("a", "hello")}})
			if r := <-any; r.err != nil || len(r.events) != 1 || r.events[0].Stream != "a" {
				t.Errorf("any stream: %+v", r)
			}
			synctest.Wait()
			select {
			case r := <-one:
				t.Errorf("another stream's event woke a waiter for good: %+v", r)
			default:
			}
			f.apply(nod.Change{Events: []*nod.Event{said("b", "hello")}})
			if r := <-one; r.err != nil || len(r.events) != 1 || r.events[0].Stream != "b" {
				t.Errorf("its own stream: %+v", r)
			}
			from := time.Now()
			ctx, cancel := context.WithTimeout(f.ctx, time.Hour)
			defer cancel()
			if _, err := f.Wait(ctx, "b", 1000); !errors.Is(err, context.DeadlineExceeded) || time.Since(from) != time.Hour {
				t.Errorf("the end of the context: %v after %v", err, time.Since(from))
			}
			must(t, f.Close())
		})
	})
	t.Run("WaitEndsWhenTheStoreCloses", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		done := make(chan error, 1)
		go func() {
			_, err := f.Wait(context.Background(), "", 0)
			done <- err
		}()
		must(t, f.Close())
		if err := <-done; err == nil {
			t.Error("no error from a closed store")
		}
	})
}
