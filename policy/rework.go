package policy

import (
	"fmt"

	"nod"
)

// Rework says whether what somebody said of a pull request of nod puts its agent to
// work again: alone for an owner or a writer, by asking for anybody else, never for
// whom the start of work is forbidden. The matrix is that of Start.
func Rework(s StartSettings, by nod.Standing) Verdict {
	return verdict(because("work again on a pull request", s.part("asked for by", by)), !tierOf(by).Trusted())
}

// Checks says whether red checks put the agent to work again: alone for the first
// most times of a task, by asking after that. What a check printed is nobody's word.
func Checks(before, most int) Verdict {
	mode := Auto
	if before >= most {
		mode = Ask
	}
	return verdict(because("work again on red checks", leaf(mode, fmt.Sprintf("attempt %d, of which %d need no leave", before+1, max(0, most)))), true)
}
