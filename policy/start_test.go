package policy_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nod"
	"nod/policy"
)

func TestStartMatrix(t *testing.T) {
	for name, tc := range map[string]struct {
		facts     policy.StartFacts
		want      policy.Mode
		untrusted bool
	}{
		"owner labels an owner's issue":   {policy.StartFacts{Labeller: olga, Author: olga}, policy.Auto, false},
		"writer labels a writer's issue":  {policy.StartFacts{Labeller: wim, Author: wim, Editor: olga, Commenters: []nod.Standing{olga, wim}}, policy.Auto, false},
		"triager labels a writer's issue": {policy.StartFacts{Labeller: tess, Author: wim}, policy.Ask, false},
		"bot labels a writer's issue":     {policy.StartFacts{Labeller: robot, Author: wim}, policy.Ask, false},
		"outsider's issue":                {policy.StartFacts{Labeller: olga, Author: otto}, policy.Ask, true},
		"triager's issue":                 {policy.StartFacts{Labeller: olga, Author: tess}, policy.Ask, true},
		"bot's issue":                     {policy.StartFacts{Labeller: olga, Author: robot}, policy.Ask, true},
		"edited by an outsider":           {policy.StartFacts{Labeller: olga, Author: olga, Editor: otto}, policy.Ask, true},
		"outsider's comment":              {policy.StartFacts{Labeller: olga, Author: olga, Commenters: []nod.Standing{wim, otto}}, policy.Ask, true},
		"untrusted before":                {policy.StartFacts{Labeller: olga, Author: olga, Untrusted: true}, policy.Ask, true},
		"unknown tier of the author":      {policy.StartFacts{Labeller: olga, Author: blank}, policy.Forbid, true},
		"unknown tier of the labeller":    {policy.StartFacts{Labeller: nod.Standing{}, Author: olga}, policy.Forbid, false},
		"unknown tier of the editor":      {policy.StartFacts{Labeller: olga, Author: olga, Editor: blank}, policy.Forbid, true},
		"nothing known":                   {policy.StartFacts{}, policy.Forbid, true},
		"blocked author":                  {policy.StartFacts{Labeller: olga, Author: otto, Settings: policy.StartSettings{Blocked: []int64{4}}}, policy.Forbid, true},
		"blocked commenter":               {policy.StartFacts{Labeller: olga, Author: olga, Commenters: []nod.Standing{otto}, Settings: policy.StartSettings{Blocked: []int64{4}}}, policy.Forbid, true},
		"settings tighten":                {policy.StartFacts{Labeller: olga, Author: otto, Settings: policy.StartSettings{Tiers: map[nod.Tier]policy.Mode{nod.Outsider: policy.Forbid}}}, policy.Forbid, true},
		"settings do not loosen":          {policy.StartFacts{Labeller: olga, Author: otto, Settings: policy.StartSettings{Tiers: map[nod.Tier]policy.Mode{nod.Outsider: policy.Auto}}}, policy.Ask, true},
		"unknown mode in settings":        {policy.StartFacts{Labeller: olga, Author: olga, Settings: policy.StartSettings{Tiers: map[nod.Tier]policy.Mode{nod.Owner: "yes"}}}, policy.Forbid, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := policy.Start(tc.facts)
			if v.Mode != tc.want || v.Untrusted != tc.untrusted {
				t.Errorf("%s untrusted=%v, want %s untrusted=%v\n%s", v.Mode, v.Untrusted, tc.want, tc.untrusted, v.Because)
			}
		})
	}
}

// R06: a tier found by other means does not make a bot a person.
func TestBotNeverStartsAnythingAlone(t *testing.T) {
	promoted := robot
	promoted.Tier = nod.Owner
	if v := policy.Start(policy.StartFacts{Labeller: promoted, Author: promoted}); v.Mode != policy.Ask || !v.Untrusted {
		t.Errorf("%s\n%s", v.Mode, v.Because)
	}
	if v := policy.Command(policy.CommandSettings{}, nod.VerbRun, promoted); v.Mode != policy.Forbid {
		t.Errorf("%s\n%s", v.Mode, v.Because)
	}
}

