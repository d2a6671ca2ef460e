package policy

import (
	"slices"
	"strings"

	"nod"
)

// CommandSettings tighten who may give comment commands. The zero value is the
// default.
type CommandSettings struct {
	Lowest  map[string]nod.Tier // verb → the lowest tier that may give it
	Blocked []int64             // account ids that may give none
}

// verbs is every comment command: the lowest tier that is obeyed, and the lowest
// for which an owner is asked.
var verbs = map[string]struct{ auto, ask nod.Tier }{
	nod.VerbRun:    {nod.Writer, nod.Triager}, // as setting the label
	nod.VerbRetry:  {nod.Writer, nod.Triager},
	nod.VerbCancel: {nod.Triager, nod.Triager},
	nod.VerbSay:    {nod.Writer, nod.Writer}, // the words reach the agent
	nod.VerbAgent:  {nod.Writer, nod.Writer},
	nod.VerbStatus: {nod.Outsider, nod.Outsider},
	nod.VerbHelp:   {nod.Outsider, nod.Outsider},
}

// people are the tiers of users, by falling trust.
var people = []nod.Tier{nod.Owner, nod.Writer, nod.Triager, nod.Outsider}

// Command says whether a comment command may be obeyed: Auto obeys, Ask obeys once
// an owner agreed, Forbid does not and its explanation says who could.
func Command(s CommandSettings, verb string, by nod.Standing) Verdict {
	return s.judge(strings.ToLower(verb), by)
}

func (s CommandSettings) judge(verb string, by nod.Standing) Verdict {
	text := "obey /nod " + verb + " by " + name(by)
	need, ok := verbs[verb]
	tier := tierOf(by)
	lowest, set := s.Lowest[verb]
	no := func(why string) Verdict { return verdict(because(text, leaf(Forbid, why)), !tier.Trusted()) }
	switch {
	case !ok:
		return no("not a command nod knows; known are " + strings.Join(Verbs(), ", "))
	case slices.Contains(s.Blocked, by.Actor.ID) && by.Actor.ID != 0:
		return no("this account is blocked")
	case tier == nod.Bot:
		return no("bots give no commands")
	case !slices.Contains(people, tier):
		return no("not a tier nod knows")
	case set && !slices.Contains(people, lowest):
		return no("the configured tier is not one nod knows: " + string(lowest))
	}
	if set {
		need.auto, need.ask = higher(need.auto, lowest), higher(need.ask, lowest)
	}
	mode := Forbid
	switch {
	case tier.Rank() >= need.auto.Rank():
		mode = Auto
	case tier.Rank() >= need.ask.Rank():
		mode = Ask
	}
	return verdict(because(text, leaf(mode, who(need.auto, need.ask))), !tier.Trusted())
}

// who says in words who could.
func who(auto, ask nod.Tier) string {
	from := func(t nod.Tier) string {
		var names []string
		for _, p := range people {
			if p.Rank() >= t.Rank() {
				names = append(names, string(p))
			}
		}
		return strings.Join(names, ", ")
	}
	if auto.Rank() == ask.Rank() {
		return "may be given by " + from(auto)
	}
	return "may be given by " + from(auto) + "; for " + string(ask) + " an owner is asked"
}

func higher(a, b nod.Tier) nod.Tier {
	if b.Rank() > a.Rank() {
		return b
	}
	return a
}

// Verbs returns the comment commands, sorted.
func Verbs() []string {
	var names []string
	for v := range verbs {
		names = append(names, v)
	}
	slices.Sort(names)
	return names
}
