// Package plain runs the demo's scripted agent as ordinary processes of the host,
// on systems whose kernel has no environments. It isolates nothing and says so:
// its attestation is "none" and never holds.
//
// It can only be made for the scripted agent, and starts nothing but this very
// binary, sh and git. It must never run a program that a model drives.
package plain
