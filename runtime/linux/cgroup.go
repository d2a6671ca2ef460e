//go:build linux

package linux

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"nod"
	"nod/runtime"
)

const (
	limitMemory = "memory"
	limitCPU    = "cpu"
	limitPIDs   = "pids"
	limitDisk   = "disk" // by project quotas, not by a cgroup
)

var limitKinds = []string{limitMemory, limitCPU, limitPIDs}

// limiter enforces limits through cgroups, of version 2 where its controllers are
// delegated to this process, else of version 1. Processes can also be limited by
// the user namespace's own count, when no cgroup does it.
type limiter struct {
	groups map[string]hierarchy // limit → the cgroup directory below which groups are made
	ok     []string             // limits that were set and read back
	rlimit bool                 // "pids" is the user namespace's
}

// hierarchy is a place in a cgroup tree.
type hierarchy struct {
	dir string
	v2  bool
}

func newLimiter(c Config) *limiter {
	l := &limiter{groups: map[string]hierarchy{}}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err == nil {
		var own []byte
		if own, err = os.ReadFile("/proc/self/cgroup"); err == nil {
			l.groups = hierarchies(string(mounts), string(own), c.CgroupParent)
		}
	}
	trial := groupPrefix(c.StateDir) + ".trial" // no environment's: what a crash leaves, the next trial removes
	for _, kind := range limitKinds {
		h, found := l.groups[kind]
		if found && l.try(h, kind, trial) == nil {
			l.ok = append(l.ok, kind)
			continue
		}
		delete(l.groups, kind)
		if kind == limitPIDs && kernelAtLeast(5, 14) {
			l.ok, l.rlimit = append(l.ok, kind), true
		}
	}
	return l
}

// kernelAtLeast reads the kernel's release. Since 5.14 RLIMIT_NPROC counts per
// user namespace.
func kernelAtLeast(major, minor int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var a, b int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &a, &b); err != nil {
		return false
	}
	return a > major || a == major && b >= minor
}

// hierarchies finds, per limit, the directory of this process's own cgroup.
func hierarchies(mountinfo, own, parent string) map[string]hierarchy {
	paths := map[string]string{} // controller, or "" for version 2 → own path
	for _, line := range strings.Split(own, "\n") {
		f := strings.SplitN(line, ":", 3)
		if len(f) != 3 {
			continue
		}
		for _, c := range strings.Split(f[1], ",") {
			paths[c] = f[2]
		}
	}
	out := map[string]hierarchy{}
	for _, line := range strings.Split(mountinfo, "\n") {
		before, after, ok := strings.Cut(line, " - ")
		f, g := strings.Fields(before), strings.Fields(after)
		if !ok || len(f) < 5 || len(g) < 3 {
			continue
		}
		root, at := f[3], f[4]
		place := func(own string) (string, bool) {
			rel, err := filepath.Rel(root, own)
			if err != nil || strings.HasPrefix(rel, "..") {
				return "", false
			}
			return filepath.Join(at, rel), true
		}
		switch g[0] {
		case "cgroup":
			for _, option := range strings.Split(g[2], ",") {
				if p, listed := paths[option]; listed && slices.Contains(limitKinds, option) {
					if dir, ok := place(p); ok && !out[option].v2 {
						out[option] = hierarchy{dir: dir}
					}
				}
			}
		case "cgroup2":
			dir := parent
			if dir == "" {
				if dir, ok = place(paths[""]); !ok {
					continue
				}
			}
			has, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
			if err != nil {
				continue
			}
			for _, c := range strings.Fields(string(has)) {
				if slices.Contains(limitKinds, c) {
					out[c] = hierarchy{dir: dir, v2: true}
				}
			}
		}
	}
	return out
}

// try makes a group, limits it, reads the limit back and removes the group.
func (l *limiter) try(h hierarchy, kind, name string) error {
	dir := filepath.Join(h.dir, name)
	if err := h.prepare(kind); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	err := h.set(dir, kind, runtime.Limits{MemoryBytes: 64 << 20, CPUs: 1, PIDs: 64})
	return errors.Join(err, removeGroup(dir))
}

