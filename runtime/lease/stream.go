package lease

import (
	"errors"
	"io"
	"sync"

	"nod/runtime/guest"
)

// streamBuffer is how much output waits for a reader before the command blocks.
const streamBuffer = 256 << 10

// stream is one direction of output: put blocks while it is full.
type stream struct {
	mu     sync.Mutex
	change sync.Cond
	data   []byte
	ended  bool
	drop   bool
}

func newStream() *stream {
	s := &stream{}
	s.change.L = &s.mu
	return s
}

func (s *stream) put(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.data) >= streamBuffer && !s.drop {
		s.change.Wait()
	}
	if !s.drop {
		s.data = append(s.data, b...)
	}
	s.change.Broadcast()
}

// discard throws away what comes from now on, so that nobody blocks on it.
func (s *stream) discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop = true
	s.change.Broadcast()
}

func (s *stream) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.change.Broadcast()
}

func (s *stream) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.data) == 0 && !s.ended && len(b) > 0 {
		s.change.Wait()
	}
	if len(s.data) == 0 && s.ended {
		return 0, io.EOF
	}
	n := copy(b, s.data)
	s.data = s.data[n:]
	if len(s.data) == 0 {
		s.data = nil // let the array go
	}
	s.change.Broadcast()
	return n, nil
}

// outlet is stdin: Write blocks while a whole window is on its way.
type outlet struct {
	p      *Process
	mu     sync.Mutex
	change sync.Cond
	window int
	closed bool
	dead   bool
}

var errStdinClosed = errors.New("stdin is closed")

func newOutlet(p *Process) *outlet {
	o := &outlet{p: p, window: guest.Window}
	o.change.L = &o.mu
	return o
}

// Write returns io.ErrClosedPipe once the command has ended.
func (o *outlet) Write(b []byte) (int, error) {
	sent := 0
	for sent < len(b) {
		n, err := o.take(min(len(b)-sent, guest.MaxData))
		if err != nil {
			return sent, err
		}
		if o.p.send(guest.FrameStdin, b[sent:sent+n]) != nil {
			return sent, io.ErrClosedPipe
		}
		sent += n
	}
	return sent, nil
}

func (o *outlet) take(want int) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.window == 0 && !o.closed && !o.dead {
		o.change.Wait()
	}
	switch {
	case o.closed:
		return 0, errStdinClosed
	case o.dead:
		return 0, io.ErrClosedPipe
	}
	n := min(want, o.window)
	o.window -= n
	return n, nil
}

func (o *outlet) credit(n int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if n < 0 || o.window+n > guest.Window {
		return false
	}
	o.window += n
	o.change.Broadcast()
	return true
}

func (o *outlet) fail() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.dead = true
	o.change.Broadcast()
}

// Close sends end-of-file. The second time, and after the end, it does nothing: a
// command that is gone has had its end of input, and Wait tells how it went.
func (o *outlet) Close() error {
	o.mu.Lock()
	if o.closed || o.dead {
		o.mu.Unlock()
		return nil
	}
	o.closed = true
	o.change.Broadcast()
	o.mu.Unlock()
	_ = o.p.send(guest.FrameEOF, nil)
	return nil
}
