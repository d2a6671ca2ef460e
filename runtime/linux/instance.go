//go:build linux

package linux

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"nod"
	"nod/runtime"
	"nod/runtime/egress"
	"nod/runtime/guest"
)

const (
	startPatience = 30 * time.Second // for the guest to build its environment
	stopPatience  = 10 * time.Second // for the kernel to end a killed pid namespace
)

// instance is one running environment.
type instance struct {
	*initProcess
	id      string
	env     []string      // what the image asks for
	execs   atomic.Uint64 // how many were started; the number of the newest
	proxy   *egress.Proxy
	serving sync.WaitGroup
	limiter *limiter
	cgroup  string
	log     *slog.Logger

	done chan struct{} // closed once PID 1 is reaped and everything is cleaned up
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

// launch has a PID 1 become the environment: it has begun note which process that
// is, brings it to the point where it has given up every right, and attests it. On any
// error nothing is left behind.
func (d *Driver) launch(ctx context.Context, p runtime.PreparedSpec, root root, hostUID int, begun func(process) error) (*instance, nod.Attestation, error) {
	var none nod.Attestation
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	s := p.Spec()
	ecfg := d.cfg.Egress
	ecfg.Policy, ecfg.Environment = p.Policy(), s.ID
	proxy, err := egress.New(ecfg)
	if err != nil {
		return nil, none, err
	}
	pid1, err := d.take()
	if err != nil {
		return nil, none, errors.Join(err, proxy.Close())
	}
	i := &instance{
		initProcess: pid1, id: s.ID, proxy: proxy,
		env: root.env, limiter: d.limiter, cgroup: d.cgroupName(s.ID), log: d.log, done: make(chan struct{}),
	}
	i.serving.Go(i.relayLog)
	go i.cleanUp()
	a, err := i.bring(ctx, d, p, root, hostUID, begun)
	if err != nil {
		return nil, a, errors.Join(err, i.stop(context.WithoutCancel(ctx)))
	}
	return i, a, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // an O_PATH descriptor: nothing to lose
	}
}

// bring speaks the start with PID 1.
func (i *instance) bring(ctx context.Context, d *Driver, p runtime.PreparedSpec, root root, hostUID int, begun func(process) error) (nod.Attestation, error) {
	var none nod.Attestation
	started, err := startTime(i.pid)
	if err != nil {
		return none, nod.E(nod.Unavailable, "the environment ended while it started", err)
	}
	if err := i.identify(hostUID); err != nil {
		return none, err
	}
	binds, trees, err := d.sources(p, root)
	defer closeAll(trees)
	if err != nil {
		return none, err
	}
	payload, err := json.Marshal(d.boot(p, root, binds))
	if err != nil {
		return none, nod.E(nod.Internal, "the boot message has no form", err)
	}
	if err := i.control.send(guest.FrameBoot, payload, trees...); err != nil {
		return none, nod.E(nod.Unavailable, "the environment does not listen", err)
	}
	if err := begun(process{i.pid, started}); err != nil { // while the guest builds
		return none, nod.E(nod.Internal, "the environment's state cannot be written", err)
	}
	_, files, err := i.control.expect(ctx, guest.FrameListener)
	if err != nil {
		return none, err
	}
	defer closeAll(files)
	if len(files) != 1 {
		return none, nod.E(nod.Internal, "the environment did not hand its listener out", nil)
	}
	l, err := net.FileListener(files[0])
	if err != nil {
		return none, nod.E(nod.Internal, "the environment's listener cannot be served", err)
	}
	if err := i.limiter.attach(i.cgroup, i.pid, p.Spec().Limits); err != nil {
		return none, errors.Join(err, l.Close())
	}
	i.serving.Go(func() {
		if err := i.proxy.Serve(context.WithoutCancel(ctx), l); err != nil && !i.ended() {
			i.log.Error("egress proxy ended", "environment", i.id, "err", err)
		}
	})
	if err := i.control.send(guest.FrameGo, nil); err != nil {
		return none, nod.E(nod.Unavailable, "the environment does not listen", err)
	}
	payload, _, err = i.control.expect(ctx, guest.FrameReady)
	if err != nil {
		return none, err
	}
	var ready guest.Ready
	if err := json.Unmarshal(payload, &ready); err != nil || ready.Saw == nil {
		return none, nod.E(nod.Internal, "the environment's ready message has no form", err)
	}
	if err := i.limiter.confirm(i.pid, p.Spec().Limits); err != nil {
		return none, err
	}
	return d.judge(*ready.Saw, i.id)
}

// relayLog keeps what PID 1 says on stderr, cut: it speaks only when something is
// wrong.
func (i *instance) relayLog() {
	r := i.said
	var b bytes.Buffer
	_, err := io.Copy(&b, io.LimitReader(r, 16<<10))
	if err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	if err = errors.Join(err, r.Close()); err != nil {
		i.log.Error("environment log lost", "environment", i.id, "err", err)
	}
	if b.Len() > 0 {
		i.log.Warn("environment init spoke", "environment", i.id, "text", fmt.Sprintf("%.2000q", b.String()))
	}
}

// cleanUp waits for the end of PID 1, and so of everything inside.
func (i *instance) cleanUp() {
	defer close(i.done)
	<-i.gone
	i.err = errors.Join(i.proxy.Close(), i.release())
	i.serving.Wait()
	i.err = errors.Join(i.err, i.limiter.remove(i.cgroup))
	i.log.Info("environment ended", "environment", i.id)
}

// stop kills PID 1 and returns once everything in the environment is proven to
// have ended. It may be called again.
func (i *instance) stop(ctx context.Context) error {
	if !i.ended() {
		if err := i.kill(); err != nil {
			return nod.E(nod.Unavailable, "the environment cannot be killed", err)
		}
	}
	timer := time.NewTimer(stopPatience)
	defer timer.Stop()
	select {
	case <-i.done:
	case <-ctx.Done():
		return nod.E(nod.Unavailable, "the environment was killed but its end is not proven yet", ctx.Err())
	case <-timer.C:
		return nod.E(nod.Unavailable, "the environment was killed but does not end", nil)
	}
	if i.err != nil {
		return nod.E(nod.Internal, "the environment ended but left something behind", i.err)
	}
	return nil
}
