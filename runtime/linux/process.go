//go:build linux

package linux

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"nod"
	"nod/runtime/guest"
)

// killPatience is how long a runner has to prove a kill before the environment's
// init is asked, and then killed itself.
const killPatience = 2 * time.Second

// process is the host's end of one exec.
type process struct {
	inst   *instance
	number uint64 // from 1
	conn   *net.UnixConn
	stdin  *outlet
	stdout *stream
	stderr *stream

	write sync.Mutex // one frame at a time on conn

	done   chan struct{} // closed once exit and err are set
	exit   guest.Exit
	proven bool // the runner said that nothing is left
	err    error
}

func newProcess(i *instance, conn *net.UnixConn) *process {
	p := &process{inst: i, number: i.execs.Add(1), conn: conn, stdout: newStream(), stderr: newStream(), done: make(chan struct{})}
	p.stdin = newOutlet(p)
	return p
}

func (p *process) send(t guest.Type, payload []byte) error {
	p.write.Lock()
	defer p.write.Unlock()
	return guest.WriteFrame(p.conn, t, payload)
}

// begin sends the command and waits for the runner to say that it runs.
func (p *process) begin(command []byte) error {
	if err := p.send(guest.FrameCommand, command); err != nil {
		return nod.E(nod.Unavailable, "the environment does not take the command", err)
	}
	t, payload, err := guest.ReadFrame(p.conn)
	if err != nil {
		return nod.E(nod.Unavailable, "the environment does not answer the command", err)
	}
	var s guest.Started
	if t != guest.FrameStarted {
		return nod.E(nod.Internal, "the environment answered something else", nil)
	}
	if err := json.Unmarshal(payload, &s); err != nil {
		return nod.E(nod.Internal, "the environment's answer has no form", err)
	}
	if s.Err != "" {
		return nod.E(s.Code, "the command does not start", errors.New(s.Err))
	}
	return nil
}

// abandon closes the socket, upon which a runner ends everything it started.
func (p *process) abandon(err error) error {
	return errors.Join(err, p.conn.Close())
}

// receive takes everything that the runner says until its end.
func (p *process) receive() {
	p.err = p.take()
	// Without the runner's word there may be survivors, which PID 1 can end.
	if p.err != nil {
		p.stdout.discard()
		p.stderr.discard()
		p.proven, p.err = p.recover(p.err)
	}
	if err := p.conn.Close(); err != nil && p.err == nil {
		p.err = nod.E(nod.Internal, "the command's socket cannot be closed", err)
	}
	p.stdin.fail()
	p.stdout.finish()
	p.stderr.finish()
	close(p.done)
}

func (p *process) take() error {
	for {
		t, payload, err := guest.ReadFrame(p.conn)
		if err != nil {
			return err
		}
		switch t {
		case guest.FrameStdout:
			p.stdout.put(payload)
		case guest.FrameStderr:
			p.stderr.put(payload)
		case guest.FrameCredit:
			if len(payload) != 4 || !p.stdin.credit(int(binary.BigEndian.Uint32(payload))) {
				return errors.New("more credit than was spent")
			}
		case guest.FrameExit:
			if err := json.Unmarshal(payload, &p.exit); err != nil {
				return err
			}
			if !p.exit.Reaped {
				return errors.New("the runner left children")
			}
			p.proven = true
			return nil
		default:
			return errors.New("a frame that no runner sends")
		}
	}
}

// recover ends what a runner that broke off has left. The error it returns tells
// that the exit status is lost; proven is whether nothing survives.
func (p *process) recover(cause error) (proven bool, err error) {
	lost := nod.E(nod.Unavailable, "the command ended without a status", cause)
	if p.inst.ended() {
		return true, lost
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*killPatience)
	defer cancel()
	if err := p.inst.control.sweep(ctx, p.number); err == nil {
		return true, lost
	}
	// The last step: with PID 1 everything ends.
	if err := p.inst.stop(context.Background()); err != nil {
		return false, errors.Join(lost, err)
	}
	return true, lost
}

func (p *process) Stdin() io.WriteCloser { return p.stdin }
func (p *process) Stdout() io.Reader     { return p.stdout }
func (p *process) Stderr() io.Reader     { return p.stderr }

// Wait returns the exit status once every descendant has ended too.
func (p *process) Wait() (nod.ExitStatus, error) {
	<-p.done
	return nod.ExitStatus{Code: p.exit.Code, Signal: p.exit.Signal}, p.err
}

// Kill ends the command and its descendants. The ladder: the runner kills until
// the kernel says that it has no child; PID 1 sweeps; PID 1 is killed. Unread
// output is dropped.
func (p *process) Kill(ctx context.Context) error {
	p.stdout.discard()
	p.stderr.discard()
	// A socket that cannot be written belongs to a runner that has ended, or ends
	// now: what counts is what follows.
	sendErr := p.send(guest.FrameKill, nil)
	timer := time.NewTimer(killPatience)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-ctx.Done():
		return nod.E(nod.Unavailable, "the command's end is not proven yet", errors.Join(ctx.Err(), sendErr))
	case <-timer.C:
		// The runner is stopped, or stuck. Cutting it off has receive ask PID 1, and
		// then end PID 1 itself.
		p.inst.log.Warn("command does not end by its runner", "environment", p.inst.id)
		if err := p.conn.SetReadDeadline(time.Unix(1, 0)); err != nil && !errors.Is(err, net.ErrClosed) {
			return nod.E(nod.Internal, "the command's runner cannot be cut off", err)
		}
		select {
		case <-p.done:
		case <-ctx.Done():
			return nod.E(nod.Unavailable, "the command's end is not proven yet", ctx.Err())
		}
	}
	if !p.proven {
		return nod.E(nod.Internal, "the command's end is not proven", p.err)
	}
	return nil
}
