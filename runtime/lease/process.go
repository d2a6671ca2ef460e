package lease

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"nod"
	"nod/runtime/guest"
)

// killPatience is how long a runner has to prove a kill before it is cut off and
// the driver asked.
const killPatience = 2 * time.Second

// Config is one exec's connection to its runner.
type Config struct {
	// Conn carries frames both ways. Closing it ends the exec. Required.
	Conn io.ReadWriteCloser
	// Cut makes a pending and every later Read of Conn fail; it may be called more
	// than once and while Conn is closed. Required.
	Cut func()
	// Recover ends what a runner that broke off has left, the runner included, and
	// returns nil only when that is proven. Runner is what the runner said of
	// itself. Required.
	Recover func(ctx context.Context, runner uint64) error
	// Ended, when set, is called once: when the command has ended, or has not begun.
	Ended func()
	Log   *slog.Logger // required
}

// Process is a running command. It implements nod.Process.
type Process struct {
	cfg    Config
	runner uint64
	// terminal says that stdin and stdout are one.
	terminal bool
	stdin    *outlet
	stdout   *stream
	stderr   *stream

	write sync.Mutex // one frame at a time on Conn

	done   chan struct{} // closed once exit and err are set
	exit   guest.Exit
	proven bool // the runner, or the driver, said that nothing is left
	err    error
}

var (
	_ nod.Process  = (*Process)(nil)
	_ nod.Terminal = (*Process)(nil)
)

// Begin sends payload, made by Encode, and returns once the runner says that the
// command runs; ctx bounds that. On an error the connection is closed.
func Begin(ctx context.Context, c Config, payload []byte) (*Process, error) {
	p := &Process{cfg: c, stdout: newStream(), stderr: newStream(), done: make(chan struct{})}
	p.stdin = newOutlet(p)
	stop := context.AfterFunc(ctx, c.Cut)
	err := p.begin(payload)
	if !stop() && err == nil {
		err = nod.E(nod.Unavailable, "the start of the command took too long", ctx.Err())
	}
	if err != nil {
		if c.Ended != nil {
			c.Ended()
		}
		return nil, errors.Join(err, c.Conn.Close())
	}
	go p.receive()
	return p, nil
}

// Resize tells a command on a terminal how large that is now. Errors are Invalid
// when it has none, and Unavailable.
func (p *Process) Resize(w nod.Window) error {
	if !p.terminal {
		return nod.E(nod.Invalid, "the command has no terminal", nil)
	}
	if err := p.send(guest.FrameResize, guest.AppendWindow(nil, w)); err != nil {
		return nod.E(nod.Unavailable, "the command's terminal cannot be told its size", err)
	}
	return nil
}

func (p *Process) send(t guest.Type, payload []byte) error {
	p.write.Lock()
	defer p.write.Unlock()
	return guest.WriteFrame(p.cfg.Conn, t, payload)
}

func (p *Process) begin(command []byte) error {
	if err := p.send(guest.FrameCommand, command); err != nil {
		return nod.E(nod.Unavailable, "the environment does not take the command", err)
	}
	t, payload, err := guest.ReadFrame(p.cfg.Conn)
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
	p.runner, p.terminal = s.Runner, s.Terminal
	return nil
}

// receive takes everything that the runner says until its end.
func (p *Process) receive() {
	p.err = p.take()
	// Without the runner's word there may be survivors, which the driver can end.
	if p.err != nil {
		p.stdout.discard()
		p.stderr.discard()
		lost := nod.E(nod.Unavailable, "the command ended without a status", p.err)
		err := p.cfg.Recover(context.Background(), p.runner)
		p.proven, p.err = err == nil, lost
		if err != nil {
			p.err = errors.Join(lost, err)
		}
	}
	if err := p.cfg.Conn.Close(); err != nil && p.err == nil {
		p.err = nod.E(nod.Internal, "the command's connection cannot be closed", err)
	}
	p.stdin.fail()
	p.stdout.finish()
	p.stderr.finish()
	if p.cfg.Ended != nil {
		p.cfg.Ended()
	}
	close(p.done)
}

func (p *Process) take() error {
	for {
		t, payload, err := guest.ReadFrame(p.cfg.Conn)
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

func (p *Process) Stdin() io.WriteCloser { return p.stdin }
func (p *Process) Stdout() io.Reader     { return p.stdout }
func (p *Process) Stderr() io.Reader     { return p.stderr }

// Wait returns the exit status once every descendant has ended too.
func (p *Process) Wait() (nod.ExitStatus, error) {
	<-p.done
	return nod.ExitStatus{Code: p.exit.Code, Signal: p.exit.Signal}, p.err
}

// Kill ends the command and its descendants: the runner kills until the kernel
// says that it has no child; when it does not, the driver's Recover has the word.
// Unread output is dropped.
func (p *Process) Kill(ctx context.Context) error {
	p.stdout.discard()
	p.stderr.discard()
	// A runner that takes its input no longer would block the write: it is cut off
	// with the rest. What cannot be written is for one that ends now anyway.
	go func() { _ = p.send(guest.FrameKill, nil) }()
	timer := time.NewTimer(killPatience)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-ctx.Done():
		return nod.E(nod.Unavailable, "the command's end is not proven yet", ctx.Err())
	case <-timer.C:
		// The runner is stopped, or stuck.
		p.cfg.Log.Warn("command does not end by its runner")
		p.cfg.Cut()
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
