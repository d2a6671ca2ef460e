package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// ToolPreset names how an agent's permission prompts are judged.
type ToolPreset string

const (
	Careful  ToolPreset = "careful"  // reading the workspace goes on, all else asks
	Balanced ToolPreset = "balanced" // what is known to only read goes on, all else asks
	InBox    ToolPreset = "in-box"   // whatever stays inside the environment goes on
)

// toolPresets is every tool preset, by looseness.
var toolPresets = map[ToolPreset]int{Careful: 0, Balanced: 1, InBox: 2}

// ToolRules judge permission prompts. Compile makes them; the zero value is Careful.
type ToolRules struct {
	Preset ToolPreset
	allow  [][]string
	// started are those that a task began with; see Within.
	started *ToolRules
}

// InBox reports whether everything goes on that stays in the environment: under r, and
// under what a task began with.
func (r ToolRules) InBox() bool { return r.Preset == InBox && (r.started == nil || r.started.InBox()) }

// shells are the tools whose input is a shell command in "command".
var shells = []string{"Bash", "bash", "shell", "commandExecution"}

// readers are the tools that only read inside the environment, or keep the agent's
// own notes.
var readers = []string{"Read", "Glob", "Grep", "LS", "NotebookRead", "TodoRead", "TodoWrite"}

// notes are tools that only look after the agent's own list or its own commands.
var notes = []string{"TodoRead", "TodoWrite", "TaskOutput", "TaskStop", "BashOutput", "KillShell"}

// beyond are the tools whose work happens outside the environment, or that speak
// to a person.
var beyond = []string{"WebFetch", "WebSearch", "AskUserQuestion", "ExitPlanMode", "EnterPlanMode"}

// Tool judges one permission prompt: tool is its name as the agent gives it,
// input the JSON that would run. What is not understood asks.
func Tool(r ToolRules, tool string, input json.RawMessage) Verdict {
	return ToolAt(r, tool, input, nil)
}

// ToolAt is Tool where it is known where links lead.
func ToolAt(r ToolRules, tool string, input json.RawMessage, links Links) Verdict {
	preset := r.Preset
	if preset == "" {
		preset = Careful
	}
	reasons := []Tree{r.judge(preset, tool, input, links)}
	if r.started != nil {
		reasons = append(reasons, because("when the task began", ToolAt(*r.started, tool, input, links).Because))
	}
	return verdict(because(fmt.Sprintf("use tool %s under %s", quote(tool), quote(string(preset))), reasons...), false)
}

func (r ToolRules) judge(preset ToolPreset, tool string, input json.RawMessage, links Links) Tree {
	if _, ok := toolPresets[preset]; !ok {
		return leaf(Forbid, "not a tool preset nod knows")
	}
	fields, err := object(input)
	switch {
	case err == nil && slices.Contains(notes, tool):
		return leaf(Auto, "looks after what is the agent's own")
	case err == nil && slices.Contains(readers, tool) && links.reader(tool, fields).Mode == Auto:
		return links.reader(tool, fields)
	case preset == Careful:
		return leaf(Ask, "every use of it asks")
	case err != nil:
		return leaf(Ask, "the input is not understood: "+err.Error())
	case tool == "":
		return leaf(Ask, "the tool has no name")
	case slices.Contains(beyond, tool) || strings.HasPrefix(tool, "mcp__"):
		return leaf(Ask, "reaches outside the environment or speaks to a person")
	case preset == InBox:
		return leaf(Auto, "stays inside the environment")
	case slices.Contains(readers, tool):
		return links.reader(tool, fields)
	case slices.Contains(shells, tool):
		return r.shell(fields)
	}
	return leaf(Ask, "not known to only read")
}

// shell judges the input of a shell tool. A field that nod does not know may change
// what the command does.
func (r ToolRules) shell(fields map[string]json.RawMessage) Tree {
	for key, raw := range fields {
		switch key {
		case "command", "description", "timeout", "timeout_ms":
		case "cwd", "workdir":
			if string(raw) != `"`+workspace+`"` {
				return leaf(Ask, "runs in another directory than "+workspace)
			}
		case "run_in_background":
			if string(raw) != "false" {
				return leaf(Ask, "goes on in the background")
			}
		default:
			return leaf(Ask, "has an input nod does not know: "+quote(key))
		}
	}
	var script string
	if err := json.Unmarshal(fields["command"], &script); err == nil && fields["command"][0] == '"' {
		return r.script(script, 0)
	}
	var argv []string
	if err := json.Unmarshal(fields["command"], &argv); err == nil && len(argv) > 0 {
		return r.simple(argv, 0)
	}
	return leaf(Ask, "has no command")
}

// object returns the members of a JSON object. It is stricter than encoding/json:
// names are told apart by case, and none may occur twice, because the agent that
// runs the input may read another of the two than nod does.
func object(input []byte) (map[string]json.RawMessage, error) {
	if !utf8.Valid(input) {
		return nil, errors.New("not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(input))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	fields := map[string]json.RawMessage{}
	for dec.More() {
		t, err := dec.Token()
		key, ok := t.(string)
		if err != nil || !ok {
			return nil, errors.New("not valid JSON")
		}
		if _, twice := fields[key]; twice {
			return nil, errors.New("a name occurs twice")
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, errors.New("not valid JSON")
		}
		fields[key] = raw
	}
	if _, err := dec.Token(); err != nil {
		return nil, errors.New("not valid JSON")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	return fields, nil
}

// quote shows an untrusted word.
func quote(s string) string {
	const most = 60
	if r := []rune(s); len(r) > most {
		s = string(r[:most]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
