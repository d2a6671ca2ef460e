package bot

import (
	"fmt"
	"strings"

	"nod"
)

// secrets refuses a prepared result whose messages or names hold a secret: the ledger
// would keep them otherwise than they are, and what is pushed could not be compared
// with what was approved. Nothing of it is repeated.
func (b *Bot) secrets(r nod.Revision) error {
	for _, c := range r.Commits {
		if b.cfg.Secret(c.Message) {
			return nod.E(nod.Invalid, fmt.Sprintf("the message of commit %.12s holds what looks like a secret, such as a token or a key; "+
				"it was shown to nobody. Write the message anew without it", c.SHA), nil)
		}
	}
	for _, f := range r.Files {
		if b.cfg.Secret(f.Path) {
			return nod.E(nod.Invalid, "the name of a changed file holds what looks like a secret, such as a token or a key. Name it otherwise", nil)
		}
	}
	return nil
}

// addsSecret names the first file into which diff brings what looks like a secret, or
// returns "". What a change only takes away, or has beside it, is not meant.
func (b *Bot) addsSecret(diff []byte) string {
	at, added := "", strings.Builder{}
	for line := range strings.Lines(string(diff)) {
		switch {
		case strings.HasPrefix(line, "diff --git "):
			if b.cfg.Secret(added.String()) {
				return at
			}
			added.Reset()
			at = "a changed file"
		case strings.HasPrefix(line, "+++ ") && added.Len() == 0:
			at = strings.TrimPrefix(strings.TrimSpace(line[4:]), "b/")
		case strings.HasPrefix(line, "+"):
			added.WriteString(line[1:])
		}
	}
	if b.cfg.Secret(added.String()) {
		return at
	}
	return ""
}
