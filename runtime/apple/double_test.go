//go:build linux

package apple

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"nod"
	"nod/runtime/guest"
)

// The double behaves as Apple's program is documented to. Its machines are plain
// processes of this host: what needs a guest's kernel is not tested with it.

// machine is what the double keeps of one, in a file of its name.
type machine struct {
	Args    []string
	PID     int // of the process that stands for its init
	Running bool
}

type doubleFailure struct{ name, text string }

func (f *doubleFailure) Error() string { return fmt.Sprintf("Error: %s: %q", f.name, f.text) }

// doubleMain is the program. Its state lies beside it: the environment it is
// started with holds nothing.
func doubleMain(args []string) int {
	dir := filepath.Dir(args[0])
	line, err := json.Marshal(map[string]any{"args": args[1:], "env": os.Environ()})
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(filepath.Join(dir, "calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			_, err = f.Write(append(line, '\n'))
			err = errors.Join(err, f.Close())
		}
	}
	if err == nil {
		err = double{dir}.serve(args[1:])
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

type double struct{ dir string }

func (d double) serve(args []string) error {
	last := args[len(args)-1]
	switch args[0] {
	case "system":
		b, err := os.ReadFile(filepath.Join(d.dir, args[1]+".json"))
		_, werr := os.Stdout.Write(b)
		return errors.Join(err, werr)
	case "image":
		if last != "known:1" {
			return &doubleFailure{"notFound", last}
		}
		return nil
	case "create":
		name := args[2]
		if _, err := d.load(name); err == nil {
			return &doubleFailure{"exists", name}
		}
		fmt.Println(name)
		return d.save(name, machine{Args: args})
	case "start":
		return d.start(last)
	case "kill":
		m, err := d.load(last)
		if err == nil && m.Running {
			// The init takes everything of the machine along.
			err = syscall.Kill(m.PID, syscall.SIGKILL)
			m.Running = false
			err = errors.Join(err, d.save(last, m), d.execs(last, syscall.LOCK_EX))
		}
		return err
	case "delete":
		if _, err := d.load(last); err != nil {
			return err
		}
		return os.Remove(d.path(last))
	case "list":
		names, err := filepath.Glob(filepath.Join(d.dir, "nod-*.json"))
		if err != nil {
			return err
		}
		for i, n := range names {
			names[i] = strings.TrimSuffix(filepath.Base(n), ".json")
		}
		return d.show(names)
	case "inspect":
		return d.show(args[1:])
	case "logs":
		fmt.Println("the double has nothing to say")
		return nil
	case "exec":
		return d.exec(args[2], args[3:])
	case "double-init":
		return d.init(args[1])
	}
	return &doubleFailure{"invalidArgument", args[0]}
}

// execs holds the lock that each exec of a machine shares for as long as it runs.
func (d double) execs(name string, how int) error {
	f, err := os.OpenFile(filepath.Join(d.dir, name+".execs"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return syscall.Flock(int(f.Fd()), how) // until this process ends
}

func (d double) path(name string) string { return filepath.Join(d.dir, name+".json") }

func (d double) load(name string) (m machine, err error) {
	b, err := os.ReadFile(d.path(name))
	if err != nil {
		return m, &doubleFailure{"notFound", "container not found: " + name}
	}
	return m, json.Unmarshal(b, &m)
}

func (d double) save(name string, m machine) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(d.path(name)+".new", b, 0o600), os.Rename(d.path(name)+".new", d.path(name)))
}

// source is where a -v with that target leads.
func (m machine) source(target string) string {
	for i, a := range m.Args {
		if f := strings.Split(a, ":"); i > 0 && m.Args[i-1] == "-v" && len(f) > 1 && f[1] == target {
			return f[0]
		}
	}
	return ""
}

func (d double) show(names []string) error {
	var out []any
	for _, n := range names {
		m, err := d.load(n)
		if err != nil {
			return err
		}
		labels := map[string]string{}
		for i, a := range m.Args {
			if k, v, ok := strings.Cut(a, "="); ok && i > 0 && m.Args[i-1] == "-l" {
				labels[k] = v
			}
		}
		state := "stopped"
		if m.Running && syscall.Kill(m.PID, 0) == nil {
			state = "running"
		}
		out = append(out, map[string]any{"id": n, "configuration": map[string]any{"id": n, "labels": labels}, "status": map[string]any{"state": state, "networks": []any{}}})
	}
	if out == nil {
		out = []any{}
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

func (d double) start(name string) error {
	m, err := d.load(name)
	if err != nil || m.Running {
		return err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{os.Args[0], "double-init", name}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	m.PID, m.Running = cmd.Process.Pid, true
	return d.save(name, m)
}

// init stands for the guest's PID 1: it holds the connection to the host.
func (d double) init(name string) error {
	m, err := d.load(name)
	if err != nil {
		return err
	}
	host, err := net.Dial("unix", m.source(guest.ControlSocket))
	if err != nil {
		return err
	}
	if err := guest.WriteFrame(host, guest.FrameReady, []byte(`{}`)); err != nil {
		return err
	}
	for {
		if _, _, err := guest.ReadFrame(host); err != nil {
			return nil // the host is gone, and so is the machine
		}
		if err := guest.WriteFrame(host, guest.FrameSwept, []byte(`{}`)); err != nil {
			return nil
		}
	}
}

// exec runs the guest's own runner, but for the probe, which would see this host.
func (d double) exec(name string, argv []string) error {
	m, err := d.load(name)
	if err != nil {
		return err
	}
	if !m.Running {
		return &doubleFailure{"invalidState", name}
	}
	if !slices.Equal(argv, []string{nod.GuestPath, guest.RoleEnter, "1"}) {
		return &doubleFailure{"invalidArgument", strings.Join(argv, " ")}
	}
	t, payload, err := guest.ReadFrame(os.Stdin)
	if err != nil || t != guest.FrameCommand {
		return errors.Join(err, errors.New("no command came"))
	}
	var c guest.Command
	if err := json.Unmarshal(payload, &c); err != nil {
		return err
	}
	if c.Argv[0] == nod.GuestPath && c.Argv[1] == guest.RoleProbe {
		saw, err := os.ReadFile(filepath.Join(d.dir, "sighting"))
		return errors.Join(err, guest.WriteFrame(os.Stdout, guest.FrameStarted, []byte(`{}`)), guest.WriteFrame(os.Stdout, guest.FrameStdout, saw),
			guest.WriteFrame(os.Stdout, guest.FrameExit, []byte(`{"reaped":true}`)))
	}
	if c.Argv[0] == nod.GuestPath { // what the test binary is asked to be inside
		if c.Argv[0], err = os.Readlink("/proc/self/exe"); err != nil {
			return err
		}
	}
	c.Dir = m.source(c.Dir)
	if payload, err = json.Marshal(c); err != nil {
		return err
	}
	first, err := guest.AppendFrame(nil, guest.FrameCommand, payload)
	if err != nil {
		return err
	}
	if err := d.execs(name, syscall.LOCK_SH); err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"nod-guest", "lease"}
	cmd.Env = []string{}
	var ended atomic.Bool // a machine that has ended says nothing more
	cmd.Stdout, cmd.Stderr = unlessEnded{&ended}, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	// The machine's end is the end of all that runs in it, as that of this program is.
	gone := make(chan struct{}, 2)
	go func() {
		_, _ = in.Write(first)
		_, _ = io.Copy(in, os.Stdin)
		gone <- struct{}{}
	}()
	go func() {
		for tick := time.NewTicker(5 * time.Millisecond); alive(m.PID); <-tick.C {
		}
		ended.Store(true)
		gone <- struct{}{}
	}()
	go func() {
		<-gone
		_ = in.Close() // the runner kills
	}()
	if err := cmd.Wait(); err != nil {
		return err
	}
	if ended.Load() {
		return &doubleFailure{"interrupted", name}
	}
	return nil
}

type unlessEnded struct{ ended *atomic.Bool }

func (w unlessEnded) Write(b []byte) (int, error) {
	if w.ended.Load() {
		return len(b), nil
	}
	return os.Stdout.Write(b)
}
