package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"nod"
)

const (
	runnerSocket = 3
	// drain is how long output may still come once every process has ended: a
	// descriptor may have been given to a process of another exec.
	drain = 500 * time.Millisecond
	// hangUpPatience is how long a runner whose exec is over waits for the host to go.
	hangUpPatience = 10 * time.Second
)

// runner holds one exec. It is the subreaper of all its descendants: whatever
// forks twice, opens a session of its own or ignores signals still ends with it,
// and the kernel says when none is left.
type runner struct {
	in    io.Reader  // frames of the host
	out   io.Writer  // frames for it
	write sync.Mutex // one frame at a time on out

	main   int // pid of the command
	stdin  *inlet
	tty    *os.File    // the terminal's other end, when there is one
	ending atomic.Bool // every process has ended
	struck atomic.Bool // the killing has begun
	once   sync.Once
	gone   chan struct{} // closed once wait4 has said ECHILD
	exit   Exit
}

// runnerMain runs an exec for PID 1, on the socket it was given.
func runnerMain() int {
	unix.CloseOnExec(runnerSocket)
	sock, err := pollable(runnerSocket, "exec")
	if err == nil {
		err = runRunner(sock, sock)
	}
	if err != nil {
		return 125
	}
	return 0
}

// runRunner holds one exec and ends once the host has hung up, having read all: an
// engine between them may lose the last frames of a process that ends with them, as
// Podman 4.3 does under load.
func runRunner(in *os.File, w io.Writer) error {
	if err := hold(in, w); err != nil {
		return err
	}
	if err := in.SetReadDeadline(time.Now().Add(hangUpPatience)); err != nil {
		return err
	}
	_, err := io.Copy(io.Discard, in)
	return err
}

func hold(in io.Reader, w io.Writer) error {
	for _, p := range [][2]uintptr{{unix.PR_SET_CHILD_SUBREAPER, 1}, {unix.PR_SET_DUMPABLE, 0}} {
		if err := unix.Prctl(int(p[0]), p[1], 0, 0, 0); err != nil {
			return err
		}
	}
	t, payload, err := ReadFrame(in)
	if err != nil {
		return err
	}
	var c Command
	if t != FrameCommand {
		return errors.New("the first frame is another")
	}
	if err := json.Unmarshal(payload, &c); err != nil {
		return err
	}
	r := &runner{in: in, out: w, gone: make(chan struct{})}
	if len(c.Argv) > 1 && c.Argv[0] == nod.GuestPath && c.Argv[1] == RoleProbe {
		return r.probe(c.Argv[2:])
	}
	out, errs, startErr := r.start(c)
	if startErr != nil {
		return writeJSON(w, FrameStarted, Started{Code: startCode(startErr), Err: startErr.Error()})
	}
	if err := r.send(FrameStarted, Started{Runner: ownIdentity(), Terminal: r.tty != nil}); err != nil {
		r.end()
	}
	go r.listen()
	go r.feed()
	go r.wait()
	var copies sync.WaitGroup
	copies.Go(func() { r.copy(FrameStdout, out) })
	if errs != nil {
		copies.Go(func() { r.copy(FrameStderr, errs) })
	}
	<-r.gone
	r.ending.Store(true)
	deadline := time.Now().Add(drain)
	if err := out.SetReadDeadline(deadline); err != nil {
		return err
	}
	if errs != nil {
		if err := errs.SetReadDeadline(deadline); err != nil {
			return err
		}
	}
	copies.Wait()
	return r.send(FrameExit, r.exit)
}

// probe answers as the probe would in a process of its own. The runner has nothing
// that a command has not: what holds for it, the parent, holds for them.
func (r *runner) probe(paths []string) error {
	out, err := json.Marshal(sight(paths))
	if err != nil {
		return err
	}
	if err := r.send(FrameStarted, Started{Runner: ownIdentity()}); err != nil {
		return err
	}
	for chunk := range slices.Chunk(out, MaxData) {
		if err := WriteFrame(r.out, FrameStdout, chunk); err != nil {
			return err
		}
	}
	return r.send(FrameExit, Exit{Reaped: true})
}

