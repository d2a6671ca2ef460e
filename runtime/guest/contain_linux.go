package guest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	goruntime "runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"nod"
)

// hardenMain gives up what an engine may have left, and becomes role.
func hardenMain(role string, scope uint64) int {
	goruntime.LockOSThread()
	if err := harden(role, scope); err != nil {
		fmt.Fprintf(os.Stderr, "nod-guest: %v\n", err)
	}
	return 125 // harden returns only errors
}

func harden(role string, scope uint64) error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return step("hide", err)
	}
	if err := unix.CloseRange(runnerSocket, ^uint(0)>>33, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return step("close descriptors", err)
	}
	required := 0
	if len(os.Args) > 2 {
		n, err := strconv.Atoi(os.Args[2])
		if err != nil {
			return step("read the landlock version", err)
		}
		required = n
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return step("clear ambient capabilities", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&header, &none[0]); err != nil {
		return step("drop capabilities", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return step("set no_new_privs", err)
	}
	if err := setLimits(0); err != nil {
		return err
	}
	if _, err := restrictPaths(required, scope); err != nil {
		return step("landlock", err)
	}
	if err := installFilter(); err != nil {
		return step("seccomp", err)
	}
	return step("execve", unix.Exec(nod.GuestPath, []string{"nod-guest", role}, []string{Tuning}))
}

// leaseMain runs an exec whose frames come on stdin: when the engine's client dies,
// stdin ends, and with it the exec.
func leaseMain() int {
	for _, fd := range []int{0, 1} {
		unix.CloseOnExec(fd)
	}
	in, err := pollable(0, "frames in")
	if err != nil {
		return 125
	}
	out, err := pollable(1, "frames out")
	if err != nil {
		return 125
	}
	if err := runRunner(in, out); err != nil {
		fmt.Fprintf(os.Stderr, "nod-guest: %v\n", err)
		return 125
	}
	return 0
}

// keepMain is the hardened PID 1 of a container. It holds a connection to the
// host: when that ends, so does the container.
func keepMain() int {
	if err := keep(); err != nil {
		fmt.Fprintf(os.Stderr, "nod-guest: %v\n", err)
		return 125
	}
	return 0
}

func keep() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return step("hide init", err)
	}
	// Everything here runs as the same user; what the kernel would deliver to an
	// init that handles it is refused.
	signal.Ignore(unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGABRT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE)
	children := make(chan os.Signal, 1)
	signal.Notify(children, unix.SIGCHLD)
	go func() {
		for range children {
			for {
				pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
				if errors.Is(err, unix.EINTR) {
					continue
				}
				if err != nil || pid <= 0 {
					break // ECHILD, or none has ended
				}
			}
		}
	}()
	host, err := net.Dial("unix", ControlSocket)
	if err != nil {
		return step("reach the host", err)
	}
	l, err := net.Listen("tcp", probeProxy)
	if err != nil {
		return step("listen for the egress proxy", err)
	}
	lost := make(chan error, 2)
	go func() { lost <- step("relay", relay(l, EgressSocket)) }()
	go func() { lost <- command(host) }()
	return <-lost
}

// command serves the host until it is gone.
func command(host net.Conn) error {
	ready, err := json.Marshal(Ready{Landlock: landlockABI()})
	if err != nil {
		return err
	}
	if err := WriteFrame(host, FrameReady, ready); err != nil {
		return step("say ready", err)
	}
	for {
		t, payload, err := ReadFrame(host)
		if err != nil {
			return step("listen to the host", err)
		}
		if t != FrameSweep || len(payload) != 8 {
			return step("listen to the host", fmt.Errorf("frame %d is not served here", t))
		}
		killed, err := sweepContainer(binary.BigEndian.Uint64(payload))
		if err != nil {
			return step("sweep", err) // PID 1 ends, and with it everything
		}
		if err := writeJSON(host, FrameSwept, Swept{Killed: killed}); err != nil {
			return step("say swept", err)
		}
	}
}

// sweepContainer kills every process that descends from no live runner, until a
// look at the table finds none. Runners are what the engine started: their parent
// is outside, number 0, which nothing inside can bring about. The one whose
// identity is dead counts as none.
func sweepContainer(dead uint64) (killed int, err error) {
	seen := map[int]bool{}
	for deadline := time.Now().Add(sweepPatience); ; time.Sleep(strikePause) {
		parents, err := processes()
		if err != nil {
			return len(seen), err
		}
		alive := map[int]bool{}
		for pid, parent := range parents {
			if pid != 1 && parent == 0 && identity(pid) != dead {
				alive[pid] = true
			}
		}
		var stray []int
		for pid := range parents {
			if pid != 1 && !descendsFrom(pid, parents, alive) {
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

func ownIdentity() uint64 { return identity(os.Getpid()) }

// identity tells a process from a later one of the same number: 0 when it is gone.
func identity(pid int) uint64 {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	started, ok := parseStart(stat)
	if !ok {
		return 0
	}
	return uint64(pid)<<32 | started&0xffffffff
}
