//go:build linux

package linux

import (
	"os"
	"strings"

	"nod"
	"nod/runtime/guest"
)

// judge says whether what the probe saw in the environment id is what it must see.
func (d *Driver) judge(s guest.Sighting, id string) (nod.Attestation, error) {
	a := s.Attestation
	a.Isolation = "none"
	if apart, err := separate(s.Namespaces); err != nil {
		return a, nod.E(nod.Internal, "the host's namespaces cannot be read", err)
	} else if apart {
		a.Isolation = "namespaces"
	}
	if err := a.Holds(); err != nil {
		d.log.Error("attestation does not hold", "environment", id, "notes", strings.Join(s.Notes, "; "))
		return a, err
	}
	if a.Landlock < d.landlock {
		d.log.Error("attestation does not hold", "environment", id, "notes", strings.Join(s.Notes, "; "))
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
