package main

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"nod"
	"nod/runtime"
)

// lock takes the lock file at path, so that one state directory has one
// supervisor. The kernel releases it when the process ends, however it ends.
func lock(path string) (release func(), err error) {
	held, err := runtime.Hold(path, "this state directory")
	if nod.CodeOf(err) == nod.Conflict {
		return nil, &nod.Error{Code: nod.Conflict, Msg: "another nod uses this state directory", Hint: "stop it, or set another state_dir", Err: err}
	}
	if err != nil {
		return nil, err
	}
	return func() { _ = held.Close() }, nil
}

// locked reports whether a process holds the lock file at path.
func locked(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false // nobody has made it
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}
