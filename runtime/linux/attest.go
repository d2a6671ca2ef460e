//go:build linux

package linux

import (
	"context"
	"os"
	"strings"

	"nod"
	"nod/runtime/guest"
	"nod/runtime/lease"
)

// attest runs the probe inside and judges what it saw.
func (d *Driver) attest(ctx context.Context, i *instance) (nod.Attestation, error) {
	s, err := lease.Look(ctx, i.exec)
	if err != nil {
		return nod.Attestation{}, err
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
