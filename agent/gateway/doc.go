// Package gateway is the way from an agent to its model: plain HTTP from inside an
// environment, TLS to the model's API outside. It owns the model keys. An agent is
// given a token that is good for one run, in one environment, until the run ends;
// the gateway puts the key in its place.
//
// It must never hand a key to an agent, never pass on anything but the few calls
// that a coding agent needs, never let a call make the model's API reach out to
// other hosts for the agent, never hold a stream back, and never keep what is said.
package gateway
