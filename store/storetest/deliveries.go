package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"nod"
)

func deliveries(t *testing.T, open Open) {
	accept := func(f *fixture, guid, key, order string) bool {
		f.Helper()
		fresh, err := f.AcceptDelivery(f.ctx, nod.Delivery{GUID: guid, SemanticKey: key, Event: "issues", Action: "labeled", Order: order, Payload: []byte(`{"a":1}`)})
		must(f, err)
		return fresh
	}
	lease := func(f *fixture, want string) nod.Delivery {
		f.Helper()
		d, err := f.LeaseDelivery(f.ctx, time.Minute)
		switch {
		case want == "":
			wants(f, "nothing is due", err, nod.NotFound)
		case err != nil || d.GUID != want:
			f.Errorf("leased %q, %v; want %q", d.GUID, err, want)
		}
		return d
	}
	finish := func(f *fixture, d nod.Delivery, state nod.DeliveryState) error {
		d.State = state
		return f.Apply(f.ctx, &nod.Change{By: by, Deliveries: []*nod.Delivery{&d}})
	}
	t.Run("GUIDIsAcceptedOnce", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		if !accept(f, "g1", "", "o") || accept(f, "g1", "", "o") || accept(f, "g1", "k", "o") {
			t.Error("a repeated GUID was fresh, or the first was not")
		}
		known, err := f.Known(f.ctx, "g1", "g2")
		if err != nil || !known["g1"] || known["g2"] {
			t.Errorf("known: %v, %v", known, err)
		}
	})
	t.Run("MarksOfPollersAreKept", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		for _, mark := range []string{"", "one", "one", "two"} {
			if mark != "" {
				must(t, f.SetMark(f.ctx, "deliveries", mark))
			}
			if got, err := f.Mark(f.ctx, "deliveries"); err != nil || got != mark {
				t.Errorf("mark %q, %v; want %q", got, err, mark)
			}
		}
		if got, err := f.Mark(f.ctx, "watch/x"); err != nil || got != "" {
			t.Errorf("another poller's mark: %q, %v", got, err)
		}
		wants(t, "an empty mark", f.SetMark(f.ctx, "deliveries", ""), nod.Invalid)
	})
	t.Run("OneEventUnderTwoGUIDsIsHandledOnce", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		if !accept(f, "g1", "k", "o") || accept(f, "g2", "k", "o") || accept(f, "g2", "k", "o") || accept(f, "g3", "k", "o") {
			t.Error("the twin was fresh, or the first was not")
		}
		got, err := f.DeliveriesByState(f.ctx)
		if err != nil || got[nod.DeliveryPending] != 1 || got[nod.DeliveryIgnored] != 2 {
			t.Errorf("deliveries: %v, %v", got, err)
		}
		must(t, finish(f, lease(f, "g1"), nod.DeliveryDone))
		lease(f, "")
	})
	t.Run("ManyAcceptOneDeliveryOnce", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		var fresh atomic.Int64
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				ok, err := f.AcceptDelivery(f.ctx, nod.Delivery{GUID: fmt.Sprint("g", i%4), SemanticKey: "k", Event: "issues"})
				if err != nil {
					t.Error(err)
				}
				if ok {
					fresh.Add(1)
				}
			})
		}
		wg.Wait()
		if fresh.Load() != 1 {
			t.Errorf("%d were fresh, want 1", fresh.Load())
		}
	})
	t.Run("DeliveriesOfOneOrderAreHandledInSequence", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		accept(f, "a1", "", "a")
		accept(f, "a2", "", "a")
		accept(f, "b1", "", "b")
		first := lease(f, "a1")
		lease(f, "b1")
		lease(f, "")
		first.NotBefore = f.now().Add(time.Second)
		must(t, finish(f, first, nod.DeliveryPending))
		lease(f, "") // a2 waits for a1
		f.pass(time.Second)
		first = lease(f, "a1")
		if first.Attempt != 2 {
			t.Errorf("attempt %d, want 2", first.Attempt)
		}
		must(t, finish(f, first, nod.DeliveryDead))
		lease(f, "a2")
	})
	t.Run("LeaseThatRanOutIsDueAgainAndFencesItsOldHolder", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		accept(f, "g", "", "o")
		old := lease(f, "g")
		lease(f, "")
		f.pass(time.Minute)
		now := lease(f, "g")
		wants(t, "the old holder", finish(f, old, nod.DeliveryDone), nod.Conflict)
		must(t, finish(f, now, nod.DeliveryDone))
		wants(t, "finished twice", finish(f, now, nod.DeliveryDone), nod.Conflict)
		f.pass(time.Hour)
		lease(f, "")
	})
	t.Run("PayloadAndFactsAreKept", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		accept(f, "g", "key", "o")
		d := lease(f, "g")
		if d.Event != "issues" || d.Action != "labeled" || d.SemanticKey != "key" || d.Order != "o" || string(d.Payload) != `{"a":1}` ||
			!d.ReceivedAt.Equal(f.now()) || d.State != nod.DeliveryLeased || !d.LeaseUntil.Equal(f.now().Add(time.Minute)) {
			t.Errorf("leased: %+v", d)
		}
	})
	t.Run("BrokenOnesAreRefused", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		for name, d := range map[string]nod.Delivery{"no GUID": {Event: "x"}, "no event": {GUID: "g"}, "a state of its own": {GUID: "g", Event: "x", State: nod.DeliveryDone}} {
			_, err := f.AcceptDelivery(f.ctx, d)
			wants(t, name, err, nod.Invalid)
		}
		_, err := f.LeaseDelivery(f.ctx, 0)
		wants(t, "a lease of no time", err, nod.Invalid)
	})
}
