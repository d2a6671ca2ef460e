package main

import (
	"os"

	"golang.org/x/sys/unix"

	"nod"
)

// lock takes the lock file at path, so that one state directory has one
// supervisor. The kernel releases it when the process ends, however it ends.
func lock(path string) (release func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nod.E(nod.Internal, "the lock file cannot be opened", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, &nod.Error{Code: nod.Conflict, Msg: "another nod uses this state directory", Hint: "stop it, or set another state_dir", Err: err}
	}
	return func() { _ = f.Close() }, nil
}
