//go:build linux

package linux

import (
	"errors"
	"os"
	"os/exec"
	goruntime "runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"nod/runtime/guest"
)

// spawner starts PID 1s from one thread that lives as long as the driver: the
// kernel sends a parent's death when the thread that started the child ends, not
// the process (golang/go#27505).
type spawner struct {
	work chan func()
	done chan struct{}
	err  error
}

func newSpawner() *spawner {
	s := &spawner{work: make(chan func()), done: make(chan struct{})}
	ready := make(chan struct{})
	go func() {
		defer close(s.done)
		goruntime.LockOSThread() // never unlocked: the thread ends with this goroutine
		if os.Geteuid() == 0 {
			// An environment's user must not keep root's groups. The raw call changes
			// this thread only.
			if _, _, errno := syscall.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
				s.err = errno
			}
		}
		close(ready)
		for f := range s.work {
			f()
		}
	}()
	<-ready
	return s
}

func (s *spawner) close() {
	close(s.work)
	<-s.done
}

// start starts c on the spawner's thread.
func (s *spawner) start(c *exec.Cmd) error {
	if s.err != nil {
		return s.err
	}
	result := make(chan error)
	s.work <- func() { result <- c.Start() }
	return <-result
}

const cloneFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// initCommand is PID 1 of an environment whose one user, 1000, is hostUID
// outside. The capabilities are those of the new user namespace only.
func (d *Driver) initCommand(hostUID int, files []*os.File, log *os.File, pidfd *int) *exec.Cmd {
	hostGID := hostUID
	if os.Geteuid() != 0 {
		hostGID = os.Getegid()
	}
	c := exec.Command("/proc/self/fd/4", "init") // resolved by the child, see guest.selfFD
	c.Args[0] = "nod-guest"
	c.Env = []string{guest.Tuning}
	c.Dir = "/"
	c.Stderr = log
	c.ExtraFiles = files
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  cloneFlags,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: hostUID, Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 1000, HostID: hostGID, Size: 1}},
		Credential:  &syscall.Credential{Uid: 1000, Gid: 1000, NoSetGroups: true},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_SYS_CHROOT},
		Pdeathsig:   syscall.SIGKILL,
		PidFD:       pidfd,
		Setsid:      true,
	}
	return c
}

// spawn starts PID 1. The sealed binary may look busy for as long as another
// goroutine's fork holds a copy of its writable descriptor.
func (d *Driver) spawn(hostUID int, files []*os.File, log *os.File) (*exec.Cmd, int, error) {
	for attempt := 0; ; attempt++ {
		pidfd := -1
		c := d.initCommand(hostUID, files, log, &pidfd)
		err := d.spawner.start(c)
		if errors.Is(err, unix.ETXTBSY) && attempt < 50 {
			time.Sleep(2 * time.Millisecond)
			continue
		}
		if err == nil && pidfd < 0 {
			err = errors.Join(errors.New("the kernel gives no pidfd"), c.Process.Kill())
		}
		return c, pidfd, err
	}
}
