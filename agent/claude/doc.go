// Package claude drives the Claude Code command line (`claude -p`, stream-json)
// through a nod.Executor: it owns the command line, the environment of the
// process, the line protocol, and the order in which a session is ended.
//
// It refuses to go on when the program says that anything but this package
// configured it, asks the Approver about every tool use that can have an effect,
// and turns whatever is not an explicit allow into a denial. It must never start a
// process itself, read the host's environment, write to the program a line that
// is not JSON, or widen what a session may do on its own.
package claude
