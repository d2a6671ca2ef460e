package runtimetest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attempt is one thing that a program inside tries. What may come of it is in
// want; nil in want means that it must work: a positive control.
type attempt struct {
	check   string // C01 to C30
	name    string
	do      func() error
	want    []error
	control bool // nothing that is protected: it must work everywhere
}

var (
	mustWork   = []error{nil}
	noRight    = []error{unix.EPERM}
	noAccess   = []error{unix.EACCES, unix.EPERM}
	readOnly   = []error{unix.EROFS}
	noFile     = []error{unix.ENOENT}
	noFamily   = []error{unix.EAFNOSUPPORT}
	noSyscall  = []error{unix.ENOSYS}
	noSystem   = []error{unix.EPERM, unix.ENOSYS}
	notMapped  = []error{unix.EPERM, unix.EINVAL}
	writeNever = []error{unix.EROFS, unix.EACCES, unix.EPERM}
)

func raw(trap uintptr, args ...uintptr) func() error {
	var a [6]uintptr
	copy(a[:], args)
	return func() error {
		if _, _, errno := unix.Syscall6(trap, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
			return errno
		}
		return nil
	}
}

func write(path string) func() error {
	return func() error {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = f.WriteString("x")
		return errors.Join(err, f.Close())
	}
}

func openOnly(path string, flags int) func() error {
	return func() error {
		f, err := os.OpenFile(path, flags, 0)
		if err != nil {
			return err
		}
		return f.Close()
	}
}

func readsEmpty(path string) func() error {
	return func() error {
		b, err := os.ReadFile(path)
		if err == nil && len(b) > 0 {
			return fmt.Errorf("%s shows %d bytes", path, len(b))
		}
		return err
	}
}

func listDir(path string) func() error {
	return func() error {
		_, err := os.ReadDir(path)
		return err
	}
}

func socket(domain, kind, proto int) func() error {
	return func() error {
		fd, err := unix.Socket(domain, kind, proto)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}
}

func holds(ok func() (bool, string, error)) func() error {
	return func() error {
		good, what, err := ok()
		if err == nil && !good {
			err = errors.New(what)
		}
		return err
	}
}

func statusLine(pid, key, want string) func() error {
	return holds(func() (bool, string, error) {
		b, err := os.ReadFile("/proc/" + pid + "/status")
		for _, line := range strings.Split(string(b), "\n") {
			if k, v, ok := strings.Cut(line, ":"); ok && k == key {
				return strings.TrimSpace(v) == want, key + " is " + strings.TrimSpace(v), err
			}
		}
		return false, key + " is not shown", err
	})
}

func identities() error {
	if os.Getuid() != 1000 || os.Getgid() != 1000 || os.Geteuid() != 1000 || os.Getegid() != 1000 {
		return fmt.Errorf("running as %d:%d", os.Getuid(), os.Getgid())
	}
	groups, err := os.Getgroups()
	for _, g := range groups {
		if g == 0 {
			return errors.New("group 0 is among the groups")
		}
	}
	return err
}

// setuidGain plants a program with the set-user-ID bit and looks for a gain.
func setuidGain(dir string) func() error {
	return func() error {
		b, err := os.ReadFile("/usr/bin/id")
		if err != nil {
			return err
		}
		p := dir + "/planted"
		if err := os.WriteFile(p, b, 0o700); err != nil {
			return err
		}
		if err := os.Chmod(p, 0o755|os.ModeSetuid|os.ModeSetgid); err != nil {
			return err
		}
		out, err := exec.Command(p, "-u").Output()
		if err == nil && strings.TrimSpace(string(out)) != "1000" {
			err = fmt.Errorf("the planted program ran as %s", out)
		}
		return errors.Join(err, os.Remove(p))
	}
}

// mountFlags finds a mount without nosuid. Of those that an engine makes it looks
// at the ones where the agent can put a file that was not there: no bind mount of
// the engine's can have the flag, and no_new_privs is what counts.
func mountFlags(container bool) func() error {
	return func() error {
		b, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			return err
		}
		for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
			before, after, _ := strings.Cut(line, " - ")
			f := strings.Fields(before)
			if len(f) < 6 || strings.HasPrefix(f[4], "/dev/") || strings.HasPrefix(f[4], "/proc") {
				continue
			}
			if container && (!strings.HasPrefix(after, "tmpfs ") || strings.HasPrefix(f[5], "ro,")) {
				continue
			}
			if !strings.Contains(f[5], "nosuid") {
				return fmt.Errorf("%s is mounted %s", f[4], f[5])
			}
		}
		return nil
	}
}

func devListing(container bool) func() error {
	return func() error {
		want := " fd full null ptmx pts random shm stderr stdin stdout tty urandom zero "
		if container {
			want += "core mqueue " // a link to the masked /proc/kcore; the queues of its own ipc namespace
		}
		list, err := os.ReadDir("/dev")
		for _, e := range list {
			if !strings.Contains(want, " "+e.Name()+" ") {
				return fmt.Errorf("/dev/%s is there", e.Name())
			}
		}
		return err
	}
}