// start starts the command in a session of its own, with the three pipes.
func (r *runner) start(c Command) (stdout, stderr *os.File, err error) {
	if len(c.Argv) == 0 {
		return nil, nil, errors.New("the command is empty")
	}
	path, err := lookUp(c)
	if err != nil {
		return nil, nil, err
	}
	if c.Terminal != nil {
		out, err := r.startOnTerminal(path, c)
		return out, nil, err
	}
	var child [3]int // the command's ends
	var own [3]*os.File
	for i := range child {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			return nil, nil, err
		}
		mine := p[0]
		child[i] = p[1]
		if i == 0 {
			child[i], mine = p[0], p[1]
		}
		if own[i], err = pollable(mine, "pipe"); err != nil {
			return nil, nil, err
		}
	}
	r.main, err = syscall.ForkExec(path, c.Argv, &syscall.ProcAttr{
		Dir: c.Dir, Env: c.Env, Files: []uintptr{uintptr(child[0]), uintptr(child[1]), uintptr(child[2])},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	for _, fd := range child {
		err = errors.Join(err, unix.Close(fd))
	}
	if err != nil {
		return nil, nil, err
	}
	r.stdin = newInlet(own[0])
	return own[1], own[2], nil
}

// lookUp finds the command's file as a shell would, in the command's own PATH.
func lookUp(c Command) (string, error) {
	name := c.Argv[0]
	if strings.Contains(name, "/") {
		if filepath.IsAbs(name) {
			return name, nil
		}
		return filepath.Join(c.Dir, name), nil
	}
	for _, e := range c.Env {
		list, ok := strings.CutPrefix(e, "PATH=")
		if !ok {
			continue
		}
		for _, dir := range filepath.SplitList(list) {
			p := filepath.Join(dir, name)
			if info, err := os.Stat(p); filepath.IsAbs(dir) && err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return p, nil
			}
		}
	}
	return "", fmt.Errorf("%s: %w", name, os.ErrNotExist)
}

func startCode(err error) nod.Code {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nod.NotFound
	case errors.Is(err, os.ErrPermission):
		return nod.Forbidden
	case errors.Is(err, unix.E2BIG):
		return nod.TooLarge
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOMEM):
		return nod.Unavailable
	}
	return nod.Invalid
}

// listen takes what the host says. Its silence for good, a closed socket, means
// that nobody answers for this exec any more: it ends.
func (r *runner) listen() {
	defer r.end()
	for {
		t, payload, err := ReadFrame(r.in)
		if err != nil {
			return
		}
		switch t {
		case FrameStdin:
			if !r.stdin.push(payload) {
				return // more than was credited
			}
		case FrameEOF:
			r.stdin.finish()
		case FrameResize:
			if r.tty == nil || resize(r.tty, payload) != nil {
				return
			}
		default: // FrameKill, or a frame that has no business here
			return
		}
	}
}

// feed passes stdin on and gives credit back for what the command took.
func (r *runner) feed() {
	r.stdin.drain(func(n int) error {
		credit := []byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}
		r.write.Lock()
		defer r.write.Unlock()
		return WriteFrame(r.out, FrameCredit, credit)
	})
}

// wait reaps until the kernel says that there is no child left. The command's own
// end ends everything that it left behind.
func (r *runner) wait() {
	defer close(r.gone)
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, unix.ECHILD):
			r.exit.Reaped = true
			return
		case err != nil:
			continue // EINTR
		case pid != r.main:
			if r.struck.Load() {
				r.exit.Killed++
			}
			continue
		}
		r.exit.Code = ws.ExitStatus()
		if ws.Signaled() {
			r.exit.Signal = int(ws.Signal())
			r.exit.Code = 128 + r.exit.Signal
		}
		r.end()
	}
}

// end kills every descendant until none is left. It returns at once.
func (r *runner) end() {
	r.once.Do(func() {
		r.struck.Store(true)
		go func() {
			own := map[int]bool{os.Getpid(): true}
			for {
				select {
				case <-r.gone:
					return
				default:
				}
				// When the table cannot be read, a later look can; until then the
				// host does not hear that this exec has ended.
				if parents, err := processes(); err == nil {
					var below []int
					for pid := range parents {
						if pid != os.Getpid() && descendsFrom(pid, parents, own) {
							below = append(below, pid)
						}
					}
					strike(below)
				}
				time.Sleep(strikePause)
			}
		}()
	})
}

// copy passes one stream on. Once the host is gone it only empties the pipe.
func (r *runner) copy(t Type, from *os.File) {
	buf := make([]byte, MaxData)
	var lost error
	for {
		if r.ending.Load() {
			if err := from.SetReadDeadline(time.Now().Add(drain)); err != nil {
				return
			}
		}
		n, err := from.Read(buf)
		if n > 0 && lost == nil {
			r.write.Lock()
			lost = WriteFrame(r.out, t, buf[:n])
			r.write.Unlock()
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && !r.ending.Load() {
			continue
		}
		if err != nil {
			return // io.EOF, or nobody writes any more
		}
	}
}

func (r *runner) send(t Type, v any) error {
	r.write.Lock()
	defer r.write.Unlock()
	return writeJSON(r.out, t, v)
}

func writeJSON(w io.Writer, t Type, v any) error {
	payload, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return WriteFrame(w, t, payload)
}

// pollable makes a descriptor that the Go scheduler can wait for.
func pollable(fd int, name string) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}