func TestStartExplanations(t *testing.T) {
	f := policy.StartFacts{Repo: repo, Issue: 12, Labeller: wim, Author: otto, Editor: wim, Commenters: []nod.Standing{robot, olga, robot}}
	golden(t, "start_ask.txt", policy.Start(f).Because.String())
	f.Settings.Blocked = []int64{4}
	golden(t, "start_blocked.txt", policy.Start(f).Because.String())
	golden(t, "start_auto.txt", policy.Start(policy.StartFacts{Repo: repo, Issue: 12, Labeller: olga, Author: wim}).Because.String())

	raw, err := json.MarshalIndent(policy.Start(f), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "start_blocked.json", string(raw)+"\n")
	var back policy.Verdict
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(policy.Start(f), back); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestExplanationsHoldNoControlCharacters(t *testing.T) {
	hostile := person(9, "e\x1b[2Jve\u202e\n  auto  forged", nod.Outsider, "because\r\nyes")
	s := policy.Start(policy.StartFacts{Repo: repo, Labeller: hostile, Author: hostile}).Because.String()
	for _, r := range s {
		if r < ' ' && r != '\n' || r == '\u202e' {
			t.Fatalf("%q", s)
		}
	}
	if n := len(slices.Collect(lines(s))); n != 3 {
		t.Fatalf("%d lines: %q", n, s)
	}
}

// tiers by falling trust; those of one rank are not compared.
var tiers = []nod.Tier{nod.Owner, nod.Writer, nod.Triager, nod.Outsider, nod.Bot, "", "superuser"}

// trust orders tiers for the properties: what nod does not know is lowest.
func trust(t nod.Tier) int {
	switch t {
	case nod.Owner, nod.Writer, nod.Triager:
		return t.Rank() + 1
	case nod.Outsider, nod.Bot:
		return 1
	}
	return 0
}

func anyone(t *rapid.T, label string) nod.Standing {
	return person(rapid.Int64Range(1, 9).Draw(t, label+" id"), "x", rapid.SampledFrom(tiers).Draw(t, label), "")
}

func anyFacts(t *rapid.T) policy.StartFacts {
	f := policy.StartFacts{Repo: repo, Issue: 1, Labeller: anyone(t, "labeller"), Author: anyone(t, "author"), Untrusted: rapid.Bool().Draw(t, "untrusted")}
	if rapid.Bool().Draw(t, "edited") {
		f.Editor = anyone(t, "editor")
	}
	for range rapid.IntRange(0, 4).Draw(t, "comments") {
		f.Commenters = append(f.Commenters, anyone(t, "commenter"))
	}
	f.Settings.Tiers = map[nod.Tier]policy.Mode{}
	for range rapid.IntRange(0, 3).Draw(t, "settings") {
		f.Settings.Tiers[rapid.SampledFrom(tiers).Draw(t, "tier")] = rapid.SampledFrom([]policy.Mode{policy.Auto, policy.Ask, policy.Forbid, "", "x"}).Draw(t, "mode")
	}
	f.Settings.Blocked = rapid.SliceOfN(rapid.Int64Range(1, 9), 0, 1).Draw(t, "blocked")
	return f
}

func TestLowerTierNeverGains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFacts(t)
		f.Settings.Tiers = nil // settings may treat tiers as they like, within the floors
		before := policy.Start(f)
		who := rapid.SampledFrom([]*nod.Standing{&f.Labeller, &f.Author}).Draw(t, "who")
		to := rapid.SampledFrom(tiers).Draw(t, "to")
		if trust(to) > trust(who.Tier) {
			return
		}
		*who = person(who.Actor.ID, "x", to, "")
		after := policy.Start(f)
		if after.Mode.LooserThan(before.Mode) {
			t.Fatalf("was %s\n%s\nis %s\n%s", before.Mode, before.Because, after.Mode, after.Because)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		verb := rapid.SampledFrom(append(policy.Verbs(), "dance")).Draw(t, "verb")
		s := policy.CommandSettings{Lowest: map[string]nod.Tier{verb: rapid.SampledFrom(tiers).Draw(t, "lowest")}}
		if rapid.Bool().Draw(t, "default") {
			s.Lowest = nil
		}
		high, low := rapid.SampledFrom(tiers).Draw(t, "high"), rapid.SampledFrom(tiers).Draw(t, "low")
		if trust(low) > trust(high) || high == nod.Bot && low == nod.Outsider {
			return
		}
		before, after := policy.Command(s, verb, person(1, "x", high, "")), policy.Command(s, verb, person(1, "x", low, ""))
		if after.Mode.LooserThan(before.Mode) {
			t.Fatalf("%s gains over %s\n%s%s", low, high, before.Because, after.Because)
		}
	})
}

