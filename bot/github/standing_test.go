package github_test

import (
	"net/http"
	"strings"
	"testing"

	"nod"
	"nod/bot"
	"nod/bot/github"
	"nod/bot/github/githubsim"
)

var (
	_ bot.GitHub    = (*github.Client)(nil)
	_ bot.Performer = github.StatusComments{}
	_ bot.Performer = github.SwapLabels{}
	_ bot.Performer = github.OpenPulls{}
)

func TestStandingFollowsCollaboratorPermission(t *testing.T) {
	w := newWorld(t)
	for login, want := range map[string]nod.Tier{"ada": nod.Owner, "wil": nod.Writer, "tri": nod.Triager, "out": nod.Outsider} {
		got := w.client.Standing(t.Context(), w.task.Installation, w.repo(), w.actor(login))
		if got.Tier != want || got.Reason == "" || got.Actor.ID != w.users[login].ID {
			t.Errorf("%s: got %+v, want tier %s with a reason", login, got, want)
		}
	}
}

// R06: a stranger's App, and an account without the suffix that is one all the same.
func TestR06BotsAreNeverTrustedBySuffix(t *testing.T) {
	w := newWorld(t)
	for _, login := range []string{"evil[bot]", "Copilot"} {
		u, err := w.sim.CreateBot(login)
		w.ok(err)
		w.users[login] = u
		w.ok(w.sim.SetPermission(full, login, "write"))
		if got := w.client.Standing(t.Context(), w.task.Installation, w.repo(), w.actor(login)); got.Tier != nod.Bot || !got.Actor.Bot {
			t.Errorf("%s with write: got %+v, want the tier of bots", login, got)
		}
	}
	a := w.actor("wil")
	a.Bot = true // a webhook said so
	if got := w.client.Standing(t.Context(), w.task.Installation, w.repo(), a); got.Tier != nod.Bot {
		t.Errorf("an account that a webhook calls a bot: got %+v", got)
	}
	a = w.actor("ada")
	a.Bot = true
	if got := w.client.Standing(t.Context(), w.task.Installation, w.repo(), a); got.Tier != nod.Bot {
		t.Errorf("an owner that is a bot: got %+v", got)
	}
	gone := nod.Actor{Kind: nod.ActorGitHub, Host: "github.com", ID: 77, Login: "no-such-user"}
	if got := w.client.Standing(t.Context(), w.task.Installation, w.repo(), gone); got.Tier != nod.Outsider || !strings.Contains(got.Reason, "404") {
		t.Errorf("unknown account: got %+v", got)
	}
}

// R07: GitHub calls the writer NONE in every association; the permission decides,
// and 404 and 5xx are told apart in the reason.
func TestR07AssociationIsNoEvidenceAndFailureIsOutsider(t *testing.T) {
	w := newWorld(t)
	if got := w.client.Standing(t.Context(), w.task.Installation, w.repo(), w.actor("wil")); got.Tier != nod.Writer {
		t.Errorf("got %+v", got)
	}
	reasons := map[string]bool{}
	for _, status := range []int{http.StatusNotFound, http.StatusInternalServerError, http.StatusForbidden} {
		w.sim.Inject(githubsim.Fault{Path: "/collaborators/", Status: status})
		got := w.client.Standing(t.Context(), w.task.Installation, w.repo(), w.actor("wil"))
		if got.Tier != nod.Outsider || reasons[got.Reason] {
			t.Errorf("%d: got %+v, want an outsider with a reason of its own", status, got)
		}
		reasons[got.Reason] = true
	}
}

func TestStandingIsBoundToTheNumericID(t *testing.T) {
	w := newWorld(t)
	before := w.actor("wil")
	w.ok(w.sim.RenameUser("wil", "wilhelmina"))
	if got := w.client.Standing(t.Context(), w.task.Installation, w.repo(), before); got.Tier != nod.Outsider {
		t.Errorf("a login that is gone: got %+v", got)
	}
	squatter, err := w.sim.CreateUser("wil")
	w.ok(err)
	w.ok(w.sim.SetPermission(full, "wil", "admin"))
	if got := w.client.Standing(t.Context(), w.task.Installation, w.repo(), before); got.Tier != nod.Outsider || !strings.Contains(got.Reason, "another account") {
		t.Errorf("a login that somebody else took (%d): got %+v", squatter.ID, got)
	}
	before.Login = "" // by id alone the account is still found
	if got := w.client.Standing(t.Context(), w.task.Installation, w.repo(), before); got.Tier != nod.Writer || got.Actor.Login != "wilhelmina" {
		t.Errorf("by id: got %+v", got)
	}
}

// R08: every base role and custom ones built on them.
func TestR08RolesCountByTheirBase(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name, base string
		want       nod.Tier
	}{
		{"none", "none", nod.Outsider}, {"read", "read", nod.Outsider}, {"triage", "triage", nod.Triager},
		{"write", "write", nod.Writer}, {"maintain", "maintain", nod.Writer}, {"admin", "admin", nod.Writer},
		{"release captain", "maintain", nod.Writer}, {"community hero", "triage", nod.Triager}, {"admin of nothing", "read", nod.Outsider},
	} {
		w.ok(w.sim.SetCustomRole(full, "out", c.name, c.base))
		got := w.client.Standing(t.Context(), w.task.Installation, w.repo(), w.actor("out"))
		if got.Tier != c.want || !strings.Contains(got.Reason, c.name) {
			t.Errorf("role %q on %s: got %+v, want %s", c.name, c.base, got, c.want)
		}
	}
}

func TestStandingRefusesWhatIsNotAnAccountHere(t *testing.T) {
	w := newWorld(t)
	before := len(w.sim.Requests())
	for name, a := range map[string]nod.Actor{
		"zero":         {},
		"other host":   {Kind: nod.ActorGitHub, Host: "git.example", ID: w.users["ada"].ID, Login: "ada"},
		"passkey":      {Kind: nod.ActorPasskey, ID: w.users["ada"].ID},
		"ghost":        {Kind: nod.ActorGitHub, Host: "github.com"},
		"hostile name": {Kind: nod.ActorGitHub, Host: "github.com", ID: 5, Login: "../../../user"},
	} {
		if got := w.client.Standing(t.Context(), w.task.Installation, w.repo(), a); got.Tier != nod.Outsider || got.Reason == "" {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if n := len(w.sim.Requests()); n != before {
		t.Errorf("%d requests were made for accounts that cannot be asked about", n-before)
	}
}
