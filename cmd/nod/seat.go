package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"nod"
)

// seats are lock files, one beside each environment's directories. A terminal holds
// that of its environment as long as it is open; the kernel lets it go when its process
// ends, however it ends.
type seats struct{ dir string }

// seatPatience is how long an agent's start waits for a terminal to close, which it
// does by itself when the agent goes on.
const seatPatience = 30 * time.Second

func (s seats) file(environment string) string { return filepath.Join(s.dir, environment, "seat") }

// take takes a seat, or is a Conflict.
func (s seats) take(environment string) (leave func(), err error) {
	f, err := os.OpenFile(s.file(environment), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, nod.E(nod.Internal, "the lock file of a terminal cannot be opened", err)
	}
	for end := time.Now().Add(time.Second); ; time.Sleep(20 * time.Millisecond) { // Taken holds it for a moment
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			if _, err := f.WriteAt([]byte("sat\n"), 0); err != nil {
				return nil, errors.Join(nod.E(nod.Internal, "the lock file of a terminal cannot be written", err), f.Close())
			}
			return func() { _ = f.Close() }, nil
		}
		if time.Now().After(end) {
			_ = f.Close()
			return nil, &nod.Error{Code: nod.Conflict, Msg: "another terminal is open in the environment", Err: err}
		}
	}
}

// Taken reports whether a terminal is open in the environment.
func (s seats) Taken(environment string) bool {
	f, err := os.OpenFile(s.file(environment), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, os.ErrNotExist) {
		return false
	}
	if err != nil {
		return true // nobody can tell
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil
}

// Sat reports whether a terminal has been open in the environment since clear: its
// directories may have another owner then than the environment's own user.
func (s seats) Sat(environment string) bool {
	info, err := os.Lstat(s.file(environment))
	return err == nil && info.Size() > 0
}

// clear forgets that somebody sat there.
func (s seats) clear(environment string) error {
	if err := os.Truncate(s.file(environment), 0); err != nil {
		return nod.E(nod.Internal, "the lock file of a terminal cannot be written", err)
	}
	return nil
}

// free waits until no terminal is open in the environment.
func (s seats) free(ctx context.Context, environment string) error {
	ctx, cancel := context.WithTimeout(ctx, seatPatience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for s.Taken(environment) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nod.E(nod.Conflict, "a terminal is open in the environment", context.Cause(ctx))
		}
	}
	return nil
}
