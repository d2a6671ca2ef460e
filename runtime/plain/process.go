//go:build unix

package plain

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"nod"
	"nod/runtime"
)

// plumbing is what may be started besides the guest binary.
var plumbing = []string{"sh", "git"}

const (
	// marker is in the environment of every process, so that one that left its
	// parent and its session is still found where the system shows environments.
	marker       = "NOD_PLAIN_EXEC"
	killPatience = 5 * time.Second
	killPause    = 2 * time.Millisecond
)

// process is one command and everything that carries its marker.
type process struct {
	cmd    *exec.Cmd
	mark   string
	stdin  *os.File
	stdout *os.File
	stderr *os.File

	kill sync.Mutex
	done chan struct{}
	exit nod.ExitStatus
	err  error
}

func (d *Driver) start(e *environment, c nod.Command) (*process, error) {
	if len(c.Argv) == 0 {
		return nil, nod.E(nod.Invalid, "the command is empty", nil)
	}
	program := d.cfg.Guest
	if c.Argv[0] != nod.GuestPath {
		if !slices.Contains(plumbing, c.Argv[0]) {
			return nil, nod.E(nod.Forbidden, "without isolation only the scripted agent, sh and git are started", nil)
		}
		found, err := exec.LookPath(c.Argv[0])
		if err != nil {
			return nil, nod.E(nod.NotFound, "the command does not start", err)
		}
		program = found
	}
	m := mapping{{runtime.WorkspacePath, e.spec.Workspace}, {runtime.HomePath, e.spec.Home}, {"/tmp", e.tmp}, {nod.GuestPath, d.cfg.Guest}}
	dir := c.Dir
	if dir == "" {
		dir = runtime.WorkspacePath
	}
	env := map[string]string{
		"PATH": "/usr/local/bin:/usr/bin:/bin:/opt/homebrew/bin", "HOME": runtime.HomePath, "TMPDIR": "/tmp", "LANG": "C.UTF-8",
		marker: rand.Text(),
	}
	for k, v := range c.Env {
		if k != marker {
			env[k] = v
		}
	}
	cmd := &exec.Cmd{Path: program, Args: []string{c.Argv[0]}, Dir: m.apply(dir), SysProcAttr: sysProcAttr()}
	for _, a := range c.Argv[1:] {
		cmd.Args = append(cmd.Args, m.apply(a))
	}
	for k, v := range env {
		cmd.Env = append(cmd.Env, k+"="+m.apply(v))
	}
	p := &process{cmd: cmd, mark: env[marker], done: make(chan struct{})}
	if err := p.begin(); err != nil {
		return nil, nod.E(nod.Invalid, "the command does not start", err)
	}
	go p.wait()
	return p, nil
}

func (p *process) begin() error {
	inR, inW, err := os.Pipe()
	if err != nil {
		return err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return errors.Join(err, inR.Close(), inW.Close())
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return errors.Join(err, inR.Close(), inW.Close(), outR.Close(), outW.Close())
	}
	p.stdin, p.stdout, p.stderr = inW, outR, errR
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = inR, outW, errW
	err = p.cmd.Start()
	err = errors.Join(err, inR.Close(), outW.Close(), errW.Close())
	if err != nil {
		err = errors.Join(err, inW.Close(), outR.Close(), errR.Close())
	}
	return err
}

// wait ends, with the command, everything that it left behind.
func (p *process) wait() {
	defer close(p.done)
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.err = nod.E(nod.Internal, "the command ended without a status", err)
	}
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		p.exit = nod.ExitStatus{Code: 128 + int(ws.Signal()), Signal: int(ws.Signal())}
	} else {
		p.exit = nod.ExitStatus{Code: p.cmd.ProcessState.ExitCode()}
	}
	if err := p.end(); err != nil {
		p.err = errors.Join(p.err, err)
	}
}

// end kills the group and every descendant until a look finds none.
func (p *process) end() error {
	p.kill.Lock()
	defer p.kill.Unlock()
	known := map[int]bool{}
	for deadline := time.Now().Add(killPatience); ; time.Sleep(killPause) {
		all, err := processes()
		if err != nil {
			return nod.E(nod.Internal, "the process table cannot be read", err)
		}
		var alive []int
		for pid, parent := range all {
			if pid == p.cmd.Process.Pid || known[parent] || parent == p.cmd.Process.Pid || known[pid] || carries(pid, marker+"="+p.mark) {
				known[pid] = true
				alive = append(alive, pid)
			}
		}
		groupErr := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		if len(alive) == 0 && errors.Is(groupErr, syscall.ESRCH) {
			return nil
		}
		for _, pid := range alive {
			// ESRCH is what is wanted, and the next look tells.
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if time.Now().After(deadline) {
			return nod.E(nod.Unavailable, "processes outlive the kill", nil)
		}
	}
}

func (p *process) Stdin() io.WriteCloser { return p.stdin }
func (p *process) Stdout() io.Reader     { return p.stdout }
func (p *process) Stderr() io.Reader     { return p.stderr }

func (p *process) Wait() (nod.ExitStatus, error) {
	<-p.done
	return p.exit, p.err
}

// Kill ends the command and what carries its marker.
func (p *process) Kill(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	default:
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return nod.E(nod.Unavailable, "the command cannot be killed", err)
	}
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return nod.E(nod.Unavailable, "the command's end is not proven yet", ctx.Err())
	}
}

// mapping substitutes the directories that an environment would have.
type mapping [][2]string

// apply replaces each path of m where it stands as a path of its own or as the
// beginning of one. What was put in is not looked at again.
func (m mapping) apply(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		hit := false
		for _, pair := range m {
			rest, ok := strings.CutPrefix(s[i:], pair[0])
			if ok && (i == 0 || !pathByte(s[i-1])) && (rest == "" || rest[0] == '/' || !pathByte(rest[0])) {
				b.WriteString(path.Clean(pair[1]))
				i += len(pair[0])
				hit = true
				break
			}
		}
		if !hit {
			b.WriteByte(s[i])
			i++
		}
	}
	return b.String()
}

func pathByte(c byte) bool {
	return c == '/' || c == '.' || c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
