// Package bot is the conductor. One file per verb, in the order in which a task
// meets them:
//
//	① receive.go  deliveries → occurrences → tasks
//	② decide.go   facts → verdict, recorded with its explanation
//	③ start.go    environment, seeded with a clone
//	④ drive.go    an agent's session, its events, its prompts
//	⑤ ask.go      a decision is opened and pushed to a phone
//	⑥ answer.go   what an answer makes of its task
//	⑦ publish.go  bundle, prepare, review, push, pull request, read back
//	⑧ sweep.go    desired state against actual state
//
// The bot owns no I/O of its own: every outside thing is a port in ports.go, and
// every act on the outside world is an effect that was written before it was done
// (effects.go). It must never act on anything but what the store says.
package bot
