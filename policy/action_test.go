package policy_test

import (
	"iter"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"nod"
	"nod/policy"
)

func lines(s string) iter.Seq[string] { return strings.SplitSeq(strings.TrimSuffix(s, "\n"), "\n") }

func TestActionTableOfEachPreset(t *testing.T) {
	var b strings.Builder
	for _, preset := range []string{"prototype", "integration", "published"} {
		table := compile(t, policy.Settings{Preset: preset}).Table
		for _, untrusted := range []bool{false, true} {
			b.WriteString(preset)
			if untrusted {
				b.WriteString(", untrusted")
			}
			b.WriteString("\n")
			for _, a := range policy.Actions() {
				b.WriteString("  " + string(a) + ": " + string(policy.Action(table, a, untrusted).Mode) + "\n")
			}
		}
	}
	golden(t, "actions.txt", b.String())
	golden(t, "action_untrusted.txt", policy.Action(compile(t, policy.Settings{Actions: map[string]string{"comment": "auto"}}).Table, policy.ActionComment, true).Because.String())
}

// floor is what no setting and no preset may loosen, written down a second time.
var floor = map[policy.ActionName]policy.Mode{
	policy.ActionPush: policy.Ask, policy.ActionPushIntegration: policy.Ask, policy.ActionMerge: policy.Forbid, policy.ActionTag: policy.Forbid,
	policy.ActionRelease: policy.Forbid, policy.ActionDeploy: policy.Forbid, policy.ActionPushDefaultBranch: policy.Forbid, policy.ActionForcePush: policy.Forbid,
}

func TestFloorsAreNeverLoosenedBySettings(t *testing.T) {
	names := append(policy.Actions(), "sell")
	rapid.Check(t, func(t *rapid.T) {
		s := policy.Settings{
			Preset:  rapid.SampledFrom([]string{"", "prototype", "integration", "published", "loose"}).Draw(t, "preset"),
			Tools:   rapid.SampledFrom([]string{"", "careful", "balanced", "in-box", "yolo"}).Draw(t, "tools"),
			Actions: map[string]string{}, Start: map[string]string{}, Commands: map[string]string{},
		}
		mode := rapid.SampledFrom([]string{"auto", "ask", "forbid", "", "Auto"})
		for range rapid.IntRange(0, 2).Draw(t, "actions") {
			s.Actions[string(rapid.SampledFrom(names).Draw(t, "action"))] = mode.Draw(t, "mode")
		}
		for range rapid.IntRange(0, 1).Draw(t, "start") {
			s.Start[string(rapid.SampledFrom(tiers).Draw(t, "tier"))] = mode.Draw(t, "mode")
		}
		for range rapid.IntRange(0, 1).Draw(t, "commands") {
			s.Commands[rapid.SampledFrom(policy.Verbs()).Draw(t, "verb")] = string(rapid.SampledFrom(tiers).Draw(t, "lowest"))
		}
		r, err := policy.Compile(s)
		if err != nil {
			if nod.CodeOf(err) != nod.Invalid {
				t.Fatalf("not Invalid: %v", err)
			}
			r.Table = nil
		}
		for _, a := range policy.Actions() {
			trusted, tainted := policy.Action(r.Table, a, false), policy.Action(r.Table, a, true)
			if least, ok := floor[a]; ok && trusted.Mode.LooserThan(least) {
				t.Fatalf("%s: %s", a, trusted.Because)
			}
			if tainted.Allows() || tainted.Mode.LooserThan(trusted.Mode) || !tainted.Untrusted {
				t.Fatalf("untrusted %s: %s", a, tainted.Because)
			}
			if set, ok := s.Actions[string(a)]; ok && err == nil && trusted.Mode.LooserThan(policy.Mode(set)) {
				t.Fatalf("%s is looser than configured: %s", a, trusted.Because)
			}
		}
		if v := policy.Start(policy.StartFacts{Labeller: olga, Author: otto, Settings: r.Start}); v.Allows() {
			t.Fatalf("an outsider's issue starts alone: %s", v.Because)
		}
		for _, verb := range []string{nod.VerbRun, nod.VerbRetry, nod.VerbCancel, nod.VerbSay, nod.VerbAgent} {
			if v := policy.Command(r.Commands, verb, otto); v.Mode != policy.Forbid {
				t.Fatalf("an outsider commands: %s", v.Because)
			}
		}
	})
}

