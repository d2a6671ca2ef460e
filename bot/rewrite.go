package bot

import (
	"context"
	"strings"

	"nod"
)

// rewriteAttempts is how many times in a task the agent is sent back to write its commit
// messages anew before somebody is asked.
const rewriteAttempts = 2

// rewrite sends the agent back to write its commit messages anew, told what is wrong
// with them, and reports whether it did: after so many times somebody is asked instead.
// The status comments that tell of it are also what they are counted by.
func (b *Bot) rewrite(ctx context.Context, c nod.Case, set RepoSettings, wrong string) (bool, error) {
	key, before := "rewrite/"+c.Run.ID, 0
	for _, e := range c.Effects {
		if rest, ok := strings.CutPrefix(e.Key, "status/"+c.Task.ID+"/"); ok && strings.HasPrefix(rest, "rewrite/") && rest != key {
			before++
		}
	}
	if before >= rewriteAttempts {
		return false, nil
	}
	c, err := b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Task.State != nod.TaskRunning {
			return false, nil
		}
		c.Task.Briefing = "Nothing is wrong with what your commits change, but they cannot be taken with these messages: " + wrong +
			"\nWrite the messages of exactly these commits anew, with git commit --amend or an interactive rebase onto the commit your branch began at, and change no file."
		ch.Tasks = append(ch.Tasks, &c.Task)
		return true, b.tell(c, ch, key)
	})
	if err != nil || c.Task.State != nod.TaskRunning {
		return true, err
	}
	return true, b.begin(ctx, c, set)
}
