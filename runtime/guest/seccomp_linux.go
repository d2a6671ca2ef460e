package guest

import (
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Offsets into struct seccomp_data; the low halves of arguments on little-endian.
const (
	dataNumber = 0
	dataArch   = 4
	dataArg0   = 16
	dataArg1   = 24
)

const (
	opLoad = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	opEq   = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	opGe   = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	opSet  = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	opRet  = unix.BPF_RET | unix.BPF_K
)

// newNamespaces is every CLONE_NEW* flag that clone takes.
const newNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// firstUnknown is the first system call number after those that were judged:
// Linux 6.18. Newer ones are ENOSYS, which every program must cope with.
const firstUnknown = 470

const tioclinux = 0x541C

// denied is refused with EPERM on every architecture. What only one has is in
// its own file.
var denied = []uint32{
	// other processes
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_PROCESS_MADVISE,
	// namespaces and mounts
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_OPEN_TREE,
	unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOUNT_SETATTR, sysOpenTreeAttr,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK,
	// large kernel surfaces
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	// the machine
	unix.SYS_KEXEC_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_REBOOT, unix.SYS_SWAPON, unix.SYS_SWAPOFF,
	unix.SYS_ACCT, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD, unix.SYS_SYSLOG, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX,
	unix.SYS_CLOCK_ADJTIME, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP, unix.SYS_PERSONALITY, unix.SYS_LOOKUP_DCOOKIE,
	unix.SYS_NFSSERVCTL, unix.SYS_MBIND, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES, unix.SYS_SET_MEMPOLICY, unix.SYS_SET_MEMPOLICY_HOME_NODE,
}

// sysOpenTreeAttr is open_tree_attr of Linux 6.15, the same number everywhere.
const sysOpenTreeAttr = 467

var socketDomains = []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

type program []unix.SockFilter

func (p *program) stmt(code uint16, k uint32) { *p = append(*p, unix.SockFilter{Code: code, K: k}) }
func (p *program) jump(code uint16, k uint32, yes, no uint8) {
	*p = append(*p, unix.SockFilter{Code: code, K: k, Jt: yes, Jf: no})
}

func refuse(e unix.Errno) uint32 { return unix.SECCOMP_RET_ERRNO | uint32(e) }

// filter is the program for an architecture: its audit number, what else it
// denies, and whether calls with bit 30 set belong to a second ABI (x32).
func filter(arch uint32, more []uint32, x32 bool) program {
	var p program
	p.stmt(opLoad, dataArch)
	p.jump(opEq, arch, 1, 0)
	p.stmt(opRet, unix.SECCOMP_RET_KILL_PROCESS)
	p.stmt(opLoad, dataNumber)
	if x32 {
		p.jump(opSet, 0x40000000, 0, 1)
		p.stmt(opRet, unix.SECCOMP_RET_KILL_PROCESS)
	}
	p.jump(opGe, firstUnknown, 0, 1)
	p.stmt(opRet, refuse(unix.ENOSYS))
	for _, n := range slices.Concat(denied, more) {
		p.jump(opEq, n, 0, 1)
		p.stmt(opRet, refuse(unix.EPERM))
	}
	// Its flags lie in memory, where a filter cannot look; libcs fall back to clone.
	p.jump(opEq, unix.SYS_CLONE3, 0, 1)
	p.stmt(opRet, refuse(unix.ENOSYS))

	p.jump(opEq, unix.SYS_CLONE, 0, 4)
	p.stmt(opLoad, dataArg0)
	p.jump(opSet, newNamespaces, 0, 1)
	p.stmt(opRet, refuse(unix.EPERM))
	p.stmt(opRet, unix.SECCOMP_RET_ALLOW)

	p.jump(opEq, unix.SYS_IOCTL, 0, 5)
	p.stmt(opLoad, dataArg1)
	p.jump(opEq, unix.TIOCSTI, 1, 0)
	p.jump(opEq, tioclinux, 0, 1)
	p.stmt(opRet, refuse(unix.EPERM))
	p.stmt(opRet, unix.SECCOMP_RET_ALLOW)

	p.jump(opEq, unix.SYS_SOCKET, 1, 0)
	p.jump(opEq, unix.SYS_SOCKETPAIR, 0, uint8(len(socketDomains)+3))
	p.stmt(opLoad, dataArg0)
	for i, d := range socketDomains {
		p.jump(opEq, d, uint8(len(socketDomains)-i), 0)
	}
	p.stmt(opRet, refuse(unix.EAFNOSUPPORT))
	p.stmt(opRet, unix.SECCOMP_RET_ALLOW)

	p.stmt(opRet, unix.SECCOMP_RET_ALLOW)
	return p
}

// installFilter puts the filter on every thread of this process.
func installFilter() error {
	p, err := nativeFilter()
	if err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	goruntime.KeepAlive(p)
	if errno != 0 {
		return errno
	}
	if thread != 0 {
		return errors.New(fmt.Sprint("thread ", thread, " kept its own filter"))
	}
	return nil
}
