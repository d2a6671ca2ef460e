package guest

import (
	"errors"

	"golang.org/x/sys/unix"
)

// From linux/securebits.h; each bit's neighbour locks it.
const (
	secureNoRoot        = 1<<0 | 1<<1
	secureNoSetuidFixup = 1<<2 | 1<<3
	secureKeepCapsOff   = 1 << 5
	secureNoAmbient     = 1<<6 | 1<<7
)

// maxOpenFiles is the soft and hard limit of a process in an environment, unless
// the host's own is lower.
const maxOpenFiles = 65536

// dropCapabilities gives up every capability, and every way to get one back.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return step("clear ambient capabilities", err)
	}
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, secureNoRoot|secureNoSetuidFixup|secureKeepCapsOff|secureNoAmbient, 0, 0, 0); err != nil {
		return step("lock securebits", err)
	}
	for c := uintptr(0); ; c++ {
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if errors.Is(err, unix.EINVAL) && c > unix.CAP_SYS_RESOURCE {
			break // past the last capability that this kernel knows
		}
		if err != nil {
			return step("drop the bounding set", err)
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return step("set no_new_privs", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return step("drop capabilities", unix.Capset(&header, &none[0]))
}

// setLimits bounds open files, forbids core dumps and, when pids is not zero,
// bounds the processes of this user namespace.
func setLimits(pids int) error {
	if err := lowerLimit(unix.RLIMIT_CORE, 0); err != nil {
		return step("forbid core dumps", err)
	}
	if err := lowerLimit(unix.RLIMIT_NOFILE, maxOpenFiles); err != nil {
		return step("limit open files", err)
	}
	if pids > 0 {
		// PID 1's threads count too.
		if err := lowerLimit(unix.RLIMIT_NPROC, uint64(pids)); err != nil {
			return step("limit processes", err)
		}
	}
	return nil
}

// lowerLimit sets both limits to at most value; raising needs a privilege that
// nobody here has.
func lowerLimit(resource int, value uint64) error {
	var old unix.Rlimit
	if err := unix.Prlimit(0, resource, nil, &old); err != nil {
		return err
	}
	value = min(value, old.Max)
	return unix.Prlimit(0, resource, &unix.Rlimit{Cur: value, Max: value}, nil)
}
