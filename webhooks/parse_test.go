package webhooks_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nod"
	"nod/webhooks"
)

func TestOccurrences(t *testing.T) {
	site := nod.Repo{Host: "github.com", Owner: "Acme", Name: "Site"}
	user := func(id int64, login string) nod.Actor {
		return nod.Actor{Kind: nod.ActorGitHub, Host: "github.com", ID: id, Login: login}
	}
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for name, want := range map[string]nod.Occurrence{
		"issues.labeled":                    {Kind: nod.IssueLabeled, Repo: site, Issue: 12, Label: "Nod", Sender: user(21, "wim"), At: at("2026-03-01T10:00:05Z")},
		"issues.unlabeled":                  {Kind: nod.IssueUnlabeled, Repo: site, Issue: 12, Label: "Nod", Sender: user(21, "wim"), At: at("2026-03-01T10:01:00Z")},
		"issues.closed":                     {Kind: nod.IssueClosed, Repo: site, Issue: 12, Sender: user(21, "wim"), At: at("2026-03-01T11:00:00Z")},
		"issue_comment.created":             {Kind: nod.CommentCreated, Repo: site, Issue: 12, CommentID: 9001, CommentBody: "/nod status", Sender: user(31, "otto"), At: at("2026-03-01T10:30:00Z")},
		"issue_comment.created.pull":        {Kind: nod.CommentCreated, Repo: site, Issue: 13, CommentID: 9002, CommentBody: "/nod status", Sender: user(31, "otto"), At: at("2026-03-01T10:30:00Z")},
		"pull_request.closed":               {Kind: nod.PullRequestClosed, Repo: site, Issue: 13, Merged: true, HeadRef: "nod/t1", Sender: user(21, "wim"), At: at("2026-03-02T08:00:00Z")},
		"installation.created":              {Kind: nod.InstallationChanged, Repos: []nod.Repo{site}, Sender: user(20, "olga"), At: at("2026-02-01T00:00:00Z")},
		"installation_repositories.removed": {Kind: nod.InstallationChanged, Removed: []nod.Repo{site}, Sender: user(20, "olga"), At: at("2026-03-01T00:00:00Z")},
	} {
		t.Run(name, func(t *testing.T) {
			want.Installation = 4242
			got, err := webhooks.Parser("github.com")(stored(name, payload(t, name)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// stored is the row that event.action and payload make.
func stored(name string, payload []byte) nod.Delivery {
	event, rest, _ := strings.Cut(name, ".")
	action, _, _ := strings.Cut(rest, ".")
	return nod.Delivery{GUID: guid, Event: event, Action: action, Payload: payload, ReceivedAt: now}
}

// edit returns payload with the value at a dotted path replaced; nil removes it.
func edit(t *testing.T, payload []byte, path string, value any) []byte {
	t.Helper()
	var top map[string]any
	if err := json.Unmarshal(payload, &top); err != nil {
		t.Fatal(err)
	}
	at := top
	keys := strings.Split(path, ".")
	for _, k := range keys[:len(keys)-1] {
		at = at[k].(map[string]any)
	}
	last := keys[len(keys)-1]
	at[last] = value
	if value == nil {
		delete(at, last)
	}
	out, err := json.Marshal(top)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestParseErrorsNameWhatAndWhere(t *testing.T) {
	for name, tc := range map[string]struct {
		payload, path string
		value         any
		want          string
	}{
		"no label":        {"issues.labeled", "label", nil, "issues.labeled: no label name"},
		"no number":       {"issues.labeled", "issue.number", nil, "issues.labeled: no issue number"},
		"no issue":        {"issues.closed", "issue", nil, "issues.closed: no issue number"},
		"no repository":   {"issues.unlabeled", "repository", nil, "issues.unlabeled: no repository"},
		"strange name":    {"issues.unlabeled", "repository.full_name", "a/b/c", "issues.unlabeled: no repository"},
		"no installation": {"issue_comment.created", "installation", nil, "issue_comment.created: no installation"},
		"no comment":      {"issue_comment.created", "comment", nil, "issue_comment.created: no comment id"},
		"other action":    {"issue_comment.created", "action", "edited", "issue_comment.created: the payload has the action edited"},
		"no pull request": {"pull_request.closed", "repository", nil, "pull_request.closed: no repository"},
		"wrong type":      {"issues.labeled", "issue", "twelve", "issues.labeled: the payload does not fit the event"},
		"nameless repository": {"installation.created", "repositories", []any{map[string]any{"id": 1}},
			"installation.created: a repository without a name"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := webhooks.Parser("github.com")(stored(tc.payload, edit(t, payload(t, tc.payload), tc.path, tc.value)))
			if o != nil || nod.CodeOf(err) != nod.Invalid || !strings.HasPrefix(nod.PublicMessage(err), tc.want) {
				t.Errorf("got %v, %v; want %s", o, err, tc.want)
			}
		})
	}
}

func TestWhatNodHasNothingToDoWithIsIgnored(t *testing.T) {
	for _, name := range []string{"issues.opened", "issues.edited", "issue_comment.edited", "issue_comment.deleted", "pull_request.opened", "push", "star.created", "no_such_event.x", ""} {
		if o, err := webhooks.Parser("github.com")(stored(name, []byte(`{}`))); o != nil || err != nil {
			t.Errorf("%s: %v, %v", name, o, err)
		}
	}
}

// R06: what an account is, GitHub's type says.
func TestSenderIsABotByTypeOnly(t *testing.T) {
	for name, tc := range map[string]struct {
		sender any
		want   nod.Actor
	}{
		"user":        {map[string]any{"id": 5, "login": "x[bot]", "type": "User"}, nod.Actor{ID: 5, Login: "x[bot]"}},
		"no suffix":   {map[string]any{"id": 6, "login": "Copilot", "type": "Bot"}, nod.Actor{ID: 6, Login: "Copilot", Bot: true}},
		"no type":     {map[string]any{"id": 7, "login": "x"}, nod.Actor{ID: 7, Login: "x", Bot: true}},
		"new type":    {map[string]any{"id": 8, "login": "x", "type": "Mannequin"}, nod.Actor{ID: 8, Login: "x", Bot: true}},
		"missing":     {nil, nod.Actor{Login: "ghost"}},
		"without id":  {map[string]any{"login": "olga", "type": "User"}, nod.Actor{Login: "ghost"}},
		"negative id": {map[string]any{"id": -1, "login": "olga", "type": "User"}, nod.Actor{Login: "ghost"}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.want.Kind, tc.want.Host = nod.ActorGitHub, "github.com"
			o, err := webhooks.Parser("github.com")(stored("issues.labeled", edit(t, payload(t, "issues.labeled"), "sender", tc.sender)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, o.Sender); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestBranchOfAForkIsNotTakenForOurs(t *testing.T) {
	for _, repo := range []any{nil, map[string]any{"id": 78, "full_name": "Eve/Site"}} {
		o, err := webhooks.Parser("github.com")(stored("pull_request.closed", edit(t, payload(t, "pull_request.closed"), "pull_request.head.repo", repo)))
		if err != nil || o.HeadRef != "" {
			t.Errorf("%v: %v, %v", repo, o, err)
		}
	}
}

func TestMissingTimeIsTheTimeOfArrival(t *testing.T) {
	o, err := webhooks.Parser("github.com")(stored("issues.labeled", edit(t, payload(t, "issues.labeled"), "issue.updated_at", nil)))
	if err != nil || !o.At.Equal(now) {
		t.Errorf("%v, %v", o, err)
	}
}

func FuzzPayload(f *testing.F) {
	for _, name := range []string{"issues.labeled", "issues.closed", "issue_comment.created", "pull_request.closed", "installation.created", "installation_repositories.removed"} {
		f.Add(name, payload(f, name))
	}
	f.Add("issues.labeled", []byte(`{"action":"labeled","issue":null,"sender":null,"label":[],"installation":{"id":1e400}}`))
	f.Fuzz(func(t *testing.T, name string, body []byte) {
		rc, s, _ := receiver(t, nil)
		event, _, _ := strings.Cut(name, ".")
		w := send(rc, delivery(guid, event, body))
		if (w.Code == 202) != (len(s.rows) == 1) || w.Code >= 500 {
			t.Fatalf("answered %d with %d rows", w.Code, len(s.rows))
		}
		rows := append(s.rows, stored(name, body))
		for _, d := range rows {
			o, err := webhooks.Parser("github.com")(d)
			switch {
			case err != nil && (o != nil || nod.CodeOf(err) != nod.Invalid):
				t.Fatalf("%v with %v", o, err)
			case o != nil && (o.Installation <= 0 || o.Sender.Kind != nod.ActorGitHub || o.At.IsZero()):
				t.Fatalf("incomplete: %+v", o)
			case o != nil && o.Kind != nod.InstallationChanged && (o.Issue <= 0 || o.Repo.Owner == "" || o.Repo.Name == ""):
				t.Fatalf("nowhere: %+v", o)
			}
		}
		if len(s.rows) == 1 && (s.rows[0].Order == "" || s.rows[0].SemanticKey == "") {
			t.Fatalf("no keys: %+v", s.rows[0])
		}
	})
}
