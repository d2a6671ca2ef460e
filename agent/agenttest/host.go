package agenttest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"nod"
)

// hostMark marks every process of one Exec in its environment, which children
// inherit; that is how Kill finds those that made themselves independent.
const hostMark = "NOD_HOST_EXEC"

// Host is an Executor whose processes run on the host, isolated by nothing. It is
// for tests and for the demo with the scripted agent. Kill proves by /proc that
// nothing is left, so it works on Linux only.
type Host struct {
	Dir   string // working directory when a command names none; stands for /workspace
	Guest string // program that stands for nod.GuestPath; the running program when empty
}

// Exec starts c with exactly its environment.
func (h Host) Exec(ctx context.Context, c nod.Command) (nod.Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, nod.E(nod.Unavailable, "the start of a process was called off", err)
	}
	if len(c.Argv) == 0 {
		return nil, nod.E(nod.Invalid, "a command has no program", nil)
	}
	path, err := h.find(c)
	if err != nil {
		return nil, err
	}
	p := &hostProcess{mark: hostMark + "=" + rand.Text(), exited: make(chan struct{})}
	cmd := &exec.Cmd{Path: path, Args: c.Argv, Dir: c.Dir, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	if cmd.Dir == "" {
		cmd.Dir = h.Dir
	}
	for k, v := range c.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.Env = append(cmd.Env, p.mark)
	theirs, err := p.pipes(cmd)
	defer func() {
		for _, f := range theirs {
			_ = f.Close() // the child has its own copy
		}
	}()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		for _, f := range []*os.File{p.in, p.out, p.err} {
			if f != nil {
				_ = f.Close() // nothing was written
			}
		}
		return nil, nod.E(nod.Unavailable, "a process could not be started", err)
	}
	go func() {
		defer close(p.exited)
		_ = cmd.Wait() // the state says what there is to know
		if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			p.status = nod.ExitStatus{Code: 128 + int(ws.Signal()), Signal: int(ws.Signal())}
			return
		}
		p.status = nod.ExitStatus{Code: cmd.ProcessState.ExitCode()}
	}()
	return p, nil
}

// find is the program of c, looked up in the PATH of c.
func (h Host) find(c nod.Command) (string, error) {
	name := c.Argv[0]
	if name == nod.GuestPath {
		if h.Guest != "" {
			return h.Guest, nil
		}
		self, err := os.Executable()
		if err != nil {
			return "", nod.E(nod.Unavailable, "the running program cannot be found", err)
		}
		return self, nil
	}
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, dir := range filepath.SplitList(c.Env["PATH"]) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", nod.E(nod.NotFound, "there is no program "+name, nil)
}

type hostProcess struct {
	mark         string
	in, out, err *os.File
	exited       chan struct{}
	status       nod.ExitStatus // after exited
}

// pipes connects cmd and returns the child's ends. They are files, so that no
// goroutine stands between the child and the reader.
func (p *hostProcess) pipes(cmd *exec.Cmd) (theirs []*os.File, err error) {
	var end *os.File
	if end, p.in, err = os.Pipe(); err != nil {
		return theirs, err
	}
	theirs, cmd.Stdin = append(theirs, end), end
	if p.out, end, err = os.Pipe(); err != nil {
		return theirs, err
	}
	theirs, cmd.Stdout = append(theirs, end), end
	if p.err, end, err = os.Pipe(); err != nil {
		return theirs, err
	}
	theirs, cmd.Stderr = append(theirs, end), end
	return theirs, nil
}

func (p *hostProcess) Stdin() io.WriteCloser { return p.in }
func (p *hostProcess) Stdout() io.Reader     { return p.out }
func (p *hostProcess) Stderr() io.Reader     { return p.err }

func (p *hostProcess) Wait() (nod.ExitStatus, error) {
	<-p.exited
	return p.status, nil
}

// Kill kills every process that carries the mark until two looks in a row find
// none, and none of the killed that has not ended: one that is ending has lost its
// mark already.
func (p *hostProcess) Kill(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	killed := map[int]bool{}
	for empty := 0; empty < 2; {
		pids, err := marked(p.mark)
		if err != nil {
			return nod.E(nod.Unsupported, "this host cannot prove that a process is gone", err)
		}
		empty++
		for _, pid := range pids {
			empty, killed[pid] = 0, true
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return nod.E(nod.Unavailable, "a process could not be killed", err)
			}
		}
		for pid := range killed {
			if ended(pid) {
				delete(killed, pid)
			} else {
				empty = 0
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nod.E(nod.Unavailable, fmt.Sprintf("%d processes are left", len(killed)), context.Cause(ctx))
		}
	}
	<-p.exited
	return nil
}

// ended reports whether a process is gone, or waits only for its parent to look.
func ended(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	state := bytes.TrimSpace(stat[bytes.LastIndexByte(stat, ')')+1:])
	return len(state) == 0 || state[0] == 'Z' || state[0] == 'X'
}

// marked lists the live processes that have mark in their environment. A zombie
// has none.
func marked(mark string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err != nil {
			continue // gone, or not ours
		}
		for v := range bytes.SplitSeq(env, []byte{0}) {
			if string(v) == mark {
				pids = append(pids, pid)
				break
			}
		}
	}
	if len(entries) == 0 {
		return nil, errors.New("no /proc")
	}
	return pids, nil
}
