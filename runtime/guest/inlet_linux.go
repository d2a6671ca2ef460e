package guest

import (
	"io"
	"sync"
)

// inlet is stdin on its way to the command: at most Window bytes wait.
type inlet struct {
	to io.WriteCloser

	mu     sync.Mutex
	more   sync.Cond
	queue  [][]byte
	queued int
	ended  bool
}

func newInlet(to io.WriteCloser) *inlet {
	in := &inlet{to: to}
	in.more.L = &in.mu
	return in
}

// push takes b over, or reports that the peer sent more than it had credit for,
// or after the end.
func (in *inlet) push(b []byte) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ended || in.queued+len(b) > Window {
		return false
	}
	in.queue, in.queued = append(in.queue, b), in.queued+len(b)
	in.more.Signal()
	return true
}

func (in *inlet) finish() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ended = true
	in.more.Signal()
}

// drain writes until the end. Once the command has closed its stdin, what still
// comes is thrown away and credited, as a shell's pipe into it would fail.
func (in *inlet) drain(credit func(int) error) {
	var lost error
	for {
		in.mu.Lock()
		for len(in.queue) == 0 && !in.ended {
			in.more.Wait()
		}
		if len(in.queue) == 0 {
			in.mu.Unlock()
			if lost == nil {
				_ = in.to.Close() // the command sees the end either way
			}
			return
		}
		b := in.queue[0]
		in.queue = in.queue[1:]
		in.mu.Unlock()

		if lost == nil {
			if _, err := in.to.Write(b); err != nil {
				lost = err
				_ = in.to.Close() // the read end is gone already
			}
		}
		in.mu.Lock()
		in.queued -= len(b)
		in.mu.Unlock()
		if credit(len(b)) != nil {
			return // the host is gone, and listen knows
		}
	}
}
