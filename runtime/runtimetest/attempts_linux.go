package runtimetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	goruntime "runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// controls are what must work for the refusals beside it to mean something.
func controls() []attempt {
	list := []attempt{
		{"C01", "setuid(1000)", raw(unix.SYS_SETUID, 1000), mustWork, true},
		{"C02", "the status is read", statusLine("self", "Pid", strconv.Itoa(os.Getpid())), mustWork, true},
		{"C03", "run a program from the workspace", runsProgram("/workspace"), mustWork, true},
		{"C04", "write /tmp", write("/tmp/.control"), mustWork, true},
		{"C05", "write the workspace", write("/workspace/.try"), mustWork, true},
		{"C05", "write /tmp", write("/tmp/.try"), mustWork, true},
		{"C05", "write the home", write("/home/agent/.try"), mustWork, true},
		{"C05", "write /dev/shm", write("/dev/shm/.try"), mustWork, true},
		{"C05", "run a program from /tmp", runsProgram("/tmp"), mustWork, true},
		{"C06", "clone without namespaces", clone(0), mustWork, true},
		{"C07", "read what is mounted", readsSomething("/proc/self/mountinfo"), mustWork, true},
		{"C08", "make a pipe", func() error { return unix.Mknod("/tmp/p", unix.S_IFIFO|0o600, 0) }, mustWork, true},
		{"C08", "write /dev/null", write("/dev/null"), mustWork, true},
		{"C09", "read /proc/self/maps", readsSomething("/proc/self/maps"), mustWork, true},
		{"C09", "/proc/meminfo is there", openOnly("/proc/meminfo", os.O_RDONLY), mustWork, true},
		{"C10", "open one's own memory", openOnly("/proc/self/mem", os.O_RDONLY), mustWork, true},
		{"C10", "see another exec", others(func(pid int) error { _, err := os.Stat("/proc/" + strconv.Itoa(pid)); return err }), mustWork, true},
		{"C11", "AF_UNIX", socket(unix.AF_UNIX, unix.SOCK_STREAM, 0), mustWork, true},
		{"C11", "AF_INET", socket(unix.AF_INET, unix.SOCK_STREAM, 0), mustWork, true},
		{"C11", "AF_INET6", socket(unix.AF_INET6, unix.SOCK_DGRAM, 0), mustWork, true},
		{"C11", "AF_NETLINK", socket(unix.AF_NETLINK, unix.SOCK_RAW, 0), mustWork, true},
		{"C12", "getpid", raw(unix.SYS_GETPID), mustWork, true},
		{"C13", "a terminal of one's own", onTerminal(unix.TIOCGWINSZ), mustWork, true},
		{"C14", "an open file is listed", opensAreSeen, mustWork, true},
		{"C15", "kill a child of one's own", endsOwnChild, mustWork, true},
	}
	return list
}

