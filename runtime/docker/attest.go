package docker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"syscall"

	"nod"
	"nod/runtime"
	"nod/runtime/contain"
	"nod/runtime/guest"
	"nod/runtime/lease"
)

// attest runs the probe inside and judges what it saw: its isolation, that the
// engine mounted the very files that Prepare judged, and the limits.
func (d *Driver) attest(ctx context.Context, i *contain.Instance, p runtime.PreparedSpec) (nod.Attestation, error) {
	places := d.places(p)
	var targets []string
	for _, src := range places {
		targets = append(targets, src.Target)
	}
	s, err := lease.Look(ctx, i.Exec, targets...)
	if err != nil {
		return nod.Attestation{}, err
	}
	a := s.Attestation
	a.Isolation = "none"
	shared, err := d.shared(s.Namespaces)
	if err != nil {
		return a, nod.E(nod.Internal, "the host's namespaces cannot be read", err)
	}
	if len(shared) == 0 {
		a.Isolation = "container"
	}
	err = a.Holds()
	s.Notes = append(s.Notes, shared...)
	if err == nil && a.Landlock < d.cfg.Landlock {
		err = nod.E(nod.Unsupported, "the environment started without landlock", nil)
	}
	for _, src := range places {
		st, ok := src.Info.Sys().(*syscall.Stat_t)
		if err == nil && (!ok || s.Files[src.Target] != fmt.Sprintf("%d:%d", st.Dev, st.Ino)) {
			err = nod.E(nod.Forbidden, "the engine mounted another file than the one that was judged", nil)
		}
	}
	if l := p.Spec().Limits; err == nil && l.Required {
		if missing := d.unmet(l, s.Limits); len(missing) > 0 {
			err = nod.E(nod.Unsupported, "the engine took limits that are not in force: "+strings.Join(missing, ", "), nil)
		}
	}
	if err != nil {
		d.log.Error("attestation does not hold", "environment", p.Spec().ID, "err", err, "notes", strings.Join(s.Notes, "; "))
	}
	return a, err
}

// shared names each namespace seen inside that is this process's own. The user
// namespace is the engine's to choose. On version 1 Podman knows no namespace for
// control groups: the paths are seen, the files are the container's own, read-only.
func (d *Driver) shared(inside map[string]string) ([]string, error) {
	var out []string
	for _, kind := range guest.NamespaceKinds {
		own, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			return nil, err
		}
		spared := kind == "user" && !d.keepID || kind == "cgroup" && d.engine.podman && d.engine.info.CgroupVersion != "2"
		if inside[kind] == "" || inside[kind] == own && !spared {
			out = append(out, "the host's "+kind+" namespace")
		}
	}
	return out, nil
}

// unmet names the limits of want that the kernel does not state inside.
func (d *Driver) unmet(want runtime.Limits, got guest.SeenLimits) []string {
	var missing []string
	const page = 64 << 10 // the kernel rounds to pages, the largest of which have 64 KiB
	if want.MemoryBytes > 0 && (got.MemoryBytes <= want.MemoryBytes-page || got.MemoryBytes > want.MemoryBytes) {
		missing = append(missing, "memory")
	}
	if want.CPUs > 0 && math.Abs(got.CPUs-want.CPUs) > 0.001 {
		missing = append(missing, "cpu")
	}
	if want.PIDs > 0 && got.PIDs != int64(want.PIDs) {
		missing = append(missing, "pids")
	}
	return missing
}

// enforced are the limits that the engine says it enforces. Podman without root
// on a version 1 hierarchy takes them, warns and ignores them.
func (d *Driver) enforced() []string {
	i := d.engine.info
	if d.engine.podman && d.keepID && i.CgroupVersion != "2" {
		return nil
	}
	var out []string
	if i.MemoryLimit {
		out = append(out, "memory")
	}
	if i.CPUCfsQuota {
		out = append(out, "cpu")
	}
	if i.PidsLimit {
		out = append(out, "pids")
	}
	return out
}

// checkLimits refuses before anything is made what could not be enforced.
func (d *Driver) checkLimits(l runtime.Limits) error {
	if !l.Required {
		return nil
	}
	have := " " + strings.Join(d.enforced(), " ") + " "
	for kind, wanted := range map[string]bool{"memory": l.MemoryBytes > 0, "cpu": l.CPUs > 0, "pids": l.PIDs > 0, "disk": l.DiskBytes > 0} {
		if wanted && !strings.Contains(have, " "+kind+" ") {
			return &nod.Error{Code: nod.Unsupported, Msg: "the engine cannot enforce a " + kind + " limit here", Hint: limitHints[kind], Err: errors.New(d.engine.about)}
		}
	}
	return nil
}

var limitHints = map[string]string{
	"memory": withoutRoot, "cpu": withoutRoot, "pids": withoutRoot,
	"disk": "a process of a container may leave a project quota, so only the embedded driver limits the disk",
}

const withoutRoot = "an engine without root enforces limits on cgroup version 2 only"
