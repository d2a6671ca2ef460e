package policy

import "slices"

// ActionName names something that an agent's work can do to the outside world.
// What nod says of itself, its status comment and status labels, is none.
type ActionName string

const (
	ActionPush              ActionName = "push" // to a branch under nod/
	ActionOpenPullRequest   ActionName = "open_pull_request"
	ActionComment           ActionName = "comment"
	ActionLabel             ActionName = "label"
	ActionCheckRun          ActionName = "check_run"
	ActionPushIntegration   ActionName = "push_integration_branch" // fast-forward of the branch named in the configuration
	ActionMerge             ActionName = "merge"
	ActionTag               ActionName = "tag"
	ActionRelease           ActionName = "release"
	ActionDeploy            ActionName = "deploy"
	ActionPushDefaultBranch ActionName = "push_default_branch"
	ActionForcePush         ActionName = "force_push"
)

// floors is every action there is, and the loosest mode it can ever have.
var floors = map[ActionName]Mode{
	ActionPush:              Ask,
	ActionOpenPullRequest:   Auto,
	ActionComment:           Auto,
	ActionLabel:             Auto,
	ActionCheckRun:          Auto,
	ActionPushIntegration:   Ask,
	ActionMerge:             Forbid,
	ActionTag:               Forbid,
	ActionRelease:           Forbid,
	ActionDeploy:            Forbid,
	ActionPushDefaultBranch: Forbid,
	ActionForcePush:         Forbid,
}

// Actions returns the names of all actions, sorted.
func Actions() []ActionName {
	var names []ActionName
	for n := range floors {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// Table is a compiled action table; Compile makes it. A nil Table forbids all.
type Table struct {
	preset PresetName
	modes  map[ActionName]Mode // what is configured; no looser than the floors
	// started is what a task began with; see Within.
	started map[ActionName]Mode
}

// Preset is the preset that the table was compiled for.
func (t *Table) Preset() PresetName {
	if t == nil {
		return Published
	}
	return t.preset
}

// Action says whether action may be taken for a task. untrusted is the task's
// mark: what the table lets run alone is then asked about.
func Action(t *Table, action ActionName, untrusted bool) Verdict {
	floor, ok := floors[action]
	if !ok {
		return verdict(because("take action "+string(action), leaf(Forbid, "not an action nod knows")), untrusted)
	}
	if t == nil {
		return verdict(because("take action "+string(action), leaf(Forbid, "no action table")), untrusted)
	}
	reasons := []Tree{leaf(floor, "floor of every table")}
	preset, ok := presets[t.preset]
	if !ok {
		reasons = append(reasons, leaf(Forbid, "not a preset nod knows: "+string(t.preset)))
	} else if mode, ok := preset.Actions[action]; ok {
		reasons = append(reasons, leaf(mode, "preset "+string(t.preset)))
	}
	if mode, ok := t.modes[action]; ok {
		reasons = append(reasons, leaf(mode, "configured"))
	}
	if mode, ok := t.started[action]; ok {
		reasons = append(reasons, leaf(mode, "when the task began"))
	}
	if untrusted {
		reasons = append(reasons, leaf(Ask, "the task has read untrusted words"))
	}
	return verdict(because("take action "+string(action), reasons...), untrusted)
}
