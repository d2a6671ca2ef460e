package store_test

import (
	"nod/bot"
	"nod/notify/answer"
	"nod/store"
	"nod/store/storetest"
)

// The ports that the store is plugged into.
var (
	_ bot.Ledger       = (*store.Store)(nil)
	_ bot.Queues       = (*store.Store)(nil)
	_ bot.Refusals     = (*store.Store)(nil)
	_ bot.Usage        = (*store.Store)(nil)
	_ answer.Decisions = (*store.Store)(nil)
	_ answer.Streams   = (*store.Store)(nil)
	_ answer.Passkeys  = (*store.Store)(nil)
	_ answer.Sessions  = (*store.Store)(nil)
	_ storetest.Store  = (*store.Store)(nil)
)
