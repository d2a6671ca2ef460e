package github_test

import (
	"testing"

	"nod"
)

// TestStraightIntoABranchButNeverTheDefault: where GitHub says that the branch is the
// default one, or it is none that the task was made for, it stays as it is.
func TestStraightIntoABranchButNeverTheDefault(t *testing.T) {
	p := newPublisher(t)
	forward := func(r nod.Revision, into string, mode nod.SignMode) nod.Effect {
		e := p.effect(nod.EffectPush, nod.PushBranch{Branch: into, SHA: r.SHA, Base: r.BaseSHA, Old: r.BaseSHA, Sign: mode, Forward: true})
		e.Key = "push/" + r.SHA
		return e
	}
	text := "x\n"
	for _, mode := range []nod.SignMode{nod.SignGitHub, nod.SignSSH} {
		next := "next-" + string(mode)
		_, err := p.sim.Commit("wil", full, next, "feat: begin", map[string]*string{next: &text})
		p.ok(err)
		main, err := p.sim.Head(full, p.task.BaseRef)
		p.ok(err)
		onMain, dir, base := p.begin()
		p.file(dir, "a.txt", "a "+string(mode)+"\n")
		p.save(dir, "feat: a")
		r, err := p.prepare(onMain, dir, base)
		p.ok(err)
		for _, into := range []string{onMain.BaseRef, "MAIN", next, ""} {
			if _, err := p.performer(mode).Perform(t.Context(), onMain, forward(r, into, mode)); nod.CodeOf(err) != nod.Forbidden {
				t.Errorf("%s: straight into %q of a task for main: %v", mode, into, err)
			}
		}
		if at, err := p.sim.Head(full, onMain.BaseRef); err != nil || at != main {
			t.Errorf("%s: the default branch is at %s, %v", mode, at, err)
		}
		p.task.BaseRef = next
		task, dir, base := p.begin()
		p.task.BaseRef = onMain.BaseRef
		p.file(dir, "b.txt", "b\n")
		p.save(dir, "feat: b")
		r, err = p.prepare(task, dir, base)
		p.ok(err)
		for range 2 { // the second time it is there already
			if _, err := p.performer(mode).Perform(t.Context(), task, forward(r, next, mode)); err != nil {
				t.Fatalf("%s: %v", mode, err)
			}
		}
		at, err := p.sim.Head(full, next)
		p.ok(err)
		if verified, why, err := p.sim.Verification(full, at); err != nil || !verified {
			t.Errorf("%s: its head is not verified: %s, %v", mode, why, err)
		}
		_, err = p.sim.Commit("wil", full, next, "feat: theirs", map[string]*string{"theirs-" + string(mode): &text})
		p.ok(err)
		late := forward(r, next, mode)
		if _, err := p.performer(mode).Perform(t.Context(), task, late); nod.CodeOf(err) != nod.Conflict {
			t.Errorf("%s: over somebody's commit: %v", mode, err)
		}
	}
}
