//go:build linux

package linux

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	goruntime "runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"nod"
	"nod/runtime/guest"
)

// spawner starts PID 1s from one thread that lives as long as the driver: the
// kernel sends a parent's death when the thread that started the child ends, not
// the process (golang/go#27505).
type spawner struct {
	work chan func()
	quit chan struct{}
	done chan struct{}
	err  error
}

func newSpawner() *spawner {
	s := &spawner{work: make(chan func()), quit: make(chan struct{}), done: make(chan struct{})}
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
		for {
			select {
			case f := <-s.work:
				f()
			case <-s.quit:
				return
			}
		}
	}()
	<-ready
	return s
}

func (s *spawner) close() {
	close(s.quit)
	<-s.done
}

// start starts c on the spawner's thread, unless that has ended.
func (s *spawner) start(c *exec.Cmd) error {
	if s.err != nil {
		return s.err
	}
	result := make(chan error)
	select {
	case s.work <- func() { result <- c.Start() }:
		return <-result
	case <-s.done:
		return os.ErrClosed
	}
}

const cloneFlags = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// initProcess is a PID 1 with namespaces of its own. It is nobody, and of no
// environment, until it is told by identify and a boot message.
type initProcess struct {
	cmd     *exec.Cmd
	pid     int
	pidfd   int
	control *control
	said    *os.File      // what it says on stderr
	gone    chan struct{} // closed once it is reaped
	lost    error         // of reaping it, set before gone is closed
}

// spawn starts a PID 1. Its capabilities are those of its own user namespace only.
func (d *Driver) spawn() (*initProcess, error) {
	host, child, err := controlPair()
	if err != nil {
		return nil, nod.E(nod.Unavailable, "no control socket", err)
	}
	said, stderr, err := os.Pipe()
	if err != nil {
		return nil, nod.E(nod.Unavailable, "no log pipe", errors.Join(err, host.close(), child.Close()))
	}
	p := &initProcess{pidfd: -1, control: host, said: said, gone: make(chan struct{})}
	for attempt := 0; ; attempt++ {
		p.cmd = initCommand(&p.pidfd, stderr, child, d.self)
		err = d.spawner.start(p.cmd)
		// The sealed binary may look busy for as long as another goroutine's fork holds
		// a copy of its writable descriptor.
		if !errors.Is(err, unix.ETXTBSY) || attempt == 50 {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	err = errors.Join(err, child.Close(), stderr.Close())
	if p.cmd.Process == nil {
		return nil, startError(errors.Join(err, host.close(), said.Close()))
	}
	p.pid = p.cmd.Process.Pid
	go p.reap()
	if p.pidfd < 0 {
		err = errors.Join(err, errors.New("the kernel gives no pidfd"))
	}
	if err != nil {
		return nil, startError(errors.Join(err, p.discard()))
	}
	return p, nil
}

func initCommand(pidfd *int, stderr *os.File, files ...*os.File) *exec.Cmd {
	c := exec.Command("/proc/self/fd/4", "init") // resolved by the child, see guest.selfFD
	c.Args[0] = "nod-guest"
	c.Env = []string{guest.Tuning}
	c.Dir = "/"
	c.Stderr = stderr
	c.ExtraFiles = files
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  cloneFlags,
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_SETPCAP, unix.CAP_SYS_CHROOT, unix.CAP_SETUID, unix.CAP_SETGID},
		Pdeathsig:   syscall.SIGKILL,
		PidFD:       pidfd,
		Setsid:      true,
	}
	return c
}

// identify makes hostUID the one user of the process's user namespace, under the
// number 1000. That can be done once.
func (p *initProcess) identify(hostUID int) error {
	hostGID := hostUID
	if os.Geteuid() != 0 {
		hostGID = os.Getegid()
	}
	for _, f := range [][2]string{{"setgroups", "deny"}, {"gid_map", fmt.Sprintf("1000 %d 1", hostGID)}, {"uid_map", fmt.Sprintf("1000 %d 1", hostUID)}} {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/%s", p.pid, f[0]), []byte(f[1]), 0); err != nil {
			return startError(err)
		}
	}
	return nil
}

// reap waits for the process. The kernel lets PID 1 be waited for only when every
// process of its namespace has been reaped.
func (p *initProcess) reap() {
	defer close(p.gone)
	var exit *exec.ExitError
	if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		p.lost = err
	}
}

func (p *initProcess) kill() error {
	// The process handle, unlike a number, cannot have become another's.
	if err := p.cmd.Process.Signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// release closes what belongs to a process that is gone.
func (p *initProcess) release() error {
	err := errors.Join(p.lost, p.control.close())
	if p.pidfd >= 0 {
		err = errors.Join(err, unix.Close(p.pidfd))
	}
	return err
}

// discard ends a process that got no environment.
func (p *initProcess) discard() error {
	if err := p.kill(); err != nil {
		return err
	}
	limit := time.NewTimer(stopPatience)
	defer limit.Stop()
	select {
	case <-p.gone:
		return errors.Join(p.release(), p.said.Close())
	case <-limit.C:
		return nod.E(nod.Unavailable, "a process that got no environment was killed but does not end", nil)
	}
}
