package docker

import (
	"golang.org/x/sys/unix"
)

// openFiles is the limit of open files of a process, unless this process's own is
// lower: engines that may not raise it fail with their larger default.
const openFiles = 16384

// ulimits says every limit that engines have a default for. Processes are bounded
// by the control group: the user's own count would be shared by all containers.
func (d *Driver) ulimits() []ulimit {
	list := []ulimit{{"core", 0, 0}}
	if n := hardLimit(unix.RLIMIT_NOFILE, openFiles); n > 0 {
		list = append(list, ulimit{"nofile", n, n})
	}
	if d.engine.podman {
		if n := hardLimit(unix.RLIMIT_NPROC, 1<<22); n > 0 {
			list = append(list, ulimit{"nproc", n, n})
		}
	}
	return list
}

// hardLimit is this process's own hard limit, at most most; 0 when it has none to tell.
func hardLimit(resource int, most int64) int64 {
	var l unix.Rlimit
	if unix.Getrlimit(resource, &l) != nil {
		return 0
	}
	if l.Max > uint64(most) {
		return most
	}
	return int64(l.Max)
}
