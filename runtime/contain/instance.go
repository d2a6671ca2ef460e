package contain

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"nod"
	"nod/runtime/egress"
	"nod/runtime/guest"
	"nod/runtime/lease"
)

const (
	startPatience = 30 * time.Second // for the engine and the guest
	sweepPatience = 6 * time.Second  // for PID 1 to end what a runner left, before it is killed
)

// Engine is what starts containers. Its methods are safe for concurrent use.
type Engine interface {
	// Start starts a container that was created.
	Start(ctx context.Context, container string) error
	// End kills it and returns once it has ended. One that has is no error.
	End(ctx context.Context, container string) error
	// HasEnded waits until it has ended; false is that nobody knows.
	HasEnded(ctx context.Context, container string) bool
	// Logs is what its init has said, cut.
	Logs(container string) string
	// Exec starts argv in it. Closing the streams must end its stdin.
	Exec(ctx context.Context, container string, argv []string) (Streams, error)
}

// Streams are stdin and stdout of a process in a container.
type Streams interface {
	io.ReadWriteCloser
	Cut()         // makes every Read and Write fail, at any time
	Said() string // what came on stderr so far, cut
}

// Config is one container to start.
type Config struct {
	ID        string // of the environment
	Container string // its name for the engine
	Engine    Engine
	SocketDir string   // mounted at guest.SocketDir
	Landlock  int      // the least version required; 0 is none
	Env       []string // NAME=value, what the image asks for
	Egress    egress.Config
	Log       *slog.Logger
}

// Instance is one running environment.
type Instance struct {
	cfg     Config
	control net.Conn   // to PID 1, which ends with it
	asking  sync.Mutex // one question and its answer at a time
	answers chan guest.Type
	proxy   *egress.Proxy
	serving sync.WaitGroup
	log     *slog.Logger

	done chan struct{} // closed once the engine says that the container has ended
	err  error         // of the clean-up, set before done is closed
}

// Ended reports whether everything in it is proven to have ended.
func (i *Instance) Ended() bool {
	select {
	case <-i.done:
		return true
	default:
		return false
	}
}

// Update swaps the egress policy, as egress.Proxy.Update does.
func (i *Instance) Update(p *egress.Policy) error { return i.proxy.Update(p) }

// Start starts the container and waits for the word of its PID 1. On any error
// nothing is left running.
func Start(ctx context.Context, c Config) (_ *Instance, err error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	proxy, err := egress.New(c.Egress)
	if err != nil {
		return nil, err
	}
	i := &Instance{cfg: c, proxy: proxy, log: c.Log.With("environment", c.ID), answers: make(chan guest.Type, 1), done: make(chan struct{})}
	way, err := listen(c.SocketDir, filepath.Base(guest.EgressSocket))
	if err != nil {
		return nil, errors.Join(err, proxy.Close())
	}
	i.serving.Go(func() {
		if err := proxy.Serve(context.WithoutCancel(ctx), way); err != nil && !i.Ended() {
			i.log.Error("egress proxy ended", "err", err)
		}
	})
	if err := i.begin(ctx); err != nil {
		err = errors.Join(err, c.Engine.End(context.WithoutCancel(ctx), c.Container), proxy.Close())
		i.serving.Wait()
		return nil, err
	}
	go i.watch()
	return i, nil
}

func (i *Instance) begin(ctx context.Context) (err error) {
	l, err := listen(i.cfg.SocketDir, filepath.Base(guest.ControlSocket))
	if err != nil {
		return err
	}
	// The first to come is PID 1: nothing else runs yet. After it nobody can.
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := i.cfg.Engine.Start(ctx, i.cfg.Container); err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := l.SetDeadline(deadline); err != nil {
			return err
		}
	}
	ended := make(chan struct{})
	defer func() { <-ended }()
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		defer close(ended)
		if i.cfg.Engine.HasEnded(waiting, i.cfg.Container) {
			_ = l.SetDeadline(time.Unix(1, 0)) // a closed listener has nobody waiting
		}
	}()
	if i.control, err = l.Accept(); err != nil {
		return nod.E(nod.Unavailable, "the container ended, or does not answer, while it started", errors.Join(err, errors.New(i.cfg.Engine.Logs(i.cfg.Container))))
	}
	if err := i.ready(ctx); err != nil {
		return errors.Join(err, i.control.Close())
	}
	return nil
}

