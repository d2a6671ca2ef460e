// Package notify tells a person's phone that a decision waits, through an ntfy
// server.
//
// It owns what a push says and how it is published. A push is made of fixed
// words, a short id and a link: it must never carry issue text, code, logs, tool
// names, tokens or anything else that an agent or an outsider chose, because a
// push passes through other people's servers and lights up on a locked screen.
//
// Delivery is at least once. An effect that was begun before a crash is sent
// again, since ntfy cannot be asked whether a message with a given content was
// published: a second ring is harmless, a missing one is not.
package notify
