//go:build linux

package linux

import (
	"context"
	"encoding/binary"
	"time"

	"golang.org/x/sys/unix"

	"nod"
	"nod/runtime/guest"
	"nod/runtime/lease"
)

// sweepPatience is how long PID 1 has to end what a runner left, before it is
// killed itself.
const sweepPatience = 6 * time.Second

// exec has PID 1 start a runner on a socket of its own, and the runner the command.
func (i *instance) exec(ctx context.Context, c nod.Command) (nod.Process, error) {
	payload, err := lease.Encode(c, i.env)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	own, other, err := socketPair(unix.SOCK_STREAM)
	if err != nil {
		return nil, nod.E(nod.Unavailable, "no socket for the command", err)
	}
	end := i.proxy.Begin()
	number := i.execs.Add(1)
	sendErr := i.control.send(guest.FrameExec, binary.BigEndian.AppendUint64(nil, number), other)
	_ = other.Close() // the guest has its own
	if sendErr != nil {
		end()
		_ = own.Close() // nobody is at the other end
		return nil, nod.E(nod.Unavailable, "the environment does not listen", sendErr)
	}
	p, err := lease.Begin(ctx, lease.Config{
		Conn: own, Log: i.log.With("environment", i.id),
		Cut:     func() { _ = own.SetDeadline(time.Unix(1, 0)) }, // only a closed socket refuses
		Recover: func(ctx context.Context, _ uint64) error { return i.recover(ctx, number) },
		Ended:   end,
	}, payload)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// recover ends the exec whose runner broke off: PID 1 sweeps, or ends with
// everything.
func (i *instance) recover(ctx context.Context, number uint64) error {
	if i.ended() {
		return nil
	}
	sweep, cancel := context.WithTimeout(ctx, sweepPatience)
	defer cancel()
	if err := i.control.sweep(sweep, number); err == nil {
		return nil
	}
	return i.stop(ctx)
}
