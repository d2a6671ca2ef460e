//go:build linux

package linux

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"nod/runtime"
)

const cpuPeriod = 100_000 // microseconds

// prepare makes a version 2 hierarchy hand the controller of kind to its children.
func (h hierarchy) prepare(kind string) error {
	if !h.v2 {
		return nil
	}
	control := filepath.Join(h.dir, "cgroup.subtree_control")
	on, err := os.ReadFile(control)
	if err != nil {
		return err
	}
	if slices.Contains(strings.Fields(string(on)), kind) {
		return nil
	}
	err = os.WriteFile(control, []byte("+"+kind), 0)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	// A group with processes has no controlled children. When this process is its
	// only one, as under systemd with Delegate=yes, it makes room.
	members, rerr := os.ReadFile(filepath.Join(h.dir, "cgroup.procs"))
	self := strconv.Itoa(os.Getpid())
	if rerr != nil || strings.TrimSpace(string(members)) != self {
		return errors.Join(err, rerr)
	}
	leaf := filepath.Join(h.dir, "nod-supervisor")
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte(self), 0); err != nil {
		return err
	}
	return os.WriteFile(control, []byte("+"+kind), 0)
}

// set writes the limit of kind into dir and reads it back.
func (h hierarchy) set(dir, kind string, s runtime.Limits) error {
	quota := int64(s.CPUs * cpuPeriod)
	switch {
	case kind == limitPIDs:
		return setExact(dir, "pids.max", strconv.Itoa(s.PIDs))
	case kind == limitCPU && h.v2:
		return setExact(dir, "cpu.max", fmt.Sprintf("%d %d", quota, cpuPeriod))
	case kind == limitCPU:
		if err := setExact(dir, "cpu.cfs_period_us", strconv.Itoa(cpuPeriod)); err != nil {
			return err
		}
		return setExact(dir, "cpu.cfs_quota_us", strconv.FormatInt(quota, 10))
	case h.v2:
		// Without swap of its own the limit is of both; the whole environment ends
		// when it is over, never half of it.
		if err := setIfThere(dir, "memory.swap.max", "0"); err != nil {
			return err
		}
		if err := setIfThere(dir, "memory.oom.group", "1"); err != nil {
			return err
		}
		return setBytes(dir, "memory.max", s.MemoryBytes)
	}
	if err := setBytes(dir, "memory.limit_in_bytes", s.MemoryBytes); err != nil {
		return err
	}
	err := setBytes(dir, "memory.memsw.limit_in_bytes", s.MemoryBytes)
	if errors.Is(err, os.ErrNotExist) {
		return noSwap() // swap is not accounted for: there must be none
	}
	return err
}

// noSwap fails when the machine has swap.
func noSwap() error {
	b, err := os.ReadFile("/proc/swaps")
	if err != nil {
		return err
	}
	if strings.Count(strings.TrimSpace(string(b)), "\n") > 0 {
		return errors.New("the machine has swap that the kernel does not account for")
	}
	return nil
}

func setExact(dir, file, value string) error {
	got, err := setAndRead(dir, file, value)
	if err == nil && got != value {
		err = fmt.Errorf("%s reads back as %q", file, got)
	}
	return err
}

func setIfThere(dir, file, value string) error {
	err := setExact(dir, file, value)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// setBytes allows for the kernel's rounding down to pages.
func setBytes(dir, file string, value int64) error {
	got, err := setAndRead(dir, file, strconv.FormatInt(value, 10))
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(got, 10, 64)
	if err != nil || n > value || value-n >= int64(os.Getpagesize()) {
		return fmt.Errorf("%s reads back as %q", file, got)
	}
	return nil
}

func setAndRead(dir, file, value string) (string, error) {
	p := filepath.Join(dir, file)
	f, err := os.OpenFile(p, os.O_WRONLY, 0)
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(value)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	b, err := os.ReadFile(p)
	return strings.TrimSpace(string(b)), err
}
