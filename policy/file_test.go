package policy_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"nod/policy"
)

func TestFileToolsAreJudgedByWhereTheirPathsLead(t *testing.T) {
	links := policy.Links{"/workspace/link": "/etc/passwd", "/workspace/in": "/workspace/a", "/workspace/loop": ""}
	for _, c := range []struct {
		tool, input string
		auto        bool
	}{
		{"Read", `{"file_path":"/workspace/a.go"}`, true},
		{"Read", `{"file_path":"a/../b.go","limit":5}`, true},
		{"Read", `{"file_path":"/workspace/../etc/passwd"}`, false},
		{"Read", `{"file_path":"../home/agent/.claude.json"}`, false},
		{"Read", `{"file_path":"/workspaces/a"}`, false},
		{"Read", `{"file_path":"/proc/self/environ"}`, false},
		{"Read", `{"file_path":"~/.bashrc"}`, false},
		{"Read", `{"file_path":["a"]}`, false},
		{"Read", `{"file_path":"a\u0000b"}`, false},
		{"Read", `{"file_path":"link"}`, false},
		{"Read", `{"file_path":"/workspace/loop"}`, false},
		{"Read", `{"file_path":"./in"}`, true},
		{"NotebookRead", `{"notebook_path":"/tmp/a.ipynb"}`, false},
		{"Grep", `{"pattern":"../etc","path":"/workspace/src"}`, true},
		{"Grep", `{"pattern":"x","path":"/"}`, false},
		{"Grep", `{"pattern":"x","glob":"*.go"}`, true},
		{"Grep", `{"pattern":"x","glob":"../**"}`, false},
		{"Glob", `{"pattern":"**/*.go"}`, true},
		{"Glob", `{"pattern":"/etc/*"}`, false},
		{"Glob", `{"pattern":"*/../../etc/*"}`, false},
		{"Glob", `{"pattern":"*.md","path":"/home"}`, false},
		{"LS", `{"path":"/workspace"}`, true},
		{"TodoWrite", `{"todos":[]}`, true},
	} {
		v := policy.ToolAt(balanced, c.tool, json.RawMessage(c.input), links)
		if v.Allows() != c.auto || !c.auto && !v.Asks() {
			t.Errorf("%s %s: %s\n%s", c.tool, c.input, v.Mode, v.Because)
		}
		if in := policy.ToolAt(policy.ToolRules{Preset: policy.InBox}, c.tool, json.RawMessage(c.input), links); !in.Allows() {
			t.Errorf("in-box asks about %s %s", c.tool, c.input)
		}
	}
	if got := policy.Paths("Grep", json.RawMessage(`{"pattern":"x","path":"a/./b","glob":"c/*.go"}`)); !slices.Equal(got, []string{"/workspace/a/b", "/workspace/a/b/c"}) {
		t.Errorf("paths %q", got)
	}
	if got := policy.Paths("Bash", json.RawMessage(`{"path":"x"}`)); got != nil {
		t.Errorf("paths of a command %q", got)
	}
}

// TestNoSpellingOfAPathLeavesTheWorkspace: however a path is put together, what goes on
// by itself names something below the workspace.
func TestNoSpellingOfAPathLeavesTheWorkspace(t *testing.T) {
	part := rapid.SampledFrom([]string{"..", ".", "a", "workspace", "etc", "", "/", "*", "~", "{..,a}"})
	rapid.Check(t, func(t *rapid.T) {
		p := strings.Join(rapid.SliceOfN(part, 1, 6).Draw(t, "parts"), "/")
		raw, err := json.Marshal(map[string]string{"file_path": p})
		if err != nil {
			t.Fatal(err)
		}
		if !policy.Tool(balanced, "Read", raw).Allows() {
			return
		}
		for _, got := range policy.Paths("Read", raw) {
			if got != "/workspace" && !strings.HasPrefix(got, "/workspace/") || strings.Contains(got, "..") && !strings.Contains(got, "{..") {
				t.Fatalf("%q reads %q", p, got)
			}
		}
	})
}
