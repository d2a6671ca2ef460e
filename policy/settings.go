package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"nod"
)

// Settings is what a person writes about one repository. Everything is optional.
type Settings struct {
	Preset   string            `json:"preset,omitempty"`   // default "published"
	Actions  map[string]string `json:"actions,omitempty"`  // action → auto, ask or forbid
	Start    map[string]string `json:"start,omitempty"`    // tier → auto, ask or forbid
	Commands map[string]string `json:"commands,omitempty"` // verb → lowest tier
	Tools    string            `json:"tools,omitempty"`    // careful (default), balanced or in-box
	// Allow are commands that "balanced" lets run besides those that only read:
	// exact words, a last "*" for any further ones, e.g. "go test *".
	Allow   []string `json:"allow,omitempty"`
	Blocked []int64  `json:"blocked,omitempty"` // GitHub account ids
	// Budgets bound what is used of models: by run, task, repo and day.
	Budgets map[string]Limit `json:"budgets,omitempty"`
}

// Rules is Settings, compiled.
type Rules struct {
	Preset   PresetName
	Table    *Table
	Start    StartSettings
	Commands CommandSettings
	Tools    ToolRules
	Budgets  Budgets
	// Source is what they were compiled from.
	Source Settings
}

// Compile checks s and compiles it. An unknown name and a mode looser than its
// floor are Invalid errors that name the setting; nothing is corrected silently.
// A configuration check and the running program both call it.
func Compile(s Settings) (Rules, error) {
	r := Rules{
		Preset:   PresetName(s.Preset),
		Start:    StartSettings{Tiers: map[nod.Tier]Mode{}, Blocked: slices.Clone(s.Blocked)},
		Commands: CommandSettings{Lowest: map[string]nod.Tier{}, Blocked: slices.Clone(s.Blocked)},
		Source:   s,
	}
	if s.Preset == "" {
		r.Preset = Published
	}
	preset, ok := presets[r.Preset]
	if !ok {
		return Rules{}, unknown("preset", "preset", s.Preset, presets)
	}
	r.Table = &Table{preset: r.Preset, modes: map[ActionName]Mode{}}
	for _, key := range slices.Sorted(maps.Keys(s.Actions)) {
		a := ActionName(key)
		floor, ok := floors[a]
		if !ok {
			return Rules{}, unknown("actions", "action", key, floors)
		}
		if set, ok := preset.Actions[a]; ok {
			floor = strictest(floor, set)
		}
		mode, err := compileMode("actions."+key, s.Actions[key], floor)
		if err != nil {
			return Rules{}, err
		}
		r.Table.modes[a] = mode
	}
	for _, key := range slices.Sorted(maps.Keys(s.Start)) {
		floor, ok := startModes[nod.Tier(key)]
		if !ok {
			return Rules{}, unknown("start", "tier", key, startModes)
		}
		mode, err := compileMode("start."+key, s.Start[key], floor)
		if err != nil {
			return Rules{}, err
		}
		r.Start.Tiers[nod.Tier(key)] = mode
	}
	for _, key := range slices.Sorted(maps.Keys(s.Commands)) {
		need, ok := verbs[key]
		if !ok {
			return Rules{}, unknown("commands", "command", key, verbs)
		}
		tier := nod.Tier(s.Commands[key])
		if !slices.Contains(people, tier) {
			return Rules{}, invalid("commands.%s: %q is not a tier; known are owner, writer, triager, outsider", key, s.Commands[key])
		}
		if tier.Rank() < need.ask.Rank() {
			return Rules{}, invalid("commands.%s: %s is below the floor, %s", key, tier, need.ask)
		}
		r.Commands.Lowest[key] = tier
	}
	for i, id := range s.Blocked {
		if id <= 0 {
			return Rules{}, invalid("blocked[%d]: %d is not an account id", i, id)
		}
	}
	tools, err := compileTools(s, r.Preset, preset)
	r.Tools = tools
	if err != nil {
		return Rules{}, err
	}
	if r.Budgets, err = compileBudgets(s.Budgets); err != nil {
		return Rules{}, err
	}
	return r, nil
}

func compileMode(where, value string, floor Mode) (Mode, error) {
	mode := Mode(value)
	if mode != mode.known() {
		return Forbid, invalid("%s: %q is not a mode; known are auto, ask, forbid", where, value)
	}
	if mode.LooserThan(floor) {
		return Forbid, invalid("%s: %s is looser than the floor, %s", where, mode, floor)
	}
	return mode, nil
}

func compileTools(s Settings, name PresetName, preset Preset) (ToolRules, error) {
	rules := ToolRules{Preset: ToolPreset(s.Tools)}
	if s.Tools == "" {
		rules.Preset = Careful
	}
	looseness, ok := toolPresets[rules.Preset]
	if !ok {
		return ToolRules{}, unknown("tools", "tool preset", s.Tools, toolPresets)
	}
	if looseness > toolPresets[preset.Tools] {
		return ToolRules{}, &nod.Error{Code: nod.Invalid, Hint: "choose " + string(preset.Tools) + ", or a looser preset for the repository",
			Msg: fmt.Sprintf("tools: %s is looser than preset %s takes, %s", rules.Preset, name, preset.Tools)}
	}
	for i, line := range s.Allow {
		words, err := allowWords(line)
		if err != nil {
			return ToolRules{}, invalid("allow[%d]: %v", i, err)
		}
		rules.allow = append(rules.allow, words)
	}
	return rules, nil
}

func unknown[K ~string, V any](where, noun, got string, known map[K]V) error {
	var names []string
	for k := range known {
		names = append(names, string(k))
	}
	slices.Sort(names)
	return &nod.Error{Code: nod.Invalid, Msg: clean(fmt.Sprintf("%s: %q is not a %s nod knows", where, got, noun)),
		Hint: "known are " + strings.Join(names, ", ")}
}

func invalid(format string, args ...any) error {
	return nod.E(nod.Invalid, clean(fmt.Sprintf(format, args...)), nil)
}
