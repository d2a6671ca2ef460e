// Package notify tells a person's phone that a decision waits, through an ntfy
// server.
//
// It owns what a push says and how it is published. A push is made of fixed
// words, a short id and a link: it must never carry issue text, code, logs, tool
// names, tokens or anything else that an agent or an outsider chose, because a
// push passes through other people's servers and lights up on a locked screen.
//
// Delivery is at least once. A push that was begun and has no outcome, because of a
// crash or a lost answer, is looked for among what the server still keeps, where it
// may be read; otherwise it is sent again: a second ring is harmless, a missing one
// is not.
package notify
