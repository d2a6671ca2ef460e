//go:build linux

package linux

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"nod"
	"nod/runtime/guest"
)

// control is the host's end of the socket to PID 1.
type control struct {
	conn *net.UnixConn
	mu   sync.Mutex // one question and its answer at a time, once PID 1 serves
}

func controlPair() (*control, *os.File, error) {
	host, child, err := socketPair(unix.SOCK_SEQPACKET)
	if err != nil {
		return nil, nil, err
	}
	return &control{conn: host}, child, nil
}

// socketPair returns this process's end and the other, both closed on exec.
func socketPair(kind int) (*net.UnixConn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	own, other := os.NewFile(uintptr(fds[0]), "own"), os.NewFile(uintptr(fds[1]), "other")
	conn, err := net.FileConn(own) // a copy
	if err = errors.Join(err, own.Close()); err != nil {
		return nil, nil, errors.Join(err, other.Close())
	}
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, nil, errors.Join(errors.New("not a unix socket"), conn.Close(), other.Close())
	}
	return u, other, nil
}

func (c *control) close() error {
	if err := c.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// send sends one frame with files attached.
func (c *control) send(t guest.Type, payload []byte, files ...*os.File) error {
	b, err := guest.AppendFrame(nil, t, payload)
	if err != nil {
		return err
	}
	var rights []byte
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			fds[i] = int(f.Fd())
		}
		rights = unix.UnixRights(fds...)
	}
	_, _, err = c.conn.WriteMsgUnix(b, rights, nil)
	return err
}

// expect reads the next frame, which must be of type t. A guest that reports a
// failure instead has it returned.
func (c *control) expect(ctx context.Context, t guest.Type) ([]byte, []*os.File, error) {
	got, payload, files, err := c.receive(ctx)
	switch {
	case errors.Is(err, io.EOF):
		return nil, nil, nod.E(nod.Unavailable, "the environment ended while it started", err)
	case err != nil:
		return nil, nil, nod.E(nod.Unavailable, "the environment does not answer", err)
	case got == guest.FrameFailed:
		var f guest.Failure
		if err := json.Unmarshal(payload, &f); err != nil {
			return nil, nil, nod.E(nod.Internal, "the environment failed without a reason", err)
		}
		return nil, nil, startError(&guestError{f})
	case got != t:
		closeAll(files)
		return nil, nil, nod.E(nod.Internal, "the environment answered something else", nil)
	}
	return payload, files, nil
}

func (c *control) receive(ctx context.Context) (guest.Type, []byte, []*os.File, error) {
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetReadDeadline(time.Unix(1, 0)) })
	defer func() {
		if stop() {
			return
		}
		_ = c.conn.SetReadDeadline(time.Time{}) // only a closed socket refuses
	}()
	buf, oob := make([]byte, 16<<10), make([]byte, unix.CmsgSpace(4*4))
	n, oobn, flags, _, err := c.conn.ReadMsgUnix(buf, oob)
	if err != nil {
		return 0, nil, nil, err
	}
	var files []*os.File
	if oobn > 0 {
		messages, err := unix.ParseSocketControlMessage(oob[:oobn])
		if err != nil {
			return 0, nil, nil, err
		}
		for _, m := range messages {
			fds, err := unix.ParseUnixRights(&m)
			if err != nil {
				return 0, nil, nil, err
			}
			for _, fd := range fds {
				files = append(files, os.NewFile(uintptr(fd), "guest"))
			}
		}
	}
	if n == 0 {
		closeAll(files)
		return 0, nil, nil, io.EOF
	}
	t, payload, err := guest.ParsePacket(buf[:n])
	if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = io.ErrShortBuffer
	}
	return t, payload, files, err
}

// sweep has PID 1 end one exec and whatever dead runners left, and waits for its
// word.
func (c *control) sweep(ctx context.Context, number uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.send(guest.FrameSweep, binary.BigEndian.AppendUint64(nil, number)); err != nil {
		return err
	}
	_, _, err := c.expect(ctx, guest.FrameSwept)
	return err
}

// guestError is a failure that PID 1 reported.
type guestError struct{ guest.Failure }

func (e *guestError) Error() string { return e.Step + ": " + e.Err }
func (e *guestError) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return syscall.Errno(e.Errno)
}
