package bot

import (
	"fmt"
	"strings"
	"time"

	"nod"
)

// pullBody is the text of the pull request: the agent's last words, neutralised,
// then nod's own with the receipts of the check and of the approval. The marker at
// its end is how nod knows it again.
func (b *Bot) pullBody(c nod.Case) string {
	var w strings.Builder
	if c.Run.Reason != "" {
		fmt.Fprintf(&w, "%s\n\n", b.cfg.Neutralize(c.Run.Reason))
	}
	r := *c.Revision
	fmt.Fprintf(&w, "---\n\nFor #%d.\n\n| | |\n|---|---|\n", c.Task.Issue)
	fmt.Fprintf(&w, "| Commits | %d, on `%.12s` of `%s` |\n", len(r.Commits), r.BaseSHA, code(r.BaseRef))
	if r.Check.Passed(r.SHA) {
		fmt.Fprintf(&w, "| Check | `%s` (from %s) passed in %s for `%.12s` |\n", code(strings.Join(r.Check.Command, " ")), r.Check.Source, r.Check.Duration.Round(time.Millisecond), r.SHA)
	} else {
		fmt.Fprintf(&w, "| Check | %s |\n", uncheckedBecause(c))
	}
	for _, d := range c.Decisions {
		if d.Kind == nod.Review && d.CommitSHA == r.SHA && d.Permits() {
			fmt.Fprintf(&w, "| Allowed | by %s (%s) at %s |\n", b.cfg.Neutralize(code(d.AnsweredBy.Show())), d.AnsweredBy.Kind, d.AnsweredAt.UTC().Format(time.RFC3339))
		}
	}
	fmt.Fprintf(&w, "| Allowed for | commit `%s`, diff `sha256:%s` |\n", r.SHA, r.DiffDigest)
	if on := r.Published(); on != r.SHA {
		fmt.Fprintf(&w, "| Signed by GitHub as | `%s`, with the same tree, message and parents |\n", on)
	}
	fmt.Fprintf(&w, "\n%s\n", marker(c.Task))
	return w.String()
}

// code makes s fit between backquotes in a table.
func code(s string) string {
	return strings.NewReplacer("`", "'", "|", "¦", "\n", " ").Replace(s)
}
