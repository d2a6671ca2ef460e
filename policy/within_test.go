package policy_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"nod"
	"nod/policy"
)

// Whatever the configuration was when a task began and whatever it is now, nothing is
// permitted that both did not permit.
func TestNothingIsLooserThanWhenTheTaskBegan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) policy.Rules {
			preset := rapid.SampledFrom([]string{"published", "integration", "prototype"}).Draw(t, name+" preset")
			s := policy.Settings{Preset: preset, Actions: map[string]string{}, Start: map[string]string{}}
			modes := map[string][]string{"push": {"", "ask", "forbid"}, "open_pull_request": {"", "auto", "ask", "forbid"}, "comment": {"", "auto", "ask", "forbid"},
				"push_integration_branch": {"", "forbid"}}
			tools := []string{"careful"} // those that the preset takes
			switch preset {
			case "integration":
				tools = append(tools, "balanced")
			case "prototype":
				tools = append(tools, "balanced", "in-box")
				modes["push_integration_branch"] = []string{"", "ask", "forbid"}
			}
			for _, a := range slices.Sorted(maps.Keys(modes)) {
				if m := rapid.SampledFrom(modes[a]).Draw(t, name+" "+a); m != "" {
					s.Actions[a] = m
				}
			}
			if m := rapid.SampledFrom([]string{"", "auto", "ask", "forbid"}).Draw(t, name+" start"); m != "" {
				s.Start["writer"] = m
			}
			s.Tools = rapid.SampledFrom(tools).Draw(t, name+" tools")
			if rapid.Bool().Draw(t, name+" allows") {
				s.Allow = []string{"go test *"}
			}
			if rapid.Bool().Draw(t, name+" blocks") {
				s.Blocked = []int64{7}
			}
			r, err := policy.Compile(s)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		began, now := draw("began"), draw("now")
		both := policy.Within(began, now)
		if both.Preset.LooserThan(began.Preset) || both.Preset.LooserThan(now.Preset) {
			t.Errorf("%s of %s and %s", both.Preset, began.Preset, now.Preset)
		}
		same := func(what string, got policy.Verdict, of ...policy.Verdict) {
			t.Helper()
			for _, v := range of {
				if got.Mode.LooserThan(v.Mode) {
					t.Errorf("%s is %s, one of the two says %s", what, got.Mode, v.Mode)
				}
			}
		}
		for _, a := range policy.Actions() {
			same(string(a), policy.Action(both.Table, a, false), policy.Action(began.Table, a, false), policy.Action(now.Table, a, false))
		}
		for _, line := range []string{"ls", "go test ./...", "rm -rf x"} {
			in, err := json.Marshal(map[string]string{"command": line})
			if err != nil {
				t.Fatal(err)
			}
			judge := func(r policy.Rules) policy.Verdict { return policy.Tool(r.Tools, "Bash", in) }
			same(line, judge(both), judge(began), judge(now))
			if began.Tools.Preset == now.Tools.Preset && judge(began).Mode == judge(now).Mode && judge(both).Mode != judge(now).Mode {
				t.Errorf("%s became %s though nothing is stricter", line, judge(both).Mode)
			}
		}
		for _, id := range []int64{1, 7} {
			who := nod.Standing{Actor: nod.Actor{Kind: nod.ActorGitHub, ID: id}, Tier: nod.Writer}
			same("rework", policy.Rework(both.Start, who), policy.Rework(began.Start, who), policy.Rework(now.Start, who))
		}
	})
}

func TestWhatATaskBeganWithIsExplained(t *testing.T) {
	strict, loose := compile(t, policy.Settings{Actions: map[string]string{"push": "forbid"}}), compile(t, policy.Settings{Preset: "prototype", Tools: "in-box"})
	both := policy.Within(strict, loose)
	if v := policy.Action(both.Table, policy.ActionPush, false); v.Allows() || v.Asks() || !strings.Contains(v.Because.String(), "when the task began") {
		t.Errorf("push: %s", v.Because)
	}
	if v := policy.Tool(both.Tools, "Bash", json.RawMessage(`{"command":"make"}`)); !v.Asks() || !strings.Contains(v.Because.String(), "when the task began") {
		t.Errorf("tool: %s", v.Because)
	}
	if slices.Contains(both.Start.Blocked, 7) {
		t.Error("somebody is blocked whom nobody blocked")
	}
}
