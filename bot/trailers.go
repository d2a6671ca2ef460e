package bot

import (
	"fmt"
	"regexp"

	"nod"
)

// login is what GitHub lets people be called.
var login = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,38}$`)

// trailers are put at the end of the last commit: who asked for the work, by the
// address that GitHub keeps for each account, and the task.
func trailers(t nod.Task) []string {
	lines := []string{"Nod-Task: " + t.ID}
	if by := t.RequestedBy; by.Kind == nod.ActorGitHub && by.ID > 0 && !by.Bot && login.MatchString(by.Login) {
		lines = append([]string{fmt.Sprintf("Co-authored-by: %s <%d+%s@users.noreply.%s>", by.Login, by.ID, by.Login, t.Repo.Host)}, lines...)
	}
	return lines
}
