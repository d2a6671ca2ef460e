package lease

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"nod"
	"nod/runtime/guest"
)

const probePatience = 20 * time.Second

// Look runs the guest's probe by exec and returns what it saw, with the identity
// of each of paths.
func Look(ctx context.Context, exec func(context.Context, nod.Command) (nod.Process, error), paths ...string) (guest.Sighting, error) {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	var s guest.Sighting
	p, err := exec(ctx, nod.Command{Argv: append([]string{nod.GuestPath, guest.RoleProbe}, paths...), Dir: "/"})
	if err != nil {
		return s, err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Kill(context.WithoutCancel(ctx)) })
	defer stop()
	if err := p.Stdin().Close(); err != nil {
		return s, nod.E(nod.Unavailable, "the probe does not take its end of input", err)
	}
	out, err := io.ReadAll(io.LimitReader(p.Stdout(), 64<<10))
	if err != nil {
		return s, nod.E(nod.Unavailable, "the probe's report cannot be read", err)
	}
	said, err := io.ReadAll(io.LimitReader(p.Stderr(), 4<<10))
	if err != nil {
		return s, nod.E(nod.Unavailable, "the probe's report cannot be read", err)
	}
	status, err := p.Wait()
	if err != nil || status.Code != 0 {
		return s, nod.E(nod.Unavailable, "the probe inside the environment did not end well", errors.Join(err, errors.New(string(said))))
	}
	if err := json.Unmarshal(out, &s); err != nil {
		return s, nod.E(nod.Internal, "the probe's report has no form", err)
	}
	return s, nil
}
