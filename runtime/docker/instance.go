package docker

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"nod"
	"nod/runtime"
	"nod/runtime/egress"
	"nod/runtime/guest"
	"nod/runtime/lease"
)

const (
	startPatience = 30 * time.Second // for the engine and the guest
	sweepPatience = 6 * time.Second  // for PID 1 to end what a runner left, before it is killed
)

// instance is one running environment.
type instance struct {
	id        string
	container string
	engine    *engine
	landlock  string
	control   net.Conn   // to PID 1, which ends with it
	asking    sync.Mutex // one question and its answer at a time
	answers   chan guest.Type
	proxy     *egress.Proxy
	serving   sync.WaitGroup
	log       *slog.Logger

	done chan struct{} // closed once the engine says that the container has ended
	err  error         // of the clean-up, set before done is closed
}

func (i *instance) ended() bool {
	select {
	case <-i.done:
		return true
	default:
		return false
	}
}

// launch starts the container and waits for the word of its PID 1. On any error
// nothing is left running.
func (d *Driver) launch(ctx context.Context, p runtime.PreparedSpec, container string) (_ *instance, err error) {
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	if err := d.samePlaces(p); err != nil {
		return nil, err
	}
	s := p.Spec()
	ecfg := d.cfg.Egress
	ecfg.Policy, ecfg.Environment = p.Policy(), s.ID
	proxy, err := egress.New(ecfg)
	if err != nil {
		return nil, err
	}
	i := &instance{id: s.ID, container: container, engine: d.engine, proxy: proxy, log: d.log, landlock: landlockArg(d.cfg.Landlock),
		answers: make(chan guest.Type, 1), done: make(chan struct{})}
	way, err := listen(d.socketDir(s.ID), filepath.Base(guest.EgressSocket))
	if err != nil {
		return nil, errors.Join(err, proxy.Close())
	}
	i.serving.Go(func() {
		if err := proxy.Serve(context.WithoutCancel(ctx), way); err != nil && !i.ended() {
			d.log.Error("egress proxy ended", "environment", s.ID, "err", err)
		}
	})
	if err := i.begin(ctx, d); err != nil {
		err = errors.Join(err, d.engine.end(context.WithoutCancel(ctx), container), proxy.Close())
		i.serving.Wait()
		return nil, err
	}
	go i.watch()
	return i, nil
}

func (i *instance) begin(ctx context.Context, d *Driver) (err error) {
	l, err := listen(d.socketDir(i.id), filepath.Base(guest.ControlSocket))
	if err != nil {
		return err
	}
	// The first to come is PID 1: nothing else runs yet. After it nobody can.
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := i.engine.call(ctx, "POST", "/containers/"+i.container+"/start", nil, nil); err != nil {
		return startError(err)
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
		if i.engine.hasEnded(waiting, i.container) {
			_ = l.SetDeadline(time.Unix(1, 0)) // a closed listener has nobody waiting
		}
	}()
	if i.control, err = l.Accept(); err != nil {
		return nod.E(nod.Unavailable, "the container ended, or does not answer, while it started", errors.Join(err, errors.New(i.engine.logs(i.container))))
	}
	if err := i.ready(ctx); err != nil {
		return errors.Join(err, i.control.Close())
	}
	return nil
}

func (i *instance) ready(ctx context.Context) error {
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
func (i *instance) watch() {
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
	i.err = errors.Join(i.engine.end(context.Background(), i.container), i.proxy.Close(), i.control.Close())
	i.serving.Wait()
	i.log.Info("environment ended", "environment", i.id)
}

// stop ends the container and returns once that is proven. It may be called again.
func (i *instance) stop(ctx context.Context) error {
	if !i.ended() {
		if err := i.engine.end(ctx, i.container); err != nil {
			return err
		}
	}
	select {
	case <-i.done:
	case <-ctx.Done():
		return nod.E(nod.Unavailable, "the environment was killed but its end is not proven yet", ctx.Err())
	case <-time.After(endPatience):
		return nod.E(nod.Unavailable, "the environment was killed but its clean-up does not end", nil)
	}
	if i.err != nil {
		return nod.E(nod.Internal, "the environment ended but left something behind", i.err)
	}
	return nil
}

// exec has the engine start a runner, and the runner the command.
func (i *instance) exec(ctx context.Context, c nod.Command) (nod.Process, error) {
	payload, err := lease.Encode(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	var made struct {
		ID string `json:"Id"`
	}
	// Nothing of the command is here: the engine shows this to whoever may ask.
	create := map[string]any{"AttachStdin": true, "AttachStdout": true, "AttachStderr": true, "Tty": false, "User": agent, "WorkingDir": "/",
		"Cmd": []string{nod.GuestPath, guest.RoleEnter, i.landlock}}
	if err := i.engine.call(ctx, "POST", "/containers/"+i.container+"/exec", create, &made); err != nil {
		return nil, i.execError(err)
	}
	if !containerID.MatchString(made.ID) {
		return nil, nod.E(nod.Internal, "the engine answered with no exec's id", nil)
	}
	s, err := i.engine.hijack(ctx, "/exec/"+made.ID+"/start", map[string]any{"Detach": false, "Tty": false})
	if err != nil {
		return nil, i.execError(err)
	}
	p, err := lease.Begin(ctx, lease.Config{Conn: s, Cut: s.cut, Recover: i.recover, Log: i.log.With("environment", i.id)}, payload)
	if err != nil {
		if said := s.stderr(); said != "" {
			i.log.Warn("exec runner spoke", "environment", i.id, "text", said)
		}
		return nil, err
	}
	return p, nil
}

func (i *instance) execError(err error) error {
	if refused(err, 404, 409) {
		return nod.E(nod.Conflict, "the environment is not running", err)
	}
	return nod.E(nod.Unavailable, "the engine does not start the command", err)
}

// recover ends the exec whose runner broke off: PID 1 sweeps, or ends with
// everything.
func (i *instance) recover(ctx context.Context, runner uint64) error {
	if i.ended() {
		return nil
	}
	if err := i.sweep(runner); err == nil {
		return nil
	}
	return i.stop(ctx)
}

func (i *instance) sweep(runner uint64) error {
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

// samePlaces refuses when another file took a source's place.
func (d *Driver) samePlaces(p runtime.PreparedSpec) error {
	for _, src := range d.places(p) {
		now, err := os.Lstat(src.Path)
		if err != nil || !os.SameFile(now, src.Info) {
			return nod.E(nod.Forbidden, "another file took a source's place", err)
		}
	}
	return plainTargets(p)
}
