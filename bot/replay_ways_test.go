package bot_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"nod"
)

var everyWay = [][]string{{webhook}, {deliveries}, {poll}, {webhook, deliveries, poll}}

// Whatever way nod hears of things, or by all of them at once, each label event and
// each command starts exactly one run, and each end is heard.
func TestEveryEventStartsOnceWhateverWayItIsHeard(t *testing.T) {
	for _, ways := range everyWay {
		t.Run(strings.Join(ways, "+"), func(t *testing.T) {
			t.Parallel()
			r := newReplay(t)
			r.sweep = 100 * time.Millisecond // and the sweep sees every label as well
			r.serve(ways...)
			want := map[int]int{}
			for range 3 {
				n := r.newIssue("ada")
				r.ok(r.sim.Label("ada", full, n, "nod"))
				want[n] = 1
			}
			commanded := r.newIssue("wil")
			_, err := r.sim.Comment("wil", full, commanded, "/nod run")
			r.ok(err)
			want[commanded] = 1
			for n := range want {
				r.begins(n)
			}
			_, err = r.sim.Comment("ada", full, 1, "/nod cancel")
			r.ok(err)
			r.ok(r.sim.CloseIssue("ada", full, 2))
			for _, n := range []int{1, 2} {
				r.eventually("cancelled", func() bool { c, ok := r.caseOf(n); return ok && c.Task.State == nod.TaskCancelled })
			}
			r.eventually("the label is taken", func() bool { return len(r.view(1).Labels) == 0 })
			r.later()
			r.ok(r.sim.Label("ada", full, 1, "NOD")) // again, by another event
			want[1] = 2
			r.eventually("the second task of issue 1", func() bool { return r.tasks()[1] == 2 })
			r.begins(1)
			r.settled()
			select { // several sweeps and looks more
			case <-time.After(500 * time.Millisecond):
			case <-t.Context().Done():
			}
			r.settled()
			if got := r.tasks(); !maps.Equal(got, want) {
				t.Errorf("tasks by issue %v, want %v", got, want)
			}
			if got := r.sessions.Load(); got != 5 {
				t.Errorf("%d sessions for five starts", got)
			}
		})
	}
}

// R03: the label is set while nod is down and GitHub does not try again. It starts
// once, by whatever way it is heard of, and the status comment says how late.
func TestR03LabelSetWhileNodWasDownStartsOnceAndSaysHowLate(t *testing.T) {
	for _, ways := range everyWay {
		t.Run(strings.Join(ways, "+"), func(t *testing.T) {
			t.Parallel()
			r := newReplay(t)
			r.serve(ways...) // it has looked before
			r.settled()
			if slices.Contains(ways, poll) { // and that was long ago
				r.ok(r.store.SetMark(t.Context(), "watch/"+r.repo.Key(), fmt.Sprintf(`{"since":%q}`, time.Now().Add(-6*time.Hour).UTC().Format(time.RFC3339))))
			}
			r.halt()
			r.behind.Store(int64(5*time.Hour + time.Minute))
			n := r.newIssue("ada")
			r.ok(r.sim.Label("ada", full, n, "nod"))
			said := r.newIssue("ada")
			_, err := r.sim.Comment("ada", full, said, "/nod run")
			r.ok(err)
			r.ok(r.sim.Flush(t.Context()))
			r.behind.Store(0)
			r.sweep = 100 * time.Millisecond
			r.serve(ways...)
			late := []int{n}
			if !slices.Equal(ways, []string{webhook}) { // a command, unlike a label, is nothing that can be seen later
				late = append(late, said)
			}
			for _, n := range late {
				r.begins(n)
				body := ""
				r.eventually("the status comment", func() bool { body = r.own(n); return body != "" })
				if !strings.Contains(body, "5 hours after it was asked for") {
					t.Errorf("the status comment of issue %d says %q", n, body)
				}
			}
			r.settled()
			want := map[int]int{}
			for _, n := range late {
				want[n] = 1
			}
			if got := r.tasks(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("tasks %v, want %v", got, want)
			}
		})
	}
}