func TestPresetsAreOrdered(t *testing.T) {
	order := []policy.PresetName{policy.Published, policy.Integration, policy.Prototype, "unheard-of"}
	for i, a := range order {
		for j, b := range order {
			if a.LooserThan(b) != (i > j) {
				t.Errorf("%s looser than %s: %v", a, b, a.LooserThan(b))
			}
			want := order[min(i, j)]
			if want == "unheard-of" {
				want = policy.Published
			}
			if got := policy.Applies(a, b); got != want {
				t.Errorf("started %s, configured %s: %s", a, b, got)
			}
		}
	}
	if p, ok := policy.Published.Rules(); !ok || p.Tools != policy.Careful || p.Delivery != policy.DeliverDefault {
		t.Errorf("published is %+v", p)
	}
	// A looser preset permits nothing less than a stricter one does.
	for i := range 2 {
		strict, loose := compile(t, policy.Settings{Preset: string(order[i])}).Table, compile(t, policy.Settings{Preset: string(order[i+1])}).Table
		for _, a := range policy.Actions() {
			if policy.Action(strict, a, false).Mode.LooserThan(policy.Action(loose, a, false).Mode) {
				t.Errorf("%s is looser under %s", a, order[i])
			}
		}
	}
}

func TestSettingsErrorsNameTheSetting(t *testing.T) {
	for want, s := range map[string]policy.Settings{
		`preset: "loose" is not a preset nod knows`:                       {Preset: "loose"},
		`actions: "sell" is not a action nod knows`:                       {Actions: map[string]string{"sell": "auto"}},
		`actions.merge: ask is looser than the floor, forbid`:             {Actions: map[string]string{"merge": "ask"}},
		`actions.push: auto is looser than the floor, ask`:                {Preset: "prototype", Actions: map[string]string{"push": "auto"}},
		`actions.push_integration_branch: ask is looser than the floor`:   {Actions: map[string]string{"push_integration_branch": "ask"}},
		`actions.comment: "maybe" is not a mode`:                          {Actions: map[string]string{"comment": "maybe"}},
		`start: "everyone" is not a tier nod knows`:                       {Start: map[string]string{"everyone": "ask"}},
		`start.outsider: auto is looser than the floor, ask`:              {Start: map[string]string{"outsider": "auto"}},
		`commands: "dance" is not a command nod knows`:                    {Commands: map[string]string{"dance": "owner"}},
		`commands.run: "bot" is not a tier`:                               {Commands: map[string]string{"run": "bot"}},
		`commands.say: triager is below the floor, writer`:                {Commands: map[string]string{"say": "triager"}},
		`tools: "yolo" is not a tool preset nod knows`:                    {Tools: "yolo"},
		`tools: balanced is looser than preset published takes, careful`:  {Tools: "balanced"},
		`tools: in-box is looser than preset integration takes, balanced`: {Preset: "integration", Tools: "in-box"},
		`allow[1]: is empty`:                                              {Preset: "integration", Allow: []string{"go test *", " "}},
		`allow[0]: "$(x)" is not a plain word`:                            {Allow: []string{"go $(x)"}},
		`allow[0]: allows everything`:                                     {Allow: []string{"*"}},
		`blocked[0]: 0 is not an account id`:                              {Blocked: []int64{0}},
	} {
		r, err := policy.Compile(s)
		if nod.CodeOf(err) != nod.Invalid || !strings.Contains(nod.PublicMessage(err), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if r.Table != nil {
			t.Errorf("%s: a table in spite of an error", want)
		}
	}
}

func FuzzCompile(f *testing.F) {
	f.Add("published", "comment", "ask", "outsider", "forbid", "run", "owner", "careful", "go test *", int64(7))
	f.Add("prototype", "push", "auto", "bot", "auto", "say", "outsider", "in-box", "*", int64(-1))
	f.Fuzz(func(t *testing.T, preset, action, mode, tier, start, verb, lowest, tools, allow string, blocked int64) {
		r, err := policy.Compile(policy.Settings{Preset: preset, Actions: map[string]string{action: mode}, Start: map[string]string{tier: start},
			Commands: map[string]string{verb: lowest}, Tools: tools, Allow: []string{allow}, Blocked: []int64{blocked}})
		if err != nil {
			if nod.CodeOf(err) != nod.Invalid || r.Table != nil {
				t.Fatalf("%v with %v", err, r)
			}
			return
		}
		for a, least := range floor {
			if v := policy.Action(r.Table, a, false); v.Mode.LooserThan(least) {
				t.Fatalf("%s: %s", a, v.Because)
			}
		}
		if v := policy.Start(policy.StartFacts{Labeller: olga, Author: otto, Settings: r.Start}); v.Allows() {
			t.Fatal(v.Because)
		}
		if v := policy.Command(r.Commands, verb, otto); v.Allows() && verb != nod.VerbStatus && verb != nod.VerbHelp {
			t.Fatal(v.Because)
		}
	})
}
