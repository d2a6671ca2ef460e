// Package nod is the vocabulary of the project: the nouns that every other
// package speaks of, and the transition tables that say what may happen to
// them. It holds types and pure functions only. It must never do I/O, read a
// clock or import anything outside the standard library.
//
// A code tour, in the order in which one task meets the files:
//
//	delivery.go     what GitHub told us, durable before it is answered
//	actor.go        who acts; tier.go: how far that actor is trusted
//	task.go         one issue's work in one repository
//	environment.go  where the agent works; command.go: a process in it
//	run.go          one execution of an agent; event.go: what it said and did
//	decision.go     what a person is asked; passkey.go: how the answer is signed
//	revision.go     a prepared result, keyed by commit SHA
//	effect.go       one act on the outside world, written before it is done
//	change.go       everything that one step writes, in one transaction
//	machine.go      transition tables as data
//	error.go        codes, and what each means as HTTP status and exit code
package nod
