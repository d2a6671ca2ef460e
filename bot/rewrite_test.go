package bot_test

import (
	"strings"
	"testing"

	"nod"
)

// TestUnconventionalMessagesAreReworkedThenAskedAbout: the agent writes its messages anew,
// told what is wrong with them; one that cannot is not sent back for ever.
func TestUnconventionalMessagesAreReworkedThenAskedAbout(t *testing.T) {
	wrong := func() error {
		return nod.E(nod.Invalid, `commit aaaaaaaaaaaa: the subject "stuff" does not begin with a type and a colon`, nod.ErrMessages)
	}
	t.Run("once", func(t *testing.T) {
		life(t, func(t *testing.T, w *world) {
			w.result.err = wrong()
			w.issue(1, ada)
			w.label(1, ada)
			c := w.until("the result waits for review", waitingFor(nod.CauseReadyToPush))
			if len(w.prompts) != 2 || !strings.Contains(w.prompts[1], `"stuff" does not begin`) || !strings.Contains(w.prompts[1], "change no file") || w.resumed[1] != "s-1" || c.Run.Number != 2 {
				t.Errorf("run %d; told %q", c.Run.Number, w.prompts)
			}
		})
	})
	t.Run("always", func(t *testing.T) {
		life(t, func(t *testing.T, w *world) {
			w.agent = func(*fakeSession) nod.Result {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.result.err = wrong()
				return nod.Result{OK: true}
			}
			w.issue(1, ada)
			w.label(1, ada)
			c := w.until("somebody is asked", waitingFor(nod.CausePrepareFailed))
			if d := c.Open()[0]; len(w.prompts) != 3 || !strings.Contains(d.Input, `"stuff" does not begin`) || !d.Takes(nod.Rework) || !d.Takes(nod.Cancel) {
				t.Errorf("after %d sessions asked %+v", len(w.prompts), d)
			}
		})
	})
}
