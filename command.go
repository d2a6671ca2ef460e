package nod

import (
	"context"
	"io"
)

// Command is a process to start inside an environment. Argv[0] is looked up in
// the environment's PATH. Env is the whole environment of the process; nothing
// is inherited.
type Command struct {
	Argv []string
	Env  map[string]string
	Dir  string // absolute inside the environment; empty is /workspace
	// Terminal, when set, gives the command a terminal of this size as stdin, stdout
	// and stderr, the last of which then stays empty. Closing Stdin types ^D.
	Terminal *Window
}

// Window is the size of a terminal in characters.
type Window struct {
	Rows    uint16 `json:"rows"`
	Columns uint16 `json:"columns"`
}

// Terminal is a Process on one.
type Terminal interface {
	Process
	// Resize says how large the terminal is now.
	Resize(w Window) error
}

// Process is a running Command. Stdout and Stderr must both be read to their end
// or the process blocks. Closing Stdin sends it end-of-file.
type Process interface {
	Stdin() io.WriteCloser
	Stdout() io.Reader
	Stderr() io.Reader
	// Wait returns once the process has ended and its output was read. The exit
	// code is 128+n when signal n ended it.
	Wait() (ExitStatus, error)
	// Kill ends the process and every descendant, daemonised ones included, and
	// returns only once that is proven; otherwise it returns an error and the
	// environment must be treated as tainted.
	Kill(ctx context.Context) error
}

// ExitStatus is how a process ended.
type ExitStatus struct {
	Code   int `json:"code"`
	Signal int `json:"signal,omitempty"` // 0 when it exited by itself
}

// Executor starts processes in one environment.
type Executor interface {
	Exec(ctx context.Context, c Command) (Process, error)
}

// GuestPath is where every environment has the guest helper, read-only. Under the
// embedded driver it is the nod binary itself.
const GuestPath = "/nod/guest"
