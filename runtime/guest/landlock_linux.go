package guest

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	landlockRead    = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	landlockExecute = unix.LANDLOCK_ACCESS_FS_EXECUTE
	landlockWrite   = unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	landlockFile    = landlockExecute | landlockWrite | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	scopeAbstractUnix = 1 << 0
	scopeSignal       = 1 << 1
)

type landlockAttr struct{ fs, net, scoped uint64 }

// landlockABI is the version the kernel offers, 0 when it has none.
func landlockABI() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// handled is every file system right that abi knows.
func handled(abi int) uint64 {
	bits := uint64(1<<13 - 1)
	if abi >= 2 {
		bits |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= 3 {
		bits |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= 5 {
		bits |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return bits
}

// restrictPaths confines this thread, and what it executes, to writing in the
// environment's own places, and scope to what lies below it. It returns the
// version in force; below required it fails.
func restrictPaths(required int, scope uint64) (int, error) {
	abi := landlockABI()
	if abi < required {
		return 0, fmt.Errorf("the kernel offers version %d, %d is required: %w", abi, required, unix.EOPNOTSUPP)
	}
	if abi == 0 {
		return 0, nil
	}
	attr := landlockAttr{fs: handled(abi)}
	size := unsafe.Sizeof(attr.fs)
	if abi >= 4 {
		size = unsafe.Sizeof(attr.fs) + unsafe.Sizeof(attr.net)
	}
	if abi >= 6 {
		attr.scoped, size = scope, unsafe.Sizeof(attr)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return 0, fmt.Errorf("create ruleset: %w", errno)
	}
	everything := handled(abi)
	rules := map[string]uint64{
		"/":          landlockRead | landlockExecute,
		"/proc":      landlockRead | landlockWrite | unix.LANDLOCK_ACCESS_FS_TRUNCATE,
		"/workspace": everything, "/home/agent": everything, "/tmp": everything, "/dev/shm": everything, "/dev/pts": everything,
	}
	for _, d := range deviceNodes {
		rules["/dev/"+d] = landlockFile &^ landlockExecute
	}
	for p, access := range rules {
		if err := allowBelow(int(fd), p, access&everything); err != nil {
			return 0, errors.Join(fmt.Errorf("allow %s: %w", p, err), unix.Close(int(fd)))
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return 0, errors.Join(fmt.Errorf("restrict: %w", errno), unix.Close(int(fd)))
	}
	return abi, unix.Close(int(fd))
}

func allowBelow(ruleset int, p string, access uint64) error {
	fd, err := unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return errors.Join(err, unix.Close(fd))
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= landlockFile
	}
	// The kernel's structure is packed: eight bytes, then four.
	rule := struct {
		access uint64
		fd     int32
		_      int32
	}{access: access, fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		err = errno
	}
	return errors.Join(err, unix.Close(fd))
}
