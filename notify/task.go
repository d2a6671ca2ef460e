package notify

import (
	"net/url"
	"strings"

	"nod"
)

// noted is the whole of what a push says about a note.
var noted = map[nod.Note]struct {
	title, words string
	priority     int
	tag          string
}{
	nod.NoteBudgetSoft: {"A budget is nearly used up", "goes on.", calm, "moneybag"},
	nod.NoteBudgetHard: {"A budget is used up", "was stopped.", urgent, "octagonal_sign"},
}

// ForTask is the push that tells of n. Every word comes from a fixed list, as in
// ForDecision.
func ForTask(n nod.Note, t nod.Task, publicURL string) nod.Push {
	what, ok := noted[n]
	if !ok {
		what.title, what.words, what.priority = "Something happened", "has news.", calm
	}
	return nod.Push{Title: what.title, Message: "Task " + plain(t.Short()) + " " + what.words, Priority: what.priority, Tag: what.tag,
		Click: strings.TrimRight(publicURL, "/") + "/t/" + url.PathEscape(plain(t.ID))}
}
