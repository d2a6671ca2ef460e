package bot

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"nod"
	"nod/policy"
)

// terms are the settings of a repository that a task begins with and that nothing
// loosens for it any more. They are kept with the task.
type terms struct {
	Policy    policy.Settings   `json:"policy"`
	Egress    []string          `json:"egress,omitempty"`
	Unchecked bool              `json:"unchecked,omitempty"`
	Approvals map[nod.Cause]int `json:"approvals,omitempty"`
	Protected []string          `json:"protected,omitempty"` // nil takes the defaults
	Forbid    bool              `json:"forbid_protected,omitempty"`
}

// pin writes down the terms of a task that begins under set.
func pin(set RepoSettings) (string, error) {
	raw, err := json.Marshal(terms{Policy: set.Rules.Source, Egress: set.Egress, Unchecked: set.Unchecked, Approvals: set.Approvals,
		Protected: set.Protect.Paths, Forbid: set.Protect.Forbid})
	if err != nil {
		return "", nod.E(nod.Internal, "the settings of a repository cannot be written as JSON", err)
	}
	return string(raw), nil
}

// within is set as it holds for t: of everything that permits, the stricter of what t
// began with and what is configured now. A task without terms began with none that
// permit anything beyond the defaults.
func within(set RepoSettings, t nod.Task) (RepoSettings, error) {
	var began terms
	if t.Terms != "" {
		if err := json.Unmarshal([]byte(t.Terms), &began); err != nil {
			return set, nod.E(nod.Internal, "what the task began with cannot be read", err)
		}
	}
	rules, err := policy.Compile(began.Policy)
	if err != nil {
		return set, fmt.Errorf("rules that the task began with: %w", err)
	}
	set.Rules = policy.Within(rules, set.Rules)
	set.Egress = slices.DeleteFunc(slices.Clone(set.Egress), func(host string) bool { return !slices.Contains(began.Egress, host) })
	set.Unchecked = set.Unchecked && began.Unchecked
	set.Approvals = maps.Clone(set.Approvals)
	for cause, n := range began.Approvals {
		if set.Approvals == nil {
			set.Approvals = map[nod.Cause]int{}
		}
		set.Approvals[cause] = max(n, set.Approvals[cause])
	}
	set.Protect = Protection{Paths: slices.Concat(set.Protect.paths(), Protection{Paths: began.Protected}.paths()), Forbid: set.Protect.Forbid || began.Forbid}
	return set, nil
}

// settings are those of t's repository as they hold for t; false when the repository
// is not in the configuration.
func (b *Bot) settings(t nod.Task) (RepoSettings, bool, error) {
	set, known := b.repo(t.Repo)
	if !known {
		return set, false, nil
	}
	set, err := within(set, t)
	return set, true, err
}
