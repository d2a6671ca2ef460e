package guest

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// processes maps every live process of this pid namespace to its parent. Zombies
// are left out: they run nothing.
func processes() (map[int]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return nil, err
	}
	parents := make(map[int]int, len(names))
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue // not a process
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended meanwhile
		}
		if err != nil {
			return nil, err
		}
		state, parent, ok := parseStat(stat)
		if ok && state != 'Z' && state != 'X' {
			parents[pid] = parent
		}
	}
	return parents, nil
}

// parseStat reads state and parent from /proc/PID/stat. The command's name, in
// parentheses, may hold anything.
func parseStat(stat []byte) (state byte, parent int, ok bool) {
	i := bytes.LastIndexByte(stat, ')')
	if i < 0 {
		return 0, 0, false
	}
	fields := bytes.Fields(stat[i+1:])
	if len(fields) < 2 || len(fields[0]) != 1 {
		return 0, 0, false
	}
	parent, err := strconv.Atoi(string(fields[1]))
	return fields[0][0], parent, err == nil
}

// descendsFrom reports whether pid or one of its ancestors is a key of set.
func descendsFrom[V any](pid int, parents map[int]int, set map[int]V) bool {
	for range len(parents) + 1 {
		if _, ok := set[pid]; ok {
			return true
		}
		up, ok := parents[pid]
		if !ok || up == pid {
			return false
		}
		pid = up
	}
	return false
}

// strike stops and then kills each of pids, so that none forks while the others
// are killed. A process that has ended meanwhile is no error.
func strike(pids []int) {
	for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} {
		for _, pid := range pids {
			// Only ESRCH is possible here, and it is what is wanted; the caller
			// looks again either way.
			_ = unix.Kill(pid, sig)
		}
	}
}

// pause between two looks at the process table.
const strikePause = time.Millisecond

// parseStart reads the start time, in clock ticks since boot, from /proc/PID/stat.
func parseStart(stat []byte) (uint64, bool) {
	i := bytes.LastIndexByte(stat, ')')
	f := bytes.Fields(stat[i+1:])
	if i < 0 || len(f) < 20 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(f[19]), 10, 64)
	return n, err == nil
}
