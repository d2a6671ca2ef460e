//go:build linux

package linux

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"nod"
	"nod/runtime/guest"
)

const probePatience = 20 * time.Second

// attest runs the probe inside and judges what it saw.
func (d *Driver) attest(ctx context.Context, i *instance) (nod.Attestation, error) {
	ctx, cancel := context.WithTimeout(ctx, probePatience)
	defer cancel()
	p, err := i.exec(ctx, nod.Command{Argv: []string{nod.GuestPath, guest.RoleProbe}, Dir: "/"})
	if err != nil {
		return nod.Attestation{}, err
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Kill(context.WithoutCancel(ctx)) })
	defer stop()
	if err := p.Stdin().Close(); err != nil {
		return nod.Attestation{}, nod.E(nod.Unavailable, "the probe does not take its end of input", err)
	}
	out, err := io.ReadAll(io.LimitReader(p.Stdout(), 64<<10))
	if err != nil {
		return nod.Attestation{}, nod.E(nod.Unavailable, "the probe's report cannot be read", err)
	}
	said, err := io.ReadAll(io.LimitReader(p.Stderr(), 4<<10))
	if err != nil {
		return nod.Attestation{}, nod.E(nod.Unavailable, "the probe's report cannot be read", err)
	}
	status, err := p.Wait()
	if err != nil || status.Code != 0 {
		return nod.Attestation{}, nod.E(nod.Unavailable, "the probe inside the environment did not end well", errors.Join(err, errors.New(string(said))))
	}
	var s guest.Sighting
	if err := json.Unmarshal(out, &s); err != nil {
		return nod.Attestation{}, nod.E(nod.Internal, "the probe's report has no form", err)
	}
	a := s.Attestation
	a.Isolation = "none"
	if apart, err := separate(s.Namespaces); err != nil {
		return a, nod.E(nod.Internal, "the host's namespaces cannot be read", err)
	} else if apart {
		a.Isolation = "namespaces"
	}
	if err := a.Holds(); err != nil {
		d.log.Error("attestation does not hold", "environment", i.id, "notes", strings.Join(s.Notes, "; "))
		return a, err
	}
	if a.Landlock < d.landlock {
		d.log.Error("attestation does not hold", "environment", i.id, "notes", strings.Join(s.Notes, "; "))
		return a, nod.E(nod.Unsupported, "the environment started without landlock", nil)
	}
	return a, nil
}

// separate reports whether each namespace seen inside is another than the host's.
func separate(inside map[string]string) (bool, error) {
	for _, kind := range guest.NamespaceKinds {
		own, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			return false, err
		}
		if inside[kind] == "" || inside[kind] == own {
			return false, nil
		}
	}
	return true, nil
}
