//go:build linux

package linux

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"nod"
	"nod/runtime"
)

// state is state.json: what outlives the process. It holds no address and no secret.
type state struct {
	ID      string   `json:"id"`
	Owner   string   `json:"owner"`
	Digest  string   `json:"digest"`
	Image   string   `json:"image,omitempty"` // digest
	HostUID int      `json:"host_uid"`
	Given   []string `json:"given,omitempty"` // dev:ino of trees that belong to HostUID

	process process // of process.json, which is written and removed by itself
}

// process is process.json: PID 1 of the environment that was started last. It is not
// synced to the disk: what no process survives, its number need not either.
type process struct {
	PID       int    `json:"pid"`
	StartTime uint64 `json:"start_time"` // in clock ticks since boot
}

// The users of environments, when the driver runs as root: a range that no
// distribution hands out. Where in it is random, so that two state directories do
// not meet.
const (
	firstUID = 1_900_000_000
	uidCount = 100_000_000
)

func (d *Driver) envDir(id string) string { return filepath.Join(d.cfg.StateDir, "env", id) }

func (d *Driver) loadState(id string) (state, error) {
	var st state
	if !runtime.ValidID(id) {
		return st, os.ErrNotExist
	}
	b, err := os.ReadFile(filepath.Join(d.envDir(id), "state.json"))
	if err != nil {
		return st, err
	}
	if err := json.Unmarshal(b, &st); err != nil {
		return st, fmt.Errorf("state of %s: %w", id, err)
	}
	if st.ID != id {
		return st, fmt.Errorf("state of %s is another's", id)
	}
	b, err = os.ReadFile(d.processFile(id))
	switch {
	case errors.Is(err, os.ErrNotExist), err == nil && len(b) == 0: // never started; or the machine went down
		return st, nil
	case err == nil:
		err = json.Unmarshal(b, &st.process)
	}
	if err != nil {
		err = fmt.Errorf("process of %s: %w", id, err)
	}
	return st, err
}

func (d *Driver) processFile(id string) string {
	return filepath.Join(d.envDir(id), "process.json")
}

func (d *Driver) saveProcess(id string, p process) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	half := d.processFile(id) + ".new"
	if err := os.WriteFile(half, b, 0o600); err != nil {
		return err
	}
	return os.Rename(half, d.processFile(id))
}

func (d *Driver) forgetProcess(id string) error {
	if err := os.Remove(d.processFile(id)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (d *Driver) saveState(st state) error {
	b, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(d.envDir(st.ID), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(d.envDir(st.ID), "state-*")
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(d.envDir(st.ID), "state.json"))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func (d *Driver) states() ([]state, error) {
	dirs, err := os.ReadDir(filepath.Join(d.cfg.StateDir, "env"))
	if err != nil {
		return nil, err
	}
	var out []state
	for _, e := range dirs {
		st, err := d.loadState(e.Name())
		if errors.Is(err, os.ErrNotExist) {
			continue // made, or removed, halfway
		}
		if err != nil {
			return nil, err
		}
		out = append(out, st)
	}
	return out, nil
}

func (d *Driver) newUID() (int, error) {
	if os.Geteuid() != 0 {
		return os.Geteuid(), nil
	}
	all, err := d.states()
	if err != nil {
		return 0, err
	}
	for range 100 {
		n, err := rand.Int(rand.Reader, big.NewInt(uidCount))
		if err != nil {
			return 0, err
		}
		uid := firstUID + int(n.Int64())
		if !slices.ContainsFunc(all, func(s state) bool { return s.HostUID == uid }) {
			return uid, nil
		}
	}
	return 0, errors.New("every number tried is taken")
}

func identity(src runtime.Source) string {
	st, ok := src.Info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

// owns reports whether src was given to this environment. A directory that was
// removed and made again may have its old number, but not its owner.
func (st *state) owns(src runtime.Source) bool {
	info, err := os.Lstat(src.Path)
	if err != nil {
		return false
	}
	now, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(now.Uid) == st.HostUID && slices.Contains(st.Given, identity(src))
}

func (st *state) own(src runtime.Source) {
	if !slices.Contains(st.Given, identity(src)) {
		st.Given = append(st.Given, identity(src))
	}
}

func (st *state) status() runtime.Status {
	return runtime.Status{ID: st.ID, Owner: st.Owner, Running: st.process.alive(), Digest: st.Digest, Image: st.Image}
}

// alive reports whether the very process that was started still runs.
func (p process) alive() bool {
	if p.PID == 0 {
		return false
	}
	t, err := startTime(p.PID)
	return err == nil && t == p.StartTime
}

// startTime reads field 22 of /proc/PID/stat; a zombie has ended.
func startTime(pid int) (uint64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	i := bytes.LastIndexByte(b, ')')
	f := strings.Fields(string(b[i+1:]))
	if i < 0 || len(f) < 20 {
		return 0, errors.New("stat has another form")
	}
	if f[0] == "Z" || f[0] == "X" {
		return 0, os.ErrProcessDone
	}
	return strconv.ParseUint(f[19], 10, 64)
}

// sweep ends what a process that died left running. That is nothing, unless the
// kernel did not deliver its death to PID 1.
func (d *Driver) sweep() error {
	if err := d.sweepFiles(); err != nil {
		return nod.E(nod.Internal, "the runtime's state cannot be cleaned", err)
	}
	all, err := d.states()
	if err != nil {
		return nod.E(nod.Internal, "the runtime's state cannot be read", err)
	}
	for _, st := range all {
		if st.process.PID != 0 {
			if err := killOrphan(st.process); err != nil {
				return nod.E(nod.Unavailable, "an environment of an earlier process cannot be ended", err)
			}
		}
		if err := d.forgetProcess(st.ID); err != nil {
			return nod.E(nod.Internal, "the environment's state cannot be written", err)
		}
		if err := d.limiter.remove(d.cgroupName(st.ID)); err != nil {
			return nod.E(nod.Unavailable, "a cgroup of an earlier process cannot be removed", err)
		}
	}
	return nil
}

// trialPrefix names the directories in which Capabilities tries.
const trialPrefix = "trial-"

// sweepFiles removes what was made or removed halfway: directories of trials, and
// of environments without a state, which have nothing else.
func (d *Driver) sweepFiles() error {
	half, err := filepath.Glob(filepath.Join(d.cfg.StateDir, trialPrefix+"*"))
	if err != nil {
		return err
	}
	dirs, err := os.ReadDir(filepath.Join(d.cfg.StateDir, "env"))
	if err != nil {
		return err
	}
	for _, e := range dirs {
		if _, err := os.Lstat(filepath.Join(d.envDir(e.Name()), "state.json")); errors.Is(err, os.ErrNotExist) {
			half = append(half, d.envDir(e.Name()))
		} else if err != nil {
			return err
		}
	}
	for _, dir := range half {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

func killOrphan(p process) error {
	pidfd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(pidfd)
	if !p.alive() { // asked after the descriptor pins the number
		return nil
	}
	if err := unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 10_000)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return errors.New("it outlives SIGKILL")
		}
		return nil
	}
}
