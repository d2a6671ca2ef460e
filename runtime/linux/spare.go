//go:build linux

package linux

import (
	"errors"
	"sync"
)

// spare is a PID 1 that was started ahead of the next start, which then need not
// wait for the kernel's namespaces and for a program to come up: on the machine of
// ARCHITECTURE.md's figures that is two fifths of a start. It has capabilities over
// its own namespaces only and waits for a word on its control socket, which nobody
// else has; but until it becomes the environment's user it is this process's user, and
// sees the host's files as that one. It dies with this process.
type spare struct {
	mu     sync.Mutex
	next   *pending
	closed bool
}

// pending is a process that is being started.
type pending struct {
	done    chan struct{} // closed once it has been, or could not be
	process *initProcess
	err     error
}

// prepare starts a process for the next start, unless one is there.
func (d *Driver) prepare() {
	d.spare.mu.Lock()
	defer d.spare.mu.Unlock()
	if d.spare.next != nil || d.spare.closed {
		return
	}
	next := &pending{done: make(chan struct{})}
	d.spare.next = next
	go func() {
		defer close(next.done)
		next.process, next.err = d.spawn()
	}()
}

// take returns the process that waits, or starts one. Why there is none that waits
// is not asked: the reason comes again, to where somebody hears it.
func (d *Driver) take() (*initProcess, error) {
	d.spare.mu.Lock()
	next := d.spare.next
	d.spare.next = nil
	d.spare.mu.Unlock()
	if next != nil {
		<-next.done
		if next.err == nil {
			select {
			case <-next.process.gone:
				if err := errors.Join(next.process.release(), next.process.said.Close()); err != nil {
					return nil, err
				}
			default:
				return next.process, nil
			}
		}
	}
	return d.spawn()
}

// dismiss ends the process that waits and lets none be started again.
func (d *Driver) dismiss() error {
	d.spare.mu.Lock()
	next := d.spare.next
	d.spare.next, d.spare.closed = nil, true
	d.spare.mu.Unlock()
	if next == nil {
		return nil
	}
	if <-next.done; next.err != nil {
		return nil // nothing was started
	}
	return next.process.discard()
}
