package apple

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"nod"
	"nod/runtime"
	"nod/runtime/guest"
)

const (
	labelSupervisor = "nod.supervisor"
	labelOwner      = "nod.owner"
	labelEnv        = "nod.env"
	defaultTmp      = 1 << 30
	agent           = "1000:1000"
)

// createArgs is the whole argument list of a create. None of it is secret.
func (d *Driver) createArgs(p runtime.PreparedSpec) ([]string, error) {
	s := p.Spec()
	tmp := s.Limits.TmpBytes
	if tmp == 0 {
		tmp = defaultTmp
	}
	args := []string{"create", "--name", d.name(s.ID), "--network", "none", "--no-dns", "--read-only", "--cap-drop", "ALL", "-u", agent, "-w", "/"}
	if n := int(s.Limits.CPUs); n > 0 {
		args = append(args, "-c", strconv.Itoa(n))
	}
	if n := s.Limits.MemoryBytes >> 20; n > 0 {
		args = append(args, "-m", fmt.Sprintf("%dM", n))
	}
	args = append(args, "--ulimit", "nofile=16384", "--ulimit", "core=0", "--shm-size", "64M")
	for _, t := range []struct {
		target string
		size   int64
	}{{"/tmp", tmp}, {guest.ProbeDir, 64 << 10}, {runtime.HomePath, tmp}} {
		if t.target == runtime.HomePath && p.Home().Info != nil {
			continue
		}
		args = append(args, "--mount", fmt.Sprintf("type=tmpfs,target=%s,size=%d,mode=1777", t.target, t.size))
	}
	for _, src := range places(p) {
		option := ":ro"
		if src.Target == runtime.WorkspacePath || src.Target == runtime.HomePath {
			option = ""
		}
		if strings.ContainsAny(src.Path+src.Target, ":,=") {
			return nil, nod.E(nod.Unsupported, "a path with ':', ',' or '=' cannot be mounted by the container program", nil)
		}
		args = append(args, "-v", src.Path+":"+src.Target+option)
	}
	args = append(args, "-v", d.guest+":"+nod.GuestPath+":ro")
	// A socket as source becomes a way from the machine to the host.
	for _, socket := range []string{guest.EgressSocket, guest.ControlSocket} {
		args = append(args, "-v", filepath.Join(d.socketDir(s.ID), filepath.Base(socket))+":"+socket)
	}
	for _, l := range [][2]string{{labelSupervisor, d.supervisor}, {labelOwner, s.Owner}, {labelEnv, s.ID}} {
		args = append(args, "-l", l[0]+"="+l[1]) // none has a "=" of its own, see runtime.Prepare
	}
	return append(args, "--entrypoint", nod.GuestPath, d.cfg.Image, guest.RoleContain, strconv.Itoa(d.cfg.Landlock)), nil
}

// places are p's own sources.
func places(p runtime.PreparedSpec) []runtime.Source {
	list := []runtime.Source{p.Workspace()}
	if p.Home().Info != nil {
		list = append(list, p.Home())
	}
	return append(list, p.Mounts()...)
}

// samePlaces refuses when another file took a source's place.
func samePlaces(p runtime.PreparedSpec) error {
	for _, src := range places(p) {
		now, err := os.Lstat(src.Path)
		if err != nil || !os.SameFile(now, src.Info) {
			return nod.E(nod.Forbidden, "another file took a source's place", err)
		}
	}
	return nil
}

// checkLimits refuses what a machine cannot enforce: processes, and parts of a core.
func checkLimits(l runtime.Limits) error {
	switch {
	case !l.Required:
		return nil
	case l.DiskBytes > 0:
		return nod.E(nod.Unsupported, "the container program cannot limit a host directory", nil)
	case l.PIDs > 0:
		return nod.E(nod.Unsupported, "the container program cannot enforce a process limit", nil)
	case l.CPUs > 0 && l.CPUs != float64(int(l.CPUs)):
		return nod.E(nod.Unsupported, "the container program gives whole cores only", nil)
	case l.MemoryBytes%(1<<20) != 0:
		return nod.E(nod.Unsupported, "the container program gives memory in MiB only", nil)
	}
	return nil
}
