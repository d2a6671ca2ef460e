package github_test

import (
	"testing"
	"time"

	"nod"
	"nod/bot/github"
)

func TestInspectFindsWhatIsWrong(t *testing.T) {
	hook := "http://127.0.0.1:1/webhooks/github"
	look := func(w *world) map[string]github.Finding {
		found := map[string]github.Finding{}
		for _, f := range w.client.Inspect(w.Context(), hook, []nod.Repo{w.repo()}) {
			found[f.What] = f
		}
		return found
	}
	w := newWorld(t)
	w.sim.SetWebhook(hook)
	for what, f := range look(w) {
		if !f.OK {
			t.Errorf("%s: %+v", what, f)
		}
	}
	w.ok(w.sim.Grant("ada", map[string]string{"metadata": "read", "issues": "write"}))
	w.ok(w.sim.Label("wil", full, w.task.Issue, trigger)) // nobody takes the delivery
	w.ok(w.sim.Flush(t.Context()))
	w.sim.SetWebhook("http://127.0.0.1:1/elsewhere")
	got := look(w)
	in := got["installation for "+full]
	if in.OK || in.Detail != "lacks contents: write, pull_requests: write" || in.Hint == "" {
		t.Errorf("permissions: %+v", in)
	}
	if got["webhook"].OK || got["deliveries"].OK || !got["clock"].OK || !got["events"].OK {
		t.Errorf("got %+v", got)
	}
	late := newWorld(t, func(c *github.Config) { c.Now = func() time.Time { return time.Now().Add(45 * time.Second) } })
	if f := look(late)["clock"]; f.OK || f.Hint == "" {
		t.Errorf("a clock 45 s ahead: %+v", f)
	}
	w.ok(w.sim.Uninstall("ada"))
	if f := look(w)["installation for "+full]; f.OK {
		t.Errorf("not installed: %+v", f)
	}
}
