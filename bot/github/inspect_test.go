package github_test

import (
	"strings"
	"testing"
	"time"

	"nod"
	"nod/bot/github"
)

func TestInspectFindsWhatIsWrong(t *testing.T) {
	hook := "http://127.0.0.1:1/webhooks/github"
	look := func(w *world) map[string]github.Finding {
		found := map[string]github.Finding{}
		for _, f := range w.client.Inspect(w.Context(), hook, []github.Inspected{{Repo: w.repo(), Sign: nod.SignGitHub}}) {
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
	if in.OK || in.Detail != "lacks checks: write, contents: write, pull_requests: write" || in.Hint == "" {
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

// R02: a hook of the repository leads to nod as well.
func TestR02DoctorFindsHooksThatTellTwice(t *testing.T) {
	hook := "https://nod.example.org/webhooks/github"
	w := newWorld(t)
	look := func() github.Finding {
		for _, f := range w.client.Inspect(w.Context(), hook, []github.Inspected{{Repo: w.repo(), Sign: nod.SignGitHub}}) {
			if f.What == "hooks of "+full {
				return f
			}
		}
		t.Fatal("nobody looked at the hooks")
		return github.Finding{}
	}
	if f := look(); !f.OK || !strings.Contains(f.Detail, "may not see") {
		t.Errorf("without the permission: %+v", f)
	}
	grant := github.Permissions(false)
	grant["repository_hooks"] = "read"
	w.ok(w.sim.Grant("ada", grant))
	w.ok(w.sim.AddHook(full, "https://chat.example.org/"))
	if f := look(); !f.OK || !strings.Contains(f.Detail, "none leads to nod") {
		t.Errorf("a hook of somebody else: %+v", f)
	}
	w.ok(w.sim.AddHook(full, "https://nod.example.org/webhooks/github/"))
	if f := look(); f.OK || !strings.Contains(f.Hint, "/ada/web/settings/hooks") {
		t.Errorf("got %+v", f)
	}
}

// R18: a permission that the App asks for was not accepted for the installation.
func TestR18DoctorNamesThePermissionAndThePage(t *testing.T) {
	w := newWorld(t)
	grant := github.Permissions(false)
	delete(grant, "checks")
	w.ok(w.sim.Grant("ada", grant))
	w.ok(w.sim.SetRules(full, "nod/", "creation"))
	found := map[string]github.Finding{}
	for _, f := range w.client.Inspect(w.Context(), "", []github.Inspected{{Repo: w.repo(), Sign: nod.SignSSH}}) {
		found[f.What] = f
	}
	if f := found["installation for "+full]; f.OK || f.Detail != "lacks checks: write" || !strings.Contains(f.Hint, "/settings/installations/") {
		t.Errorf("got %+v", f)
	}
	if f := found["permissions of the App"]; !f.OK {
		t.Errorf("the App asks for it: %+v", f)
	}
	if f := found["pushes to "+full]; f.OK || !strings.Contains(f.Detail, "may not be created") {
		t.Errorf("rules: %+v", f)
	}
}
