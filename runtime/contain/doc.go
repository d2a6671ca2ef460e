// Package contain is one running container or machine whatever the engine: the
// sockets of its way out and of its PID 1, its execs and the proof of its end.
//
// It owns nothing that outlives the process. It must never take the engine's word
// for what the guest can say itself.
package contain
