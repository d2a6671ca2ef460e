package guest

import (
	"os"
	"path"
	"strconv"
	"strings"
)

// unlimitedMemory is about what version 1 says for no limit at all.
const unlimitedMemory = 1 << 62

// seenLimits reads the control group's limits where a container shows them, at the
// root of its own view, in either version.
func seenLimits() SeenLimits {
	l := SeenLimits{
		MemoryBytes: number(firstLine("memory/memory.limit_in_bytes", "memory.max")),
		PIDs:        number(firstLine("pids/pids.max", "pids.max")),
	}
	if l.MemoryBytes >= unlimitedMemory {
		l.MemoryBytes = 0
	}
	quota, period := firstLine("cpu/cpu.cfs_quota_us", "cpu,cpuacct/cpu.cfs_quota_us"), firstLine("cpu/cpu.cfs_period_us", "cpu,cpuacct/cpu.cfs_period_us")
	if both := strings.Fields(firstLine("cpu.max")); len(both) == 2 {
		quota, period = both[0], both[1]
	}
	if q, p := number(quota), number(period); q > 0 && p > 0 {
		l.CPUs = float64(q) / float64(p)
	}
	return l
}

// firstLine is the content of the first of names that can be read.
func firstLine(names ...string) string {
	for _, n := range names {
		if b, err := os.ReadFile(path.Join("/sys/fs/cgroup", n)); err == nil {
			return strings.TrimSpace(string(b))
		}
	}
	return ""
}

// number is 0 for "max", "-1", and what is no number.
func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}