func TestOrderIsIrrelevant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFacts(t)
		want := policy.Start(f)
		f.Commenters = rapid.Permutation(f.Commenters).Draw(t, "order")
		if len(f.Commenters) > 0 && rapid.Bool().Draw(t, "twice") {
			f.Commenters = append(f.Commenters, f.Commenters[0])
		}
		if diff := cmp.Diff(want, policy.Start(f)); diff != "" {
			t.Fatalf("-before +after\n%s", diff)
		}
	})
}

func TestUntrustedMarkIsNeverRemoved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFacts(t)
		before := policy.Start(f)
		f.Commenters = append(f.Commenters, anyone(t, "one more"))
		if after := policy.Start(f); before.Untrusted && !after.Untrusted || after.Mode.LooserThan(before.Mode) {
			t.Fatalf("more words made it better\n%s%s", before.Because, after.Because)
		}
		f.Untrusted = true
		if v := policy.Start(f); !v.Untrusted || v.Allows() {
			t.Fatalf("the mark was lost\n%s", v.Because)
		}
		if !before.Mark(true) || before.Mark(false) != before.Untrusted {
			t.Fatal("Mark lost a mark")
		}
	})
}

func TestUnknownDenies(t *testing.T) {
	table := compile(t, policy.Settings{}).Table
	for name, v := range map[string]policy.Verdict{
		"action":         policy.Action(table, "sell", false),
		"no table":       policy.Action(nil, policy.ActionComment, false),
		"empty table":    policy.Action(&policy.Table{}, policy.ActionComment, false),
		"verb":           policy.Command(policy.CommandSettings{}, "dance", olga),
		"tier":           policy.Command(policy.CommandSettings{}, nod.VerbStatus, blank),
		"lowest tier":    policy.Command(policy.CommandSettings{Lowest: map[string]nod.Tier{nod.VerbStatus: "anyone"}}, nod.VerbStatus, olga),
		"tool preset":    policy.Tool(policy.ToolRules{Preset: "yolo"}, "Read", json.RawMessage(`{}`)),
		"starting tiers": policy.Start(policy.StartFacts{Labeller: blank, Author: blank}),
	} {
		if v.Mode != policy.Forbid || v.Allows() || v.Asks() {
			t.Errorf("%s: %s\n%s", name, v.Mode, v.Because)
		}
	}
	if (policy.Verdict{}).Allows() || (policy.Verdict{Mode: "yes"}).Allows() || policy.Mode("yes").LooserThan(policy.Forbid) {
		t.Error("an unknown mode permits")
	}
}

func TestCommandsByTier(t *testing.T) {
	type row map[string]policy.Mode
	const a, q, f = policy.Auto, policy.Ask, policy.Forbid
	all := func(m policy.Mode) row {
		return row{"run": m, "retry": m, "cancel": m, "say": m, "agent": m, "status": m, "help": m}
	}
	for _, tc := range []struct {
		by   nod.Standing
		want row
	}{
		{olga, all(a)},
		{wim, all(a)},
		{tess, row{"run": q, "retry": q, "cancel": a, "say": f, "agent": f, "status": a, "help": a}},
		{otto, row{"run": f, "retry": f, "cancel": f, "say": f, "agent": f, "status": a, "help": a}},
		{robot, all(f)},
	} {
		for _, verb := range policy.Verbs() {
			if v := policy.Command(policy.CommandSettings{}, verb, tc.by); v.Mode != tc.want[verb] {
				t.Errorf("%s by %s: %s, want %s", verb, tc.by.Tier, v.Mode, tc.want[verb])
			}
		}
	}
	if v := policy.Command(policy.CommandSettings{Blocked: []int64{1}}, nod.VerbStatus, olga); v.Mode != policy.Forbid {
		t.Error("a blocked account was obeyed")
	}
	s := policy.CommandSettings{Lowest: map[string]nod.Tier{nod.VerbRun: nod.Owner, nod.VerbSay: nod.Outsider}}
	if v := policy.Command(s, nod.VerbRun, wim); v.Mode != policy.Forbid {
		t.Error("the configured tier was ignored")
	}
	if v := policy.Command(s, nod.VerbSay, otto); v.Mode != policy.Forbid {
		t.Error("the configuration loosened say")
	}
	golden(t, "command_say_outsider.txt", policy.Command(policy.CommandSettings{}, nod.VerbSay, otto).Because.String())
	golden(t, "command_run_triager.txt", policy.Command(policy.CommandSettings{}, nod.VerbRun, tess).Because.String())
}
