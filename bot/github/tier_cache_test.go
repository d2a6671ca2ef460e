package github_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"nod"
	"nod/bot/github"
	"nod/bot/github/githubsim"
)

func (w *world) asked(login string) int {
	return w.count("GET", "/repos/ada/web/collaborators/"+login+"/permission")
}

// Many who ask at once share one answer, which counts for a little while and then is
// asked for again.
func TestTierIsAskedOnceForManyAndAgainSoon(t *testing.T) {
	now := time.Now()
	var mu sync.Mutex
	w := newWorld(t, func(c *github.Config) {
		c.TierLife = 30 * time.Second
		c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	})
	standing := func() nod.Standing {
		return w.client.Standing(t.Context(), w.task.Installation, w.repo(), w.actor("wil"))
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if got := standing(); got.Tier != nod.Writer {
				t.Errorf("got %+v", got)
			}
		})
	}
	all.Wait()
	if got := w.asked("wil"); got != 1 {
		t.Errorf("GitHub was asked %d times", got)
	}
	w.ok(w.sim.SetPermission(full, "wil", "read"))
	mu.Lock()
	now = now.Add(29 * time.Second)
	mu.Unlock()
	if got := standing(); got.Tier != nod.Writer {
		t.Errorf("before its time was over: %+v", got)
	}
	mu.Lock()
	now = now.Add(2 * time.Second)
	mu.Unlock()
	if got := standing(); got.Tier != nod.Outsider || w.asked("wil") != 2 {
		t.Errorf("after it: %+v, asked %d times", got, w.asked("wil"))
	}
}

// What could not be told is asked about again at once.
func TestTierThatCouldNotBeToldIsNotKept(t *testing.T) {
	w := newWorld(t, func(c *github.Config) { c.TierLife = time.Hour })
	for _, status := range []int{http.StatusBadGateway, http.StatusNotFound} {
		w.sim.Inject(githubsim.Fault{Path: "/collaborators/wil", Status: status})
		if got := w.client.Standing(t.Context(), w.task.Installation, w.repo(), w.actor("wil")); got.Tier != nod.Outsider {
			t.Errorf("%d: got %+v", status, got)
		}
	}
	if got := w.client.Standing(t.Context(), w.task.Installation, w.repo(), w.actor("wil")); got.Tier != nod.Writer {
		t.Errorf("got %+v", got)
	}
}
