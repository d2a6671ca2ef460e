package github_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"testing"

	"nod/bot/github"
	"nod/bot/github/openapitest"
)

// Every exchange of the set-up is held against GitHub's own description, as the
// exchanges of all other tests here are.
func TestAppIsMadeFromAManifestAndPreparesItsRepositories(t *testing.T) {
	w := newWorld(t)
	watched := openapitest.Watch(t, closedWorld(t), w.base)
	making := github.Making{APIURL: w.base + "/api/v3/", WebURL: w.base, Organization: "ada", Name: "nod-test", PublicURL: "https://nod.example.org",
		Redirect: "http://127.0.0.1:1/made", Webhook: true, HTTP: watched}
	action, manifest, err := making.Form("the-state")
	w.ok(err)
	raw, err := json.Marshal(manifest)
	w.ok(err)
	browser := &http.Client{Transport: closedWorld(t), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := browser.PostForm(action, url.Values{"manifest": {string(raw)}})
	w.ok(err)
	w.ok(res.Body.Close())
	back, err := res.Location()
	w.ok(err)
	if back.Query().Get("state") != "the-state" || back.Host != "127.0.0.1:1" {
		t.Fatalf("led back to %s", back)
	}
	made, err := making.Exchange(t.Context(), back.Query().Get("code"))
	w.ok(err)
	if _, err := making.Exchange(t.Context(), back.Query().Get("code")); err == nil {
		t.Error("a code was good twice")
	}
	if made.Owner.Login != "ada" || made.Owner.ID != w.users["ada"].ID {
		t.Errorf("the App is %+v", made.Owner)
	}
	c, err := github.New(github.Config{APIURL: making.APIURL, WebURL: w.base, AppID: made.ID, PrivateKey: made.PrivateKey,
		Owners: []int64{w.users["ada"].ID}, TriggerLabel: trigger, HTTP: watched})
	w.ok(err)
	where, err := c.Installed(t.Context())
	w.ok(err)
	if len(where) == 0 {
		_, err = w.sim.Install("ada")
		w.ok(err)
		where, err = c.Installed(t.Context())
		w.ok(err)
	}
	var in int64
	for repo, installation := range where {
		if repo.Owner == "ada" && repo.Name == "web" {
			in = installation
		}
	}
	if in == 0 {
		t.Fatalf("installed at %v", where)
	}
	labels := []string{trigger, "nod: running"}
	w.ok(c.EnsureLabels(t.Context(), in, w.repo(), labels...))
	w.ok(c.EnsureLabels(t.Context(), in, w.repo(), labels...)) // they are there
}