func (i *Instance) ready(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok {
		if err := i.control.SetReadDeadline(deadline); err != nil {
			return err
		}
	}
	t, payload, err := guest.ReadFrame(i.control)
	var r guest.Ready
	if err == nil && t == guest.FrameReady {
		err = json.Unmarshal(payload, &r)
	}
	if err != nil || t != guest.FrameReady {
		return nod.E(nod.Unavailable, "the container's init does not say that it is ready", err)
	}
	return i.control.SetReadDeadline(time.Time{})
}

// watch takes PID 1's answers until it is gone, and then has the engine confirm
// that the container is.
func (i *Instance) watch() {
	defer close(i.done)
	for {
		t, _, err := guest.ReadFrame(i.control)
		if err != nil {
			break
		}
		select {
		case i.answers <- t:
		default: // nobody asked
		}
	}
	i.err = errors.Join(i.cfg.Engine.End(context.Background(), i.cfg.Container), i.proxy.Close(), i.control.Close())
	i.serving.Wait()
	i.log.Info("environment ended")
}

// Stop ends the container and returns once that is proven. It may be called again.
func (i *Instance) Stop(ctx context.Context) error {
	if !i.Ended() {
		if err := i.cfg.Engine.End(ctx, i.cfg.Container); err != nil {
			return err
		}
	}
	select {
	case <-i.done:
	case <-ctx.Done():
		return nod.E(nod.Unavailable, "the environment was killed but its end is not proven yet", ctx.Err())
	case <-time.After(startPatience):
		return nod.E(nod.Unavailable, "the environment was killed but its clean-up does not end", nil)
	}
	if i.err != nil {
		return nod.E(nod.Internal, "the environment ended but left something behind", i.err)
	}
	return nil
}

// Exec has the engine start a runner, and the runner the command.
func (i *Instance) Exec(ctx context.Context, c nod.Command) (nod.Process, error) {
	payload, err := lease.Encode(c, i.cfg.Env)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	end := i.proxy.Begin()
	// Nothing of the command is here: an engine shows this to whoever may ask.
	s, err := i.cfg.Engine.Exec(ctx, i.cfg.Container, []string{nod.GuestPath, guest.RoleEnter, strconv.Itoa(i.cfg.Landlock)})
	if err != nil {
		end()
		return nil, err
	}
	p, err := lease.Begin(ctx, lease.Config{Conn: s, Cut: s.Cut, Recover: i.recover, Ended: end, Log: i.log}, payload)
	if err != nil {
		if said := s.Said(); said != "" {
			i.log.Warn("exec runner spoke", "text", said)
		}
		return nil, err
	}
	return p, nil
}

// recover ends the exec whose runner broke off: PID 1 sweeps, or ends with
// everything.
func (i *Instance) recover(ctx context.Context, runner uint64) error {
	if i.Ended() {
		return nil
	}
	if err := i.sweep(runner); err == nil {
		return nil
	}
	return i.Stop(ctx)
}

func (i *Instance) sweep(runner uint64) error {
	i.asking.Lock()
	defer i.asking.Unlock()
	if err := i.control.SetWriteDeadline(time.Now().Add(sweepPatience)); err != nil {
		return err
	}
	if err := guest.WriteFrame(i.control, guest.FrameSweep, binary.BigEndian.AppendUint64(nil, runner)); err != nil {
		return err
	}
	select {
	case t := <-i.answers:
		if t != guest.FrameSwept {
			return errors.New("the container's init answered something else")
		}
		return nil
	case <-i.done:
		return nil
	case <-time.After(sweepPatience):
		return errors.New("the container's init does not answer")
	}
}
