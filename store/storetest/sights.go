package storetest

import (
	"slices"
	"testing"

	"nod"
)

func sights(t *testing.T, open Open) {
	t.Run("WhoOpenedADecisionIsRecordedOnceAndPermitsNothing", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		d, k := f.opened(), f.enrol()
		unseen := func() (ids []string) {
			list, err := f.Unseen(f.ctx)
			must(t, err)
			for _, v := range list {
				ids = append(ids, v.ID)
			}
			return ids
		}
		if got := unseen(); !slices.Equal(got, []string{d.ID}) {
			t.Errorf("unseen: %v", got)
		}
		for range 2 {
			must(t, f.See(f.ctx, d.ID, k.id))
		}
		if got := unseen(); len(got) != 0 {
			t.Errorf("unseen once it was opened: %v", got)
		}
		stored, err := f.Decision(f.ctx, d.ID)
		if err != nil || stored.State != nod.DecisionOpen || stored.Version != d.Version {
			t.Errorf("looking at it changed it: %+v, %v", stored, err)
		}
		kinds := f.kinds(d.Task)
		if n := len(slices.DeleteFunc(kinds, func(k nod.EventKind) bool { return k != nod.EventDecisionSeen })); n != 1 {
			t.Errorf("%d events of it", n)
		}
		wants(t, "an unknown decision", f.See(f.ctx, "d0", k.id), nod.NotFound)
		wants(t, "an unknown passkey", f.See(f.ctx, d.ID, "nobody"), nod.NotFound)
		f.head()
	})
	t.Run("WhereTwoMustAllowTwoMustHaveOpenedIt", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		d := f.approval(f.task(), "")
		d.Approvals = 2
		f.apply(nod.Change{Decisions: []*nod.Decision{d}})
		for _, want := range []int{1, 0} {
			must(t, f.See(f.ctx, d.ID, f.enrol().id))
			if list, err := f.Unseen(f.ctx); err != nil || len(list) != want {
				t.Errorf("%d unseen, %v; want %d", len(list), err, want)
			}
		}
	})
}
