package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	goruntime "runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Descriptors that the driver gives PID 1.
const (
	controlFD = 3 // SOCK_SEQPACKET to the driver
	selfFD    = 4 // sealed copy of this binary
)

// exit is not os.Exit, which under the race detector takes a second.
func exit(code int) { syscall.Exit(code) }

func run(role string) int {
	switch role {
	case RoleInit:
		return initMain()
	case RoleServe:
		return serveMain()
	case RoleRunner:
		return runnerMain()
	case RoleContain:
		return hardenMain(roleKeep, scopeAbstractUnix)
	case RoleEnter:
		return hardenMain(roleLease, scopeAbstractUnix|scopeSignal)
	case roleKeep:
		return keepMain()
	case roleLease:
		return leaseMain()
	default:
		return probeMain()
	}
}

// stepError names the step of the start that did not work.
type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return e.step + ": " + e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

func step(name string, err error) error {
	if err == nil {
		return nil
	}
	return &stepError{name, err}
}

// initMain builds the environment, hands the listener out, waits for the host's
// go, gives up every right, says what it sees then and becomes the server.
func initMain() int {
	// Capabilities, landlock and the seccomp filter belong to a thread until the
	// execve at the end makes this one the only one.
	goruntime.LockOSThread()
	if err := initialise(); err != nil {
		return reportFailure(err)
	}
	return 125 // unreachable: initialise only returns errors
}

func reportFailure(err error) int {
	f := Failure{Step: "start", Err: err.Error()}
	var s *stepError
	if errors.As(err, &s) {
		f.Step, f.Err = s.step, s.err.Error()
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		f.Errno = int(errno)
	}
	payload, jerr := json.Marshal(f)
	if jerr == nil {
		jerr = sendPacket(controlFD, FrameFailed, payload)
	}
	fmt.Fprintf(os.Stderr, "nod-guest: %v\n", err)
	if jerr != nil {
		fmt.Fprintf(os.Stderr, "nod-guest: report: %v\n", jerr)
	}
	return 125
}

func initialise() error {
	// Nothing inherited by accident may reach the environment.
	if err := unix.CloseRange(selfFD, ^uint(0)>>33, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return step("close descriptors", err)
	}
	// A process that was started ahead has the time to learn a Boot's form.
	if err := json.Unmarshal([]byte(`{"binds":[{}],"etc_files":[{}]}`), new(Boot)); err != nil {
		return step("read boot", err)
	}
	t, payload, trees, err := receivePacket(controlFD)
	if err != nil {
		return step("read boot", err)
	}
	if t != FrameBoot {
		return step("read boot", errors.New("the first frame is another"))
	}
	var b Boot
	if err := json.Unmarshal(payload, &b); err != nil {
		return step("read boot", err)
	}
	if err := becomeAgent(); err != nil {
		return err
	}
	if err := buildRoot(b, trees); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte("nod")); err != nil {
		return step("set hostname", err)
	}
	if err := loopbackUp(); err != nil {
		return step("bring loopback up", err)
	}
	if err := handListenerOut(b.Proxy); err != nil {
		return step("hand the egress listener out", err)
	}
	if t, _, _, err = receivePacket(controlFD); err != nil || t != FrameGo {
		return step("wait for go", errors.Join(err, errors.New("the host did not say go")))
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	if err := setLimits(b.PIDs); err != nil {
		return err
	}
	abi, err := restrictPaths(b.Landlock, scopeAbstractUnix|scopeSignal)
	if err != nil {
		return step("landlock", err)
	}
	if err := installFilter(); err != nil {
		return step("seccomp", err)
	}
	// What this thread sees holds for the program that it becomes and for everything
	// that one starts: with no_new_privs an execve gives nothing back. So the host need
	// not wait for that program to come up.
	saw := sight(nil)
	ready, err := json.Marshal(Ready{Landlock: abi, Saw: &saw})
	if err != nil {
		return step("say ready", err)
	}
	if err := sendPacket(controlFD, FrameReady, ready); err != nil {
		return step("say ready", err)
	}
	return step("execve", execSelf([]string{"nod-guest", RoleServe}))
}

// becomeAgent takes the identity that the host has meanwhile given to this user
// namespace. Of this thread alone: the others end with the execve.
func becomeAgent() error {
	const id = 1000
	for _, call := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
		if _, _, errno := unix.RawSyscall(call, id, id, id); errno != 0 {
			return step("become the agent's user", errno)
		}
	}
	// The kernel forgets it with the old identity.
	return step("die with the host", unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0))
}
