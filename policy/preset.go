package policy

// PresetName names how a repository is worked on.
type PresetName string

const (
	Prototype   PresetName = "prototype"   // fast-forward of a named integration branch
	Integration PresetName = "integration" // pull request into the integration branch
	Published   PresetName = "published"   // pull request into the default branch
)

// Delivery is where a result goes.
type Delivery string

const (
	DeliverFastForward Delivery = "fast_forward_integration"
	DeliverIntegration Delivery = "pull_request_integration"
	DeliverDefault     Delivery = "pull_request_default"
)

// Preset is what a preset's name stands for.
type Preset struct {
	Delivery  Delivery
	Actions   map[ActionName]Mode // floors on top of those of every table
	Tools     ToolPreset          // the loosest tool rules it takes
	looseness int
}

var presets = map[PresetName]Preset{
	Published: {
		Delivery: DeliverDefault, Tools: Careful, looseness: 0,
		Actions: map[ActionName]Mode{ActionPushIntegration: Forbid},
	},
	Integration: {
		Delivery: DeliverIntegration, Tools: Balanced, looseness: 1,
		Actions: map[ActionName]Mode{ActionPushIntegration: Forbid},
	},
	Prototype: {Delivery: DeliverFastForward, Tools: InBox, looseness: 2},
}

// Rules returns what n stands for; false when n is no preset.
func (n PresetName) Rules() (Preset, bool) {
	p, ok := presets[n]
	return p, ok
}

// LooserThan reports whether n permits what m does not. A name that is no preset
// is looser than any that is, so that it is never taken.
func (n PresetName) LooserThan(m PresetName) bool { return n.looseness() > m.looseness() }

func (n PresetName) looseness() int {
	if p, ok := presets[n]; ok {
		return p.looseness
	}
	return len(presets)
}

// Applies returns the preset for a task that was started under started, when the
// configuration now says configured: the stricter one. It is always a preset.
func Applies(started, configured PresetName) PresetName {
	if configured.LooserThan(started) {
		configured = started
	}
	if _, ok := presets[configured]; !ok {
		return Published
	}
	return configured
}
