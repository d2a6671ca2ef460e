// Package linux is the embedded driver: environments out of namespaces, without a
// daemon, a download or a privilege. It starts this very binary as PID 1 of seven
// new namespaces, where package guest builds the environment and hands its one
// way out, the egress listener, to this side.
//
// An environment dies with the supervisor. The driver must never run anything in
// an environment whose attestation did not hold, hand a descriptor of the host
// in, or report a process as ended without proof.
package linux
