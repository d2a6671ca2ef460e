// Package policy decides what may happen alone, what a person is asked, and what
// never happens. It is pure: facts in, Verdict with its explanation out. It must
// never take a context or read a clock, the network, a file or a random number,
// and it must never allow what it does not know.
//
//	start.go    may work start on an issue
//	action.go   may a result go out
//	command.go  may this person's comment command be obeyed
//	tool.go     may the agent's tool call run without a person; shell.go, readonly.go
//	tier.go     how far is an account trusted in a repository
//	preset.go   how a repository is worked on, as data
//	within.go   what a task began with, which nothing loosens
//	settings.go what a person wrote in the configuration, compiled
//
// Settings only ever tighten: the defaults of Start and Command and the floors of
// the action table hold whatever is configured.
package policy
