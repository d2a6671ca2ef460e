package storetest

import (
	"slices"
	"testing"
	"time"

	"nod"
)

func effects(t *testing.T, open Open) {
	intent := func(f *fixture, task, repo string) *nod.Effect {
		return &nod.Effect{Key: f.id("k"), Task: task, Repo: repo, Kind: nod.EffectStatusComment, Intent: []byte(`{"body":"hi"}`), State: nod.EffectIntended}
	}
	t.Run("SameKeyIsIntendedOnce", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		e := intent(f, f.task().ID, "r")
		f.apply(nod.Change{Effects: []*nod.Effect{e}})
		again := with(*e, func(v *nod.Effect) { v.ID, v.Version, v.Intent = 0, 0, []byte(`{"body":"other"}`) })
		f.apply(nod.Change{Effects: []*nod.Effect{again}})
		if c := f.caseOf(e.Task); len(c.Effects) != 1 || string(c.Effects[0].Intent) != `{"body":"hi"}` || again.ID != 0 {
			t.Errorf("effects: %+v", c.Effects)
		}
	})
	t.Run("AttemptIsCountedBeforeItIsMade", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		e := intent(f, f.task().ID, "r")
		f.apply(nod.Change{Effects: []*nod.Effect{e}})
		stale := *e
		must(t, f.BeginEffect(f.ctx, e))
		if e.Attempt != 1 || e.Version != 2 {
			t.Errorf("begun: %+v", e)
		}
		wants(t, "begun twice from one reading", f.BeginEffect(f.ctx, &stale), nod.Conflict)
		wants(t, "one that is not there", f.BeginEffect(f.ctx, &nod.Effect{ID: 999, Version: 1}), nod.NotFound)
		f.refuses("an attempt taken back", nod.Conflict, nod.Change{Effects: []*nod.Effect{with(*e, func(v *nod.Effect) { v.Attempt = 0 })}})
		f.refuses("another intent", nod.Conflict, nod.Change{Effects: []*nod.Effect{with(*e, func(v *nod.Effect) { v.Intent = []byte(`{}`) })}})
		e.State, e.Outcome = nod.EffectDone, []byte(`{"id":5}`)
		f.apply(nod.Change{Effects: []*nod.Effect{e}})
		f.refuses("an outcome changed", nod.Conflict, nod.Change{Effects: []*nod.Effect{with(*e, func(v *nod.Effect) { v.Outcome = []byte(`{"id":6}`) })}})
		wants(t, "begun after its outcome", f.BeginEffect(f.ctx, e), nod.Conflict)
		if got := f.kinds(e.Task); !slices.Equal(got, []nod.EventKind{nod.EventTaskCreated, nod.EventEffectIntended, nod.EventEffectOutcome}) {
			t.Errorf("kinds are %v", got)
		}
	})
	t.Run("UnknownMayBeRedone", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		e := intent(f, f.task().ID, "r")
		f.apply(nod.Change{Effects: []*nod.Effect{e}})
		must(t, f.BeginEffect(f.ctx, e))
		e.State = nod.EffectUnknown
		f.apply(nod.Change{Effects: []*nod.Effect{e}})
		if due, err := f.DueEffects(f.ctx); err != nil || len(due) != 0 {
			t.Errorf("an unknown effect is due: %v, %v", due, err)
		}
		e.State, e.Attempt = nod.EffectIntended, 0
		f.apply(nod.Change{Effects: []*nod.Effect{e}})
		if due, err := f.DueEffects(f.ctx); err != nil || len(due) != 1 {
			t.Errorf("redone: %v, %v", due, err)
		}
	})
	t.Run("FirstOfEachRepositoryIsDue", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		a, b := f.task().ID, f.task().ID
		a1, a2, b1 := intent(f, a, "r"), intent(f, a, "r"), intent(f, b, "r")
		other, push1, push2 := intent(f, b, "s"), intent(f, a, ""), intent(f, a, "")
		f.apply(nod.Change{Effects: []*nod.Effect{a1, a2, b1, other, push1, push2}})
		due := func(why string, want ...*nod.Effect) {
			t.Helper()
			got, err := f.DueEffects(f.ctx)
			var ids, wanted []int64
			for _, e := range got {
				ids = append(ids, e.ID)
			}
			for _, e := range want {
				wanted = append(wanted, e.ID)
			}
			if err != nil || !slices.Equal(ids, wanted) {
				t.Errorf("%s: due are %v, %v; want %v", why, ids, err, wanted)
			}
		}
		due("all fresh", a1, other, push1, push2)
		a1.NotBefore = f.now().Add(time.Minute)
		f.apply(nod.Change{Effects: []*nod.Effect{a1}})
		due("one task backs off", b1, other, push1, push2)
		f.pass(time.Minute)
		due("its time has come", a1, other, push1, push2)
		a1.State = nod.EffectDone
		f.apply(nod.Change{Effects: []*nod.Effect{a1}})
		due("the next of its task", a2, other, push1, push2)
	})
}
