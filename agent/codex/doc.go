// Package codex drives the Codex command line (`codex app-server`, JSON-RPC over
// stdio) through a nod.Executor: it owns the command line, the environment of the
// process, the program's home and configuration file inside the environment, the
// line protocol, and what ends a turn.
//
// It refuses to go on when the program says that anything but this package
// configured it, asks the Approver about every command and every change of a file,
// and turns whatever is not an explicit allow into a refusal. What ran without an
// allow, or was not what was shown, ends the session. It must never start a
// process itself, read the host's environment, keep anything of the program's home
// but its sessions, or send a decision that lasts.
package codex
