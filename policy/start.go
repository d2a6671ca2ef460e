package policy

import (
	"cmp"
	"fmt"
	"slices"

	"nod"
)

// StartFacts is everything that decides whether work may start on an issue.
type StartFacts struct {
	Repo     nod.Repo
	Issue    int
	Labeller nod.Standing // who set the trigger label, or gave the command in its stead
	Author   nod.Standing // of the issue
	// Editor is who last edited title or body; zero when nobody but the author did.
	Editor nod.Standing
	// Commenters wrote the comments that the agent would read, in any order, as
	// often as they occur.
	Commenters []nod.Standing
	Untrusted  bool // the task is marked already
	Settings   StartSettings
}

// StartSettings tighten the default start matrix. The zero value is that matrix.
type StartSettings struct {
	Tiers   map[nod.Tier]Mode // for whoever has a part in the issue
	Blocked []int64           // account ids whose part in an issue forbids its start
}

// startModes is the default matrix, and the floor of every other.
var startModes = map[nod.Tier]Mode{
	nod.Owner: Auto, nod.Writer: Auto, nod.Triager: Ask, nod.Outsider: Ask, nod.Bot: Ask,
}

// Start says whether work may start: alone when everyone who labelled, wrote,
// edited or commented is an owner or a writer; by asking when anyone is a triager,
// an outsider or a bot; never when anyone is blocked or has no known tier. The
// verdict is marked untrusted when words are part of it that no owner or writer wrote.
func Start(f StartFacts) Verdict {
	reasons := []Tree{f.Settings.part("labelled by", f.Labeller), f.Settings.part("written by", f.Author)}
	words := []nod.Standing{f.Author}
	if f.Editor != (nod.Standing{}) {
		reasons = append(reasons, f.Settings.part("last edited by", f.Editor))
		words = append(words, f.Editor)
	}
	for _, c := range distinct(f.Commenters) {
		reasons = append(reasons, f.Settings.part("commented on by", c))
		words = append(words, c)
	}
	if f.Untrusted {
		reasons = append(reasons, leaf(Ask, "the task has read untrusted words before"))
	}
	untrusted := f.Untrusted || slices.ContainsFunc(words, func(s nod.Standing) bool { return !tierOf(s).Trusted() })
	return verdict(because(fmt.Sprintf("start work on %s#%d", f.Repo, f.Issue), reasons...), untrusted)
}

// part judges one person's part in an issue.
func (s StartSettings) part(role string, by nod.Standing) Tree {
	tier := tierOf(by)
	floor, ok := startModes[tier]
	switch {
	case slices.Contains(s.Blocked, by.Actor.ID) && by.Actor.ID != 0:
		return leaf(Forbid, role+" "+name(by)+": this account is blocked")
	case !ok:
		return leaf(Forbid, role+" "+name(by)+": not a tier nod knows")
	}
	mode := floor
	if set, ok := s.Tiers[tier]; ok {
		mode = strictest(floor, set)
	}
	return leaf(mode, role+" "+name(by))
}

// distinct returns standings without repetition, in an order that depends on
// nothing but themselves.
func distinct(all []nod.Standing) []nod.Standing {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b nod.Standing) int {
		return cmp.Or(
			cmp.Compare(a.Tier.Rank(), b.Tier.Rank()),
			cmp.Compare(a.Tier, b.Tier),
			cmp.Compare(a.Actor.Key(), b.Actor.Key()),
			cmp.Compare(a.Actor.Login, b.Actor.Login),
			cmp.Compare(a.Reason, b.Reason),
			cmp.Compare(fmt.Sprintf("%#v", a), fmt.Sprintf("%#v", b)),
		)
	})
	return slices.Compact(sorted)
}
