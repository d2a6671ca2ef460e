package runtime

import (
	"errors"
	"os"
	"syscall"
	"time"

	"nod"
)

// holdPatience covers the moment between fork and exec in which a child has copies of
// all descriptors: that of a supervisor that was killed just then holds its locks on.
const holdPatience = time.Second

// Held is a lock file that this process holds.
type Held struct{ file *os.File }

// Hold locks the file at path, made if need be, which stands for what. The kernel
// lets go when the process ends, however it ends. Errors are Conflict when another
// holds it for longer than a second, and Internal.
func Hold(path, what string) (*Held, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nod.E(nod.Internal, "the lock file of "+what+" cannot be opened", err)
	}
	for end := time.Now().Add(holdPatience); ; time.Sleep(5 * time.Millisecond) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return &Held{f}, nil
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return nil, errors.Join(nod.E(nod.Internal, "the lock file of "+what+" cannot be locked", err), f.Close())
		case time.Now().After(end):
			return nil, errors.Join(&nod.Error{Code: nod.Conflict, Msg: "another process holds " + what, Hint: "one supervisor per state directory", Err: err}, f.Close())
		}
	}
}

// Close lets go at once, also when a child that is just starting has a copy of the
// descriptor. Nothing happens to a nil Held.
func (h *Held) Close() error {
	if h == nil {
		return nil
	}
	return errors.Join(syscall.Flock(int(h.file.Fd()), syscall.LOCK_UN), h.file.Close())
}
