package policy_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nod"
	"nod/policy"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: -want +got\n%s", path, diff)
	}
}

var repo = nod.Repo{Host: "github.com", Owner: "acme", Name: "site"}

// person is a user of tier t, or a bot.
func person(id int64, login string, t nod.Tier, reason string) nod.Standing {
	return nod.Standing{Tier: t, Reason: reason,
		Actor: nod.Actor{Kind: nod.ActorGitHub, Host: "github.com", ID: id, Login: login, Bot: t == nod.Bot}}
}

var (
	olga  = person(1, "olga", nod.Owner, "listed by id in the configuration")
	wim   = person(2, "wim", nod.Writer, "has the role maintain")
	tess  = person(3, "tess", nod.Triager, "has the role triage")
	otto  = person(4, "otto", nod.Outsider, "GitHub knows no such collaborator (404)")
	robot = person(5, "some-app[bot]", nod.Bot, "GitHub calls the account a Bot")
	blank = person(6, "blank", "", "")
)

func compile(t *testing.T, s policy.Settings) policy.Rules {
	t.Helper()
	r, err := policy.Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