func descriptors() error {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range list {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err != nil {
			continue // the listing's own
		}
		// Go's runtime has a look at the control group's CPU limit.
		own := strings.HasPrefix(to, "anon_inode:") || strings.HasPrefix(to, "/sys/fs/cgroup/")
		if e.Name() > "2" && !own || len(e.Name()) == 1 && e.Name() <= "2" && !strings.HasPrefix(to, "pipe:") {
			return fmt.Errorf("descriptor %s is %s", e.Name(), to)
		}
	}
	return nil
}

func onlyOwnProcesses() error {
	list, err := os.ReadDir("/proc")
	count := 0
	for _, e := range list {
		if e.Name()[0] >= '1' && e.Name()[0] <= '9' {
			count++
		}
	}
	if count == 0 || count > 12 {
		return fmt.Errorf("%d processes are visible", count)
	}
	return err
}

// initLives signals PID 1, which the kernel does not deliver, and looks whether
// it is still there.
func initLives() error {
	if err := unix.Kill(1, unix.SIGKILL); err != nil && !errors.Is(err, unix.EPERM) {
		return err
	}
	_, err := os.Stat("/proc/1")
	return err
}

// clone runs a program under flags of clone.
func clone(flags uintptr) func() error {
	return func() error {
		c := exec.Command("/bin/true")
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		return c.Run()
	}
}

// setNamespace joins a namespace by path, or that of a process by its descriptor.
func setNamespace(open func() (int, error), kind int) func() error {
	return func() error {
		fd, err := open()
		if err != nil {
			return err
		}
		return errors.Join(unix.Setns(fd, kind), unix.Close(fd))
	}
}

func namespaceFile(name string) func() (int, error) {
	return func() (int, error) { return unix.Open("/proc/self/ns/"+name, unix.O_RDONLY|unix.O_CLOEXEC, 0) }
}

func initDescriptor() (int, error) { return unix.PidfdOpen(1, 0) }

// takeDescriptor copies a descriptor of PID 1.
func takeDescriptor() error {
	fd, err := initDescriptor()
	if err != nil {
		return err
	}
	_, err = unix.PidfdGetfd(fd, 3, 0)
	return errors.Join(err, unix.Close(fd))
}

// others tries on every other process that is visible. None visible is an error:
// the host has left one running.
func others(try func(pid int) error) func() error {
	return func() error {
		list, err := os.ReadDir("/proc")
		if err != nil {
			return err
		}
		refused := errors.New("there is no other process")
		for _, e := range list {
			pid, err := strconv.Atoi(e.Name())
			if err != nil || pid == 1 || pid == os.Getpid() {
				continue
			}
			if refused = try(pid); refused == nil {
				return nil
			}
		}
		return refused
	}
}

// readMemory reads a word of a process's memory, at an address of one's own.
func readMemory(pid int) error {
	var word [8]byte
	local := unix.Iovec{Base: &word[0]}
	local.SetLen(len(word))
	_, err := unix.ProcessVMReadv(pid, []unix.Iovec{local}, []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&word[0])), Len: len(word)}}, 0)
	return err
}

// onTerminal makes an ioctl on a pseudo terminal of one's own.
func onTerminal(request uintptr) func() error {
	return func() error {
		fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		var room [64]byte
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(&room[0]))); errno != 0 {
			return errno
		}
		return nil
	}
}

// opensAreSeen is the control of descriptors: what one opens oneself is listed.
func opensAreSeen() error {
	f, err := os.Open("/etc/passwd")
	if err != nil {
		return err
	}
	defer f.Close()
	list, err := os.ReadDir("/proc/self/fd")
	for _, e := range list {
		if to, lerr := os.Readlink("/proc/self/fd/" + e.Name()); lerr == nil && to == "/etc/passwd" {
			return err
		}
	}
	return errors.Join(err, errors.New("an open file is not listed"))
}

// endsOwnChild is the control of signals.
func endsOwnChild() error {
	c := exec.Command("sleep", "600")
	if err := c.Start(); err != nil {
		return err
	}
	if err := c.Process.Kill(); err != nil {
		return err
	}
	if err := c.Wait(); err == nil {
		return errors.New("a killed child ended well")
	}
	return nil
}

// fill writes to path until the place is full; more than max means that it has no bound.
func fill(path string, max int64) func() error {
	return func() error {
		_, err := fillUp(path, max)
		return err
	}
}

func fillUp(path string, max int64) (n int64, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer os.Remove(path)
	defer f.Close()
	for block := make([]byte, 1<<20); n < max; {
		wrote, err := f.Write(block)
		if n += int64(wrote); err != nil {
			return n, err
		}
	}
	return n, nil
}

func runsProgram(dir string) func() error {
	return func() error {
		p := dir + "/script"
		if err := os.WriteFile(p, []byte("#!/bin/sh\nexit 0\n"), 0o700); err != nil {
			return err
		}
		return errors.Join(exec.Command(p).Run(), os.Remove(p))
	}
}
