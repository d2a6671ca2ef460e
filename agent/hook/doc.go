// Package hook is the second way in which an agent's permission prompts reach a
// person: of a Claude Code session that somebody runs in a terminal inside an
// environment. The program runs the guest helper as its hook; that holds a
// connection to this package, over one process in the environment, until the
// prompt has its one answer.
//
// A prompt is withdrawn, and its decision with it, as soon as nothing waits for it:
// the hook is gone, the channel is, the tool ran because it was answered at the
// terminal, or the turn is over. A late answer goes nowhere. Without an answer the
// program asks at its terminal: this package must never let a use happen that
// neither the approver nor the person there allowed.
package hook
