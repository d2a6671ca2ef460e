package guest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"nod"
)

// server is the hardened PID 1: it reaps, starts runners and sweeps after those
// that died.
type server struct {
	control int
	spawn   func(socket int) (pid int, err error)

	mu      sync.Mutex     // held while runners change and while the table is swept
	runners map[int]uint64 // pid → the host's number of the exec
}

func serveMain() int {
	if err := serve(); err != nil && !errors.Is(err, errClosed) {
		return reportFailure(err)
	}
	return 0
}

func serve() error {
	// Hides /proc/1/{environ,exe,fd,mem,root} from the environment's own user.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return step("hide init", err)
	}
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return step("die with the host", err)
	}
	unix.CloseOnExec(controlFD)
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return step("open /dev/null", err)
	}
	for _, fd := range []int{0, 1} {
		if err := unix.Dup3(null, fd, 0); err != nil {
			return step("let go of the host's files", err)
		}
	}
	s := &server{control: controlFD, runners: map[int]uint64{}}
	s.spawn = func(socket int) (int, error) { return spawnRunner(null, socket) }
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	go s.reap(children)
	return s.loop()
}

// loop serves the host until it is gone. A packet that is not a frame, or a frame
// that has no business here, is dropped with a line on stderr: the next one
// counts again.
func (s *server) loop() error {
	for {
		t, payload, fds, err := receivePacket(s.control)
		if errors.Is(err, errGarbage) {
			fmt.Fprintf(os.Stderr, "nod-guest: %v\n", err)
			continue
		}
		if err != nil {
			return err
		}
		switch {
		case t == FrameExec && len(fds) == 1 && len(payload) == 8:
			s.exec(fds[0], binary.BigEndian.Uint64(payload))
			continue
		case t == FrameSweep && len(payload) == 8:
			killed, err := s.sweep(binary.BigEndian.Uint64(payload))
			if err != nil {
				return step("sweep", err) // PID 1 ends, and with it everything
			}
			payload, err := json.Marshal(Swept{Killed: killed})
			if err != nil {
				return err
			}
			if err := sendPacket(s.control, FrameSwept, payload); err != nil {
				return err
			}
		default:
			fmt.Fprintf(os.Stderr, "nod-guest: frame %d is not served here\n", t)
		}
		for _, fd := range fds {
			if err := unix.Close(fd); err != nil {
				return step("close a stray descriptor", err)
			}
		}
	}
}

// exec starts a runner on socket. When that fails, the peer reads why.
func (s *server) exec(socket int, number uint64) {
	s.mu.Lock()
	pid, err := s.spawn(socket)
	if err == nil {
		s.runners[pid] = number
	}
	s.mu.Unlock()
	if err != nil {
		f := os.NewFile(uintptr(socket), "exec")
		if err := errors.Join(writeJSON(f, FrameStarted, Started{Code: nod.Unavailable, Err: err.Error()}), f.Close()); err != nil {
			fmt.Fprintf(os.Stderr, "nod-guest: refuse exec: %v\n", err)
		}
		return
	}
	if err := unix.Close(socket); err != nil {
		fmt.Fprintf(os.Stderr, "nod-guest: close exec socket: %v\n", err)
	}
}

// spawnRunner starts a runner that has null where others have streams.
func spawnRunner(null, socket int) (int, error) {
	return syscall.ForkExec(nod.GuestPath, []string{"nod-guest", RoleRunner}, &syscall.ProcAttr{
		Dir: "/", Env: []string{Tuning}, Files: []uintptr{uintptr(null), uintptr(null), uintptr(null), uintptr(socket)},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
}

// reap collects every child that ends. Only runners are children of PID 1 by
// right: anything else fell to it because a runner died, and ends at once.
func (s *server) reap(children <-chan os.Signal) {
	for range children {
		orphaned := false
		for {
			var ws unix.WaitStatus
			pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || pid <= 0 {
				break // ECHILD, or none has ended
			}
			s.mu.Lock()
			_, runner := s.runners[pid]
			orphaned = orphaned || runner
			delete(s.runners, pid)
			s.mu.Unlock()
		}
		if orphaned {
			if _, err := s.sweep(0); err != nil {
				fmt.Fprintf(os.Stderr, "nod-guest: sweep: %v\n", err)
				os.Exit(125)
			}
		}
	}
}

const sweepPatience = 5 * time.Second

// sweep kills every process that is neither PID 1 nor below a live runner, until
// a look at the table finds none. The runner of the exec number, which is never
// 0, counts as dead: it may be stopped by the processes it should hold.
func (s *server) sweep(number uint64) (killed int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for pid, n := range s.runners {
		if n == number {
			delete(s.runners, pid)
		}
	}
	seen := map[int]bool{}
	for deadline := time.Now().Add(sweepPatience); ; time.Sleep(strikePause) {
		parents, err := processes()
		if err != nil {
			return len(seen), err
		}
		var stray []int
		for pid := range parents {
			if pid != 1 && !descendsFrom(pid, parents, s.runners) {
				stray, seen[pid] = append(stray, pid), true
			}
		}
		if len(stray) == 0 {
			return len(seen), nil
		}
		if time.Now().After(deadline) {
			return len(seen), errors.New("processes outlive SIGKILL")
		}
		strike(stray)
	}
}
