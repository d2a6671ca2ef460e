package policy

import (
	"strings"
	"unicode"

	"nod"
)

// Mode is what may be done about something. The zero value, like any unknown one,
// counts as Forbid.
type Mode string

const (
	Auto   Mode = "auto"   // goes on by itself
	Ask    Mode = "ask"    // a person is asked
	Forbid Mode = "forbid" // does not happen
)

// known returns m, or Forbid when m is not a mode.
func (m Mode) known() Mode {
	if m == Auto || m == Ask {
		return m
	}
	return Forbid
}

func (m Mode) strictness() int {
	switch m.known() {
	case Auto:
		return 0
	case Ask:
		return 1
	default:
		return 2
	}
}

// LooserThan reports whether m permits more than n does.
func (m Mode) LooserThan(n Mode) bool { return m.strictness() < n.strictness() }

// strictest returns the strictest of modes; Forbid when there are none.
func strictest(modes ...Mode) Mode {
	if len(modes) == 0 {
		return Forbid
	}
	worst := Auto
	for _, m := range modes {
		if worst.LooserThan(m) {
			worst = m.known()
		}
	}
	return worst
}

// Verdict is what policy says, and why. Use Allows and Asks rather than comparing
// Mode, so that a mode nobody knows permits nothing.
type Verdict struct {
	Mode    Mode `json:"mode"`
	Because Tree `json:"because"`
	// Untrusted says that words by someone who may not write to the repository are
	// part of this. It marks a task for good; see Mark.
	Untrusted bool `json:"untrusted"`
}

// Allows reports whether it goes on by itself.
func (v Verdict) Allows() bool { return v.Mode == Auto }

// Asks reports whether a person must be asked.
func (v Verdict) Asks() bool { return v.Mode == Ask }

// Reason is the first thing of the verdict's own mode that it rests on, in one line.
func (v Verdict) Reason() string {
	for _, because := range v.Because.Because {
		if because.Mode == v.Mode {
			return because.Text
		}
	}
	return v.Because.Text
}

// Mark returns whether a task is marked untrusted after v, given whether it was
// before: no verdict takes the mark away.
func (v Verdict) Mark(before bool) bool { return before || v.Untrusted }

// Tree explains a verdict: a statement, what it came to, and what that rests on.
// Its text holds no control characters.
type Tree struct {
	Text    string `json:"text"`
	Mode    Mode   `json:"mode"`
	Because []Tree `json:"because,omitempty"`
}

// String is the tree as indented lines, each with its mode first.
func (t Tree) String() string {
	var b strings.Builder
	t.write(&b, 0)
	return b.String()
}

func (t Tree) write(b *strings.Builder, depth int) {
	b.WriteString(strings.Repeat("  ", depth))
	b.WriteString(string(t.Mode.known()))
	b.WriteString("  ")
	b.WriteString(clean(t.Text))
	b.WriteByte('\n')
	for _, child := range t.Because {
		child.write(b, depth+1)
	}
}

// leaf is a tree without reasons of its own.
func leaf(m Mode, text string) Tree { return Tree{Text: clean(text), Mode: m.known()} }

// because sums reasons up: it is as strict as the strictest.
func because(text string, reasons ...Tree) Tree {
	modes := make([]Mode, len(reasons))
	for i, r := range reasons {
		modes[i] = r.Mode
	}
	return Tree{Text: clean(text), Mode: strictest(modes...), Because: reasons}
}

// verdict is the verdict that tree explains.
func verdict(tree Tree, untrusted bool) Verdict {
	return Verdict{Mode: tree.Mode.known(), Because: tree, Untrusted: untrusted}
}

// clean makes untrusted text fit for one line of a terminal or a log.
func clean(s string) string {
	const most = 160
	out := []rune(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '�'
	}, s))
	if len(out) > most {
		return string(out[:most]) + "…"
	}
	return string(out)
}

// name shows who s is and why they have the tier they have.
func name(s nod.Standing) string {
	tier := string(s.Tier)
	if tier == "" {
		tier = "no tier"
	}
	if s.Reason == "" {
		return s.Actor.Show() + ", " + tier
	}
	return s.Actor.Show() + ", " + tier + " (" + s.Reason + ")"
}

// tierOf is the tier that counts: GitHub's word that an account is no user
// outweighs whatever else was found out.
func tierOf(s nod.Standing) nod.Tier {
	if s.Actor.Bot {
		return nod.Bot
	}
	return s.Tier
}
