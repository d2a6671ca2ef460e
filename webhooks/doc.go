// Package webhooks is how GitHub reaches nod: receiver.go takes a delivery in,
// poller.go fetches what never arrived, watcher.go does without webhooks, row.go reads what a row needs, parse.go later
// says what it means.
//
// A delivery is answered with 2xx only when it is durable, a repetition, a ping, or
// nod's own doing. The package must never act on a delivery, hold a GitHub token, or read
// the meaning of a body whose signature it has not checked.
package webhooks
