package guest

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// guestProgram builds cmd/nod-guest once: what follows holds for it as it is shipped,
// without any driver.
var guestProgram = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "nod-guest-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "nod-guest")
	build := exec.Command("go", "build", "-o", path, "nod/cmd/nod-guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", errors.New(string(out))
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := guestProgram(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path)) // a directory in the machine's own for such things
	}
	os.Exit(code)
}

func built(t *testing.T) string {
	t.Helper()
	path, err := guestProgram()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheGuestProgramIsStatic(t *testing.T) {
	f, err := elf.Open(built(t))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil || len(libraries) > 0 {
		t.Errorf("it needs %v, %v", libraries, err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			t.Error("it needs an interpreter")
		}
	}
}

func TestTheGuestProgramIsNothingByItself(t *testing.T) {
	for _, args := range [][]string{nil, {"help"}, {"Init"}, {"--version"}} {
		err := exec.Command(built(t), args...).Run()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 2 {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// runnerProgram is the exec runner on two pipes.
type runnerProgram struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.Reader
}

func startRunner(t *testing.T) *runnerProgram {
	t.Helper()
	r := &runnerProgram{cmd: exec.Command(built(t), roleLease)}
	r.cmd.Env = []string{}
	var err error
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if r.out, err = r.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if r.cmd.ProcessState == nil {
			_ = r.cmd.Process.Kill()
			_ = r.cmd.Wait()
		}
	})
	return r
}

// command starts a shell and returns once it runs.
func (r *runnerProgram) command(t *testing.T, script string) {
	t.Helper()
	payload, err := json.Marshal(Command{Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteFrame(r.in, FrameCommand, payload); err != nil {
		t.Fatal(err)
	}
	typ, answer, err := ReadFrame(r.out)
	var s Started
	if err == nil {
		err = json.Unmarshal(answer, &s)
	}
	if err != nil || typ != FrameStarted || s.Err != "" {
		t.Fatalf("%d %s %v", typ, answer, err)
	}
}

// rest reads to the end, hanging up after the exit as a host does: what came on both
// streams, and the exit.
func (r *runnerProgram) rest(t *testing.T) (out, errs string, exit *Exit) {
	t.Helper()
	for {
		typ, payload, err := ReadFrame(r.out)
		if errors.Is(err, io.EOF) {
			return out, errs, exit
		}
		if err != nil {
			t.Fatal(err)
		}
		switch typ {
		case FrameStdout:
			out += string(payload)
		case FrameStderr:
			errs += string(payload)
		case FrameExit:
			exit = &Exit{}
			if err := errors.Join(json.Unmarshal(payload, exit), ignoreClosed(r.in.Close())); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// until reads stdout until it holds mark.
func (r *runnerProgram) until(t *testing.T, mark string) string {
	t.Helper()
	for out := ""; ; {
		typ, payload, err := ReadFrame(r.out)
		if err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if typ == FrameStdout {
			out += string(payload)
		}
		if strings.Contains(out, mark) {
			return out
		}
	}
}

// sleepers counts processes that sleep for that long.
func sleepers(t *testing.T, seconds string) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil && strings.HasSuffix(string(text), "sleep\x00"+seconds+"\x00") {
			n++
		}
	}
	return n
}

func TestTheGuestProgramRunsACommand(t *testing.T) {
	r := startRunner(t)
	r.command(t, "cat; echo err >&2; exit 3")
	if err := errors.Join(WriteFrame(r.in, FrameStdin, []byte("in")), WriteFrame(r.in, FrameEOF, nil)); err != nil {
		t.Fatal(err)
	}
	out, errs, exit := r.rest(t)
	if out != "in" || errs != "err\n" || exit == nil || exit.Code != 3 || !exit.Reaped {
		t.Errorf("%q, %q, %+v", out, errs, exit)
	}
	if err := r.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// forest is a command whose processes leave their parent, their session and their
// signals behind, sleeping for so many seconds.
func forest(seconds string) string {
	return strings.ReplaceAll(`setsid sleep N & (setsid sleep N &); (nohup sleep N >/dev/null 2>&1 &); (trap "" TERM HUP INT; setsid sh -c "sleep N & sleep N" &); sleep 0.1; echo grown; sleep N`, "N", seconds)
}

func TestTheGuestProgramLeavesNothing(t *testing.T) {
	for name, end := range map[string]func(r *runnerProgram) error{
		"kill":         func(r *runnerProgram) error { return WriteFrame(r.in, FrameKill, nil) },
		"end of input": func(r *runnerProgram) error { return r.in.Close() },
		"garbage":      func(r *runnerProgram) error { _, err := io.WriteString(r.in, "GET / HTTP/1.1\r\n\r\n"); return err },
		"wrong version": func(r *runnerProgram) error {
			_, err := r.in.Write([]byte{'n', 2, byte(FrameEOF), 0, 0, 0, 0, 0})
			return err
		},
		"huge": func(r *runnerProgram) error {
			_, err := r.in.Write([]byte{'n', 1, byte(FrameStdin), 0, 255, 255, 255, 255})
			return err
		},
		"a second one": func(r *runnerProgram) error { return WriteFrame(r.in, FrameCommand, []byte(`{"argv":["/bin/true"]}`)) },
		"cut short": func(r *runnerProgram) error {
			_, err := r.in.Write([]byte{'n', 1, byte(FrameStdin), 0, 0, 0, 0, 9, 'x'})
			return errors.Join(err, r.in.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			seconds := "8" + strconv.Itoa(os.Getpid()) + strconv.Itoa(len(name))
			r := startRunner(t)
			r.command(t, forest(seconds))
			r.until(t, "grown")
			for deadline := time.Now().Add(time.Minute); sleepers(t, seconds) < 6; {
				if time.Now().After(deadline) {
					t.Fatalf("only %d processes run", sleepers(t, seconds))
				}
			}
			if err := end(r); err != nil {
				t.Fatal(err)
			}
			_, _, exit := r.rest(t)
			if exit == nil || !exit.Reaped || exit.Signal != int(unix.SIGKILL) {
				t.Errorf("the last word is %+v", exit)
			}
			if n := sleepers(t, seconds); n != 0 {
				t.Errorf("%d processes are left when it says that none is", n)
			}
		})
	}
}

func TestTheGuestProgramTakesNothingBeforeACommand(t *testing.T) {
	for name, text := range map[string][]byte{
		"garbage": []byte("\xff\xfe garbage that is no frame"), "another frame": {'n', 1, byte(FrameKill), 0, 0, 0, 0, 0}, "no JSON": {'n', 1, byte(FrameCommand), 0, 0, 0, 0, 1, 'x'}, "nothing": nil,
	} {
		r := startRunner(t)
		if _, err := r.in.Write(text); err != nil {
			t.Fatal(err)
		}
		if err := r.in.Close(); err != nil {
			t.Fatal(err)
		}
		if said, err := io.ReadAll(r.out); err != nil || len(said) > 0 {
			t.Errorf("%s: it answers %q, %v", name, said, err)
		}
		var exit *exec.ExitError
		if err := r.cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 125 {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := startRunner(t)
	if err := WriteFrame(r.in, FrameCommand, []byte(`{"argv":["/no/such/program"],"dir":"/"}`)); err != nil {
		t.Fatal(err)
	}
	typ, answer, err := ReadFrame(r.out)
	if err != nil || typ != FrameStarted || !bytes.Contains(answer, []byte(`"not_found"`)) {
		t.Errorf("a program that is not there: %d %s %v", typ, answer, err)
	}
}

// TestTheGuestProgramEndsAfterTheHost has a host that is slow to read: an engine
// between them may drop what a process that has ended still had to say.
func TestTheGuestProgramEndsAfterTheHost(t *testing.T) {
	r := startRunner(t)
	r.command(t, "echo done")
	for typ := Type(0); typ != FrameExit; {
		var err error
		if typ, _, err = ReadFrame(r.out); err != nil {
			t.Fatal(err)
		}
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 30 { // time enough for one that would not wait
		<-tick.C
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.cmd.Process.Pid)); err != nil || strings.Contains(string(stat), ") Z ") {
			t.Fatalf("it has ended before the host has hung up: %s %v", stat, err)
		}
	}
	if err := errors.Join(r.in.Close(), r.cmd.Wait()); err != nil {
		t.Error(err)
	}
}

// TestTheGuestProgramsInitRefusesGarbage has it begin on a socket, as a driver does.
func TestTheGuestProgramsInitRefusesGarbage(t *testing.T) {
	mounts := func() string {
		b, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	before := mounts()
	go1, _ := AppendFrame(nil, FrameGo, nil)
	for _, packet := range [][]byte{[]byte("garbage"), go1, {'n', 1, byte(FrameBoot), 0, 0, 0, 0, 2, 'x', 'y'}, {'n', 9, byte(FrameBoot), 0, 0, 0, 0, 0}} {
		host, control := pair(t, unix.SOCK_SEQPACKET)
		cmd := exec.Command(built(t), RoleInit)
		cmd.Env = []string{}
		cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(control), "control")}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(cmd.ExtraFiles[0].Close(), unix.Send(host, packet, 0)); err != nil {
			t.Fatal(err)
		}
		typ, payload, _, err := receivePacket(host)
		var f Failure
		if err == nil {
			err = json.Unmarshal(payload, &f)
		}
		if err != nil || typ != FrameFailed || f.Step != "read boot" {
			t.Errorf("%q is answered %d %s %v", packet, typ, payload, err)
		}
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 125 {
			t.Errorf("%q: %v", packet, err)
		}
		if err := unix.Close(host); err != nil {
			t.Fatal(err)
		}
	}
	if mounts() != before {
		t.Error("something was mounted")
	}
}

func FuzzRunnerInput(f *testing.F) {
	for _, typ := range []Type{FrameStdin, FrameEOF, FrameKill, FrameCredit} {
		b, err := AppendFrame(nil, typ, nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(fmt.Sprintf("n\x01%c\x00\x00\x00\x00\x03abc", FrameStdin)))
	f.Fuzz(func(t *testing.T, in []byte) {
		gone := make(chan struct{})
		close(gone) // nothing runs, so nothing is killed
		r := &runner{in: bytes.NewReader(in), gone: gone, stdin: newInlet(nopCloser{io.Discard})}
		r.listen()
		if !r.struck.Load() {
			t.Fatal("the end of the input did not end the command")
		}
		if r.stdin.queued > Window || r.stdin.queued > len(in) {
			t.Fatalf("%d bytes are queued of %d", r.stdin.queued, len(in))
		}
	})
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
