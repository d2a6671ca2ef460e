package guest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
)

// hookCap bounds what an agent's hook is told: one line of an agent.
const hookCap = 16 << 20

// hookLine is one line between the host and RoleHooks: what a hook was told, or
// that it is gone, on the way out; the one answer it gets on the way in.
type hookLine struct {
	N      uint64          `json:"n"` // counts the hooks, from 1
	Hook   json.RawMessage `json:"hook,omitempty"`
	Gone   bool            `json:"gone,omitempty"`
	Answer json.RawMessage `json:"answer,omitempty"` // null closes it without one
}

// hookMain is what an agent runs as its hook. It hands on what it is told and
// waits for an answer, which it prints. Without one it says nothing, and the agent
// asks whoever sits at its terminal.
func hookMain(socket string, in io.Reader, out io.Writer) error {
	told, err := io.ReadAll(io.LimitReader(in, hookCap+1))
	if err != nil {
		return err
	}
	if len(told) > hookCap || !json.Valid(told) {
		return errors.New("what the hook is told is no JSON of at most 16 MiB")
	}
	c, err := net.Dial("unix", socket)
	if err != nil {
		return err
	}
	defer c.Close()
	var line bytes.Buffer
	if err := json.Compact(&line, told); err != nil { // what a person is shown is what the agent said
		return err
	}
	if _, err := c.Write(append(line.Bytes(), '\n')); err != nil {
		return err
	}
	answer, err := bufio.NewReader(c).ReadBytes('\n')
	if errors.Is(err, io.EOF) {
		return nil // whoever would answer is gone; half an answer is none
	}
	if err != nil {
		return err
	}
	_, err = out.Write(answer)
	return err
}

// hookServer joins the hooks of an environment with the host: a connection is held
// for each until it has had its one answer or is gone.
type hookServer struct {
	mu    sync.Mutex
	next  uint64
	conns map[uint64]net.Conn
	out   *json.Encoder
	write sync.Mutex
}

// hooksMain serves socket until the host, at the other end of in, is gone: then
// every hook that waits is let go without an answer.
func hooksMain(socket string, in io.Reader, out io.Writer) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	defer l.Close()
	s := &hookServer{conns: map[uint64]net.Conn{}, out: json.NewEncoder(out)}
	s.out.SetEscapeHTML(false)
	if err := s.send(hookLine{}); err != nil { // it listens
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the listener is closed
			}
			go s.serve(c)
		}
	}()
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 64<<10), hookCap+1<<10)
	for lines.Scan() {
		var m hookLine
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			return fmt.Errorf("the host wrote a line that is no JSON: %w", err)
		}
		s.answer(m)
	}
	return lines.Err()
}

func (s *hookServer) send(m hookLine) error {
	s.write.Lock()
	defer s.write.Unlock()
	return s.out.Encode(m)
}

// serve holds one hook. Nothing more is expected of it: whatever comes, its end
// first of all, means that it waits no longer.
func (s *hookServer) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReaderSize(io.LimitReader(c, hookCap+2), 64<<10)
	told, err := r.ReadBytes('\n')
	if err != nil || !json.Valid(told) {
		return
	}
	s.mu.Lock()
	s.next++
	n := s.next
	s.conns[n] = c
	s.mu.Unlock()
	if err := s.send(hookLine{N: n, Hook: told}); err != nil {
		return
	}
	_, _ = r.ReadByte() // its end, or an answer that closed it
	s.mu.Lock()
	_, waits := s.conns[n]
	delete(s.conns, n)
	s.mu.Unlock()
	if waits {
		_ = s.send(hookLine{N: n, Gone: true}) // the host is gone too, and in ends
	}
}

// answer gives a hook its answer, once. One for a hook that is gone is dropped.
func (s *hookServer) answer(m hookLine) {
	s.mu.Lock()
	c, waits := s.conns[m.N]
	delete(s.conns, m.N)
	s.mu.Unlock()
	if !waits {
		return
	}
	if len(m.Answer) > 0 && string(m.Answer) != "null" {
		_, _ = c.Write(append(m.Answer, '\n')) // it is gone; there is nobody to tell
	}
	_ = c.Close()
}