// enforced returns the limits that this host can enforce.
func (l *limiter) enforced() []string { return slices.Clone(l.ok) }

// wanted are the kinds of limits that s names.
func wanted(s runtime.Limits) []string {
	var out []string
	for kind, on := range map[string]bool{limitMemory: s.MemoryBytes > 0, limitCPU: s.CPUs > 0, limitPIDs: s.PIDs > 0} {
		if on {
			out = append(out, kind)
		}
	}
	slices.Sort(out)
	return out
}

// check refuses limits that are required and cannot be enforced.
func (l *limiter) check(s runtime.Limits) error {
	if !s.Required {
		return nil
	}
	for _, kind := range wanted(s) {
		if !slices.Contains(l.ok, kind) {
			return &nod.Error{
				Code: nod.Unsupported, Msg: "this host cannot enforce the required " + kind + " limit",
				Hint: "run nod under systemd with Delegate=yes, as root, or do not require limits",
			}
		}
	}
	return nil
}

// attach makes the groups of an environment, reads their limits back and moves
// PID 1, which waits, into them.
func (l *limiter) attach(name string, pid int, s runtime.Limits) error {
	for _, kind := range wanted(s) {
		h, ok := l.groups[kind]
		if !ok {
			continue // not required, or the user namespace's
		}
		dir := filepath.Join(h.dir, name)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return nod.E(nod.Unsupported, "the environment's cgroup cannot be made", err)
		}
		if err := h.set(dir, kind, s); err != nil {
			return nod.E(nod.Unsupported, "the environment's "+kind+" limit does not take", err)
		}
		procs := filepath.Join(dir, "cgroup.procs")
		if err := os.WriteFile(procs, []byte(strconv.Itoa(pid)), 0); err != nil {
			return nod.E(nod.Unsupported, "the environment cannot be put under its "+kind+" limit", err)
		}
		members, err := os.ReadFile(procs)
		if err != nil || !slices.Contains(strings.Fields(string(members)), strconv.Itoa(pid)) {
			return nod.E(nod.Unsupported, "the environment is not under its "+kind+" limit", err)
		}
	}
	return nil
}

// confirm reads the process limit of the user namespace back once init has set it.
func (l *limiter) confirm(pid int, s runtime.Limits) error {
	if s.PIDs == 0 {
		return nil
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", pid))
	if err != nil {
		return nod.E(nod.Unsupported, "the environment's process limit cannot be read back", err)
	}
	for _, line := range strings.Split(string(b), "\n") {
		if rest, ok := strings.CutPrefix(line, "Max processes"); ok {
			f := strings.Fields(rest)
			if len(f) < 2 {
				break
			}
			if n, err := strconv.Atoi(f[1]); err == nil && n <= s.PIDs {
				return nil
			}
		}
	}
	return nod.E(nod.Unsupported, "the environment's process limit did not take", nil)
}

// remove removes what attach made; groups that are not there are no error.
func (l *limiter) remove(name string) error {
	var err error
	for _, h := range l.groups {
		err = errors.Join(err, removeGroup(filepath.Join(h.dir, name)))
	}
	return err
}

// removeGroup waits for the kernel to empty a group whose processes have ended.
func removeGroup(dir string) error {
	for deadline := time.Now().Add(2 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		err := unix.Rmdir(dir)
		switch {
		case err == nil, errors.Is(err, unix.ENOENT):
			return nil
		case !errors.Is(err, unix.EBUSY), time.Now().After(deadline):
			return err
		}
	}
}

// cgroupName names an environment's groups.
func (d *Driver) cgroupName(id string) string { return groupPrefix(d.cfg.StateDir) + "-" + id }

// groupPrefix tells the groups of two state directories apart.
func groupPrefix(stateDir string) string {
	sum := sha256.Sum256([]byte(stateDir))
	return "nod-" + hex.EncodeToString(sum[:4])
}
