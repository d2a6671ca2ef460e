package hostgit

import "nod/bot"

var (
	_ bot.Git       = (*Git)(nil)
	_ bot.Performer = (*Pusher)(nil)
)