// attempts is what a program inside tries with system calls and files.
func attempts(container bool) []attempt {
	list := []attempt{
		{"C01", "uid, gid and groups", identities, mustWork, false},
		{"C01", "setuid(0)", raw(unix.SYS_SETUID, 0), notMapped, false},
		{"C01", "setgid(0)", raw(unix.SYS_SETGID, 0), notMapped, false},
		{"C01", "setgroups", raw(unix.SYS_SETGROUPS, 0, 0), noRight, false},

		{"C03", "NoNewPrivs", statusLine("self", "NoNewPrivs", "1"), mustWork, false},
		{"C03", "seccomp filter", statusLine("self", "Seccomp", "2"), mustWork, false},
		{"C03", "set-user-ID program in the workspace", setuidGain("/workspace"), mustWork, false},
		{"C03", "set-user-ID program in /tmp", setuidGain("/tmp"), mustWork, false},
		{"C03", "every mount is nosuid", mountFlags(container), mustWork, false},

		{"C04", "mount -o remount,rw /", raw(unix.SYS_MOUNT, 0, 0, 0, unix.MS_REMOUNT, 0), noRight, false},

		{"C05", "fill /tmp", fill("/tmp/.fill", 512<<20), []error{unix.ENOSPC}, false},
		{"C05", "fill /dev/shm", fill("/dev/shm/.fill", 512<<20), []error{unix.ENOSPC}, false},

		{"C06", "unshare a user namespace", func() error { return unix.Unshare(unix.CLONE_NEWUSER) }, noRight, false},
		{"C06", "unshare mounts", func() error { return unix.Unshare(unix.CLONE_NEWNS) }, noRight, false},
		{"C06", "clone a user namespace", clone(unix.CLONE_NEWUSER), noRight, false},
		{"C06", "clone a pid namespace in a user namespace", clone(unix.CLONE_NEWUSER | unix.CLONE_NEWPID), noRight, false},
		{"C06", "clone a network namespace", clone(unix.CLONE_NEWNET), noRight, false},
		{"C06", "clone3", raw(unix.SYS_CLONE3, 0, 0), noSyscall, false},
		{"C06", "setns", setNamespace(namespaceFile("net"), 0), noRight, false},
		{"C06", "setns to PID 1's", setNamespace(initDescriptor, unix.CLONE_NEWNET), noRight, false},

		{"C07", "mount", func() error { return unix.Mount("t", "/tmp", "tmpfs", 0, "") }, noRight, false},
		{"C07", "umount2", raw(unix.SYS_UMOUNT2, 0, 0), noRight, false},
		{"C07", "pivot_root", raw(unix.SYS_PIVOT_ROOT, 0, 0), noRight, false},
		{"C07", "chroot", func() error { return unix.Chroot("/tmp") }, noRight, false},
		{"C07", "fsopen", raw(unix.SYS_FSOPEN, 0, 0), noRight, false},
		{"C07", "open_tree", raw(unix.SYS_OPEN_TREE, 0, 0, 0), noRight, false},
		{"C07", "move_mount", raw(unix.SYS_MOVE_MOUNT, 0, 0, 0, 0, 0), noRight, false},
		{"C07", "mount_setattr", raw(unix.SYS_MOUNT_SETATTR, 0, 0, 0, 0, 0), noRight, false},

		{"C08", "/dev holds what is needed", devListing(container), mustWork, false},
		{"C08", "make a block device", func() error { return unix.Mknod("/tmp/b", unix.S_IFBLK|0o600, 254<<8) }, noRight, false},
		{"C08", "make a character device", func() error { return unix.Mknod("/tmp/c", unix.S_IFCHR|0o600, 1<<8|1) }, noRight, false},

		{"C09", "write /proc/sysrq-trigger", openOnly("/proc/sysrq-trigger", os.O_WRONLY), append(noFile, writeNever...), false},
		{"C09", "write core_pattern", openOnly("/proc/sys/kernel/core_pattern", os.O_WRONLY), writeNever, false},
		{"C09", "write uid_map", write("/proc/self/uid_map"), noAccess, false},
		{"C09", "/proc/kcore is empty", readsEmpty("/proc/kcore"), append(noFile, nil, unix.EACCES, unix.EPERM), false},
		{"C09", "/proc/keys is empty", readsEmpty("/proc/keys"), append(noFile, nil, unix.EACCES), false},

		{"C10", "ptrace PID 1", func() error { return unix.PtraceAttach(1) }, noRight, false},
		{"C10", "ptrace another exec", others(unix.PtraceAttach), noRight, false},
		{"C10", "process_vm_readv of PID 1", func() error { return readMemory(1) }, noRight, false},
		{"C10", "process_vm_readv of another exec", others(readMemory), noRight, false},
		{"C10", "pidfd_getfd of PID 1", takeDescriptor, noRight, false},

		{"C11", "AF_VSOCK", socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0), noFamily, false},
		{"C11", "AF_PACKET", socket(unix.AF_PACKET, unix.SOCK_RAW, 0), noFamily, false},
		{"C11", "AF_ALG", socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0), noFamily, false},
		{"C11", "AF_BLUETOOTH", socket(unix.AF_BLUETOOTH, unix.SOCK_RAW, 0), noFamily, false},
		{"C11", "AF_XDP", socket(unix.AF_XDP, unix.SOCK_RAW, 0), noFamily, false},
		{"C11", "raw IPv4", socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP), noRight, false},
		{"C11", "raw IPv6", socket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6), noRight, false},

		{"C12", "io_uring_setup", raw(unix.SYS_IO_URING_SETUP, 1, 0), noSystem, false},
		{"C12", "bpf", raw(unix.SYS_BPF, 0, 0, 0), noSystem, false},
		{"C12", "userfaultfd", raw(unix.SYS_USERFAULTFD, 0), noSystem, false},
		{"C12", "keyctl", raw(unix.SYS_KEYCTL, 0, 0, 0), noSystem, false},
		{"C12", "perf_event_open", raw(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, 0), noSystem, false},
		{"C12", "open_by_handle_at", raw(unix.SYS_OPEN_BY_HANDLE_AT, 0, 0, 0), noSystem, false},
		{"C12", "system call 999", raw(999), noSyscall, false},
		{"C12", "x32 call", otherABI, mustWork, false},

		{"C13", "TIOCSTI", onTerminal(unix.TIOCSTI), noRight, false},
		{"C13", "TIOCSTI with bits above", onTerminal(unix.TIOCSTI | 1<<32), noRight, false},
		{"C13", "TIOCLINUX", raw(unix.SYS_IOCTL, 0, 0x541C, 0), noRight, false},
		{"C13", "the operator's terminal", openOnly("/dev/tty", os.O_RDWR), []error{unix.ENXIO}, false},

		{"C14", "inherited descriptors", descriptors, mustWork, false},

		{"C15", "only own processes", onlyOwnProcesses, mustWork, false},
		{"C15", "kill PID 1", initLives, mustWork, false},
	}
	for _, pid := range []string{"self", strconv.Itoa(os.Getppid()), "1"} {
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
			list = append(list, attempt{"C02", set + " of " + pid, statusLine(pid, set, "0000000000000000"), mustWork, false})
		}
	}
	for _, dir := range []string{"/", "/usr", "/usr/bin", "/etc", "/etc/ssl", "/dev", "/nod", "/var", "/opt", "/home"} {
		want := readOnly
		if container && dir == "/dev" {
			want = writeNever // a file system of its own, root's
		}
		list = append(list, attempt{"C04", "write " + dir, write(dir + "/.try"), want, false})
	}
	list = append(list, attempt{"C04", "replace the guest", openOnly("/nod/guest", os.O_WRONLY), append(readOnly, unix.ETXTBSY, unix.EACCES), false},
		attempt{"C05", "write /run", write("/run/.try"), writeNever, false})
	for _, name := range []string{"kvm", "mem", "kmsg", "loop0", "loop-control", "net/tun", "fuse", "vsock", "vda", "sda"} {
		list = append(list, attempt{"C08", "open /dev/" + name, openOnly("/dev/"+name, os.O_RDONLY), noFile, false})
	}
	for _, name := range []string{"environ", "mem", "maps"} {
		list = append(list, attempt{"C09", "open /proc/1/" + name, readsSomething("/proc/1/" + name), noAccess, false})
	}
	for _, name := range []string{"fd", "root", "cwd"} {
		list = append(list, attempt{"C09", "list /proc/1/" + name, listDir("/proc/1/" + name), noAccess, false})
	}
	return list
}

func readsSomething(path string) func() error {
	return func() error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		_, err = f.Read(make([]byte, 1))
		return errors.Join(err, f.Close())
	}
}

// otherABI makes a call of the x32 ABI in a process of its own, which must die of it.
func otherABI() error {
	if goruntime.GOARCH != "amd64" {
		return nil // there is no second ABI to reach
	}
	err := exec.Command("/proc/self/exe", roleOtherABI).Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() && ws.Signal() == unix.SIGSYS {
			return nil
		}
	}
	return fmt.Errorf("the process was not killed: %w", err)
}
