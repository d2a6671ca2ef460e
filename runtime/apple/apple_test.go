//go:build linux

package apple

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nod"
	"nod/runtime"
	"nod/runtime/egress"
	"nod/runtime/guest"
	"nod/runtime/runtimetest"
)

var update = flag.Bool("update", false, "write golden files")

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "container" {
		// Not os.Exit: under the race detector that takes a second, at each call.
		_, _, err := syscall.RawSyscall(syscall.SYS_EXIT_GROUP, uintptr(doubleMain(os.Args)), 0, 0)
		panic(err)
	}
	if guest.Dispatch(os.Args) || runtimetest.Dispatch(os.Args) {
		return
	}
	if runtimetest.Supervised(func(dir string) (runtimetest.Driver, error) {
		return New(context.Background(), configOf(os.Getenv(supervisedDouble), dir))
	}) {
		return
	}
	os.Exit(runtimetest.Main(m))
}

// supervisedDouble names the directory of a supervised driver's double.
const supervisedDouble = "NOD_TEST_DOUBLE"

func configOf(double, state string) Config {
	return Config{Program: filepath.Join(double, "container"), StateDir: state, Guest: filepath.Join(double, "g"), Image: "known:1",
		Egress: egress.Config{Audit: func(egress.Event) {}}}
}

// TestTheDoubleKeepsWhatNeedsNoGuest runs the checks of the suite that the program
// and this side of it answer for. What a guest's kernel holds has not been seen.
func TestTheDoubleKeepsWhatNeedsNoGuest(t *testing.T) {
	w := newWorld(t)
	runtimetest.Run(t, runtimetest.Config{
		New: func(t *testing.T, dir string, e egress.Config) runtimetest.Driver {
			t.Helper()
			c := configOf(w.dir, dir)
			c.Egress, c.Log = e, w.cfg.Log
			d, err := New(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			return d
		},
		TempDir: func(t *testing.T) string { // a socket's path is short
			t.Helper()
			dir, err := os.MkdirTemp("", "nod")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			return dir
		},
		Guestless:  true,
		Proxy:      func(state, id string) string { return filepath.Join(state, "s", id, filepath.Base(guest.EgressSocket)) },
		Supervised: []string{supervisedDouble + "=" + w.dir},
	})
}

const goodSighting = `{"attestation":{"uid":1000,"gid":1000,"capabilities":"0000000000000000","no_new_privs":true,"seccomp":true,"landlock_abi":4,
	"interfaces":["lo"],"root_read_only":true,"egress_refused":true,"direct_refused":true},"namespaces":{"pid":"pid:[1]"}}`

// world is a double with a driver's configuration for it.
type world struct {
	dir string
	cfg Config
	top string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "nod-apple-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &world{dir: dir, top: filepath.Join(dir, "top")}
	if err := errors.Join(os.Symlink(runtimetest.Quick(t), filepath.Join(dir, "container")), os.MkdirAll(filepath.Join(w.top, "ws"), 0o755), os.WriteFile(filepath.Join(dir, "g"), []byte("guest"), 0o755)); err != nil {
		t.Fatal(err)
	}
	w.write(t, "version.json", `[{"version":"1.2.2"},{"version":"container-apiserver version 1.2.2"}]`)
	w.write(t, "status.json", `{"status":"running"}`)
	w.write(t, "sighting", goodSighting)
	w.cfg = configOf(dir, filepath.Join(dir, "state"))
	w.cfg.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	return w
}

func (w *world) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (w *world) open(t *testing.T) *Driver {
	t.Helper()
	d, err := New(t.Context(), w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (w *world) prepare(t *testing.T, change func(*runtime.Spec)) runtime.PreparedSpec {
	t.Helper()
	s := runtime.Spec{ID: "e1", Owner: "o", Image: runtime.HostImage, Workspace: filepath.Join(w.top, "ws")}
	if change != nil {
		change(&s)
	}
	p, err := runtime.Prepare(s, runtime.Roots{Allowed: []string{w.top}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// started is an open driver with a running environment, e1.
func (w *world) started(t *testing.T) *Driver {
	t.Helper()
	d := w.open(t)
	if err := d.Provision(t.Context(), w.prepare(t, nil)); err != nil {
		t.Fatal(err)
	}
	a, err := d.Start(t.Context(), "e1")
	if err != nil || a.Isolation != "vm" {
		t.Fatalf("%+v, %v", a, err)
	}
	return d
}

func TestVersionsBeforeOneTwoAreRefused(t *testing.T) {
	for version, ok := range map[string]bool{"0.12.3": false, "1.0.0": false, "1.1.9": false, "1.2.0": true, "1.2.2": true, "1.10.0": true, "2.0.0": true,
		"1.2": false, "": false, "x": false, "1.2.0-beta": true} {
		if got := atLeast(version, [3]int{1, 2, 0}); got != ok {
			t.Errorf("%q: %v", version, got)
		}
	}
	w := newWorld(t)
	w.write(t, "version.json", `[{"version":"1.1.0"}]`)
	if _, err := New(t.Context(), w.cfg); nod.CodeOf(err) != nod.Unsupported {
		t.Errorf("1.1.0: %v", err)
	}
	w.write(t, "version.json", `[{"version":"1.2.0"}]`)
	w.write(t, "status.json", `{"status":"not running"}`)
	if _, err := New(t.Context(), w.cfg); nod.CodeOf(err) != nod.Unavailable {
		t.Errorf("not running: %v", err)
	}
}

func TestListOfVersionOneIsReadAndThatOfZeroRefused(t *testing.T) {
	got, err := parseList([]byte(`[{"configuration":{"id":"nod-e1","labels":{"nod.owner":"X"}},"id":"nod-e1","status":{"networks":[],"startedDate":"2026-08-07T10:00:05Z","state":"running"}},
		{"configuration":{"id":"b","labels":{}},"status":{"state":"stopped"}},{"configuration":{"id":"c"},"status":{"state":"melting"}}]`))
	if err != nil || len(got) != 3 || !got[0].running() || got[0].labels["nod.owner"] != "X" || got[1].running() || !got[2].running() {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = parseList([]byte(`[{"status":"running","configuration":{"id":"a"},"networks":[],"startedDate":774867600.1}]`))
	if nod.CodeOf(err) != nod.Unsupported || !strings.Contains(err.Error(), "version 0") {
		t.Errorf("the form of 0.x: %v", err)
	}
	for _, bad := range []string{``, `{}`, `[{"configuration":{"id":"a"}}]`, `[{"configuration":{},"status":{"state":"running"}}]`} {
		if _, err := parseList([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestEveryCallIsExact holds each call, its arguments and its environment.
func TestEveryCallIsExact(t *testing.T) {
	t.Setenv("NOD_TEST_LEAK", "leaked-3f")
	t.Setenv("SSH_AUTH_SOCK", "/leaked")
	w := newWorld(t)
	d := w.open(t)
	p := w.prepare(t, func(s *runtime.Spec) {
		s.Limits = runtime.Limits{MemoryBytes: 2 << 30, CPUs: 2, TmpBytes: 64 << 20, Required: true}
	})
	if err := d.Provision(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(t.Context(), "e1"); err != nil {
		t.Fatal(err)
	}
	if err := d.Delete(t.Context(), "e1"); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(w.dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var got strings.Builder
	for sc := bufio.NewScanner(f); sc.Scan(); {
		var call struct{ Args, Env []string }
		if err := json.Unmarshal(sc.Bytes(), &call); err != nil {
			t.Fatal(err)
		}
		if call.Args[0] == "double-init" || call.Args[0] == "inspect" { // how often it asks is a matter of time
			continue
		}
		for _, e := range call.Env {
			if k, _, _ := strings.Cut(e, "="); k != "HOME" && k != "PATH" && k != "TMPDIR" {
				t.Errorf("%s has %s", call.Args[0], e)
			}
		}
		got.WriteString(strings.NewReplacer(w.dir, "DIR", d.supervisor, "SUPERVISOR").Replace(strings.Join(call.Args, " ")) + "\n")
	}
	golden := filepath.Join("testdata", "calls")
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Error(diff)
	}
}

func TestStreamsAndStatusGoThroughTheProgram(t *testing.T) {
	w := newWorld(t)
	d := w.started(t)
	p, err := d.Exec(t.Context(), "e1", nod.Command{Argv: []string{"sh", "-c", "cat; echo err >&2; exit 3"}, Env: map[string]string{"TOKEN": "hunter2-apple"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(p.Stdin(), "in"); err != nil {
		t.Fatal(err)
	}
	if err := p.Stdin().Close(); err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(p.Stdout())
	if err != nil || string(out) != "in" {
		t.Errorf("stdout %q, %v", out, err)
	}
	said, err := io.ReadAll(p.Stderr())
	if err != nil || string(said) != "err\n" {
		t.Errorf("stderr %q, %v", said, err)
	}
	if status, err := p.Wait(); err != nil || status.Code != 3 {
		t.Errorf("%+v, %v", status, err)
	}
	calls, err := os.ReadFile(filepath.Join(w.dir, "calls"))
	if err != nil || strings.Contains(string(calls), "hunter2-apple") {
		t.Errorf("a secret is in an argument or an environment: %v", err)
	}
}

// TestDeathOfTheProgramEndsTheCommand is B12: its signals reach nobody, the end of
// its stdin does.
func TestDeathOfTheProgramEndsTheCommand(t *testing.T) {
	w := newWorld(t)
	d := w.started(t)
	p, err := d.Exec(t.Context(), "e1", nod.Command{Argv: []string{"sh", "-c", "trap '' TERM INT; sleep 611 & echo $! $$; wait"}})
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(p.Stdout()).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var child, shell int
	if _, err := fmt.Sscan(line, &child, &shell); err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Errorf("kill: %v", err)
	}
	for _, pid := range []int{child, shell} {
		if alive(pid) {
			t.Errorf("process %d survives a kill", pid)
		}
	}
	s, err := d.cli.Exec(t.Context(), d.name("e1"), []string{nod.GuestPath, guest.RoleEnter, "1"})
	if err != nil {
		t.Fatal(err)
	}
	payload := []byte(`{"argv":["/bin/sh","-c","trap '' TERM; echo $$; sleep 612"],"env":["PATH=/bin"],"dir":"/workspace"}`)
	if err := guest.WriteFrame(s, guest.FrameCommand, payload); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for pid == 0 {
		typ, text, err := guest.ReadFrame(s)
		if err != nil {
			t.Fatal(err)
		}
		if typ == guest.FrameStdout {
			if _, err := fmt.Sscan(string(text), &pid); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.Cut() // SIGKILL of the program
	for deadline := time.Now().Add(time.Minute); alive(pid); {
		if time.Now().After(deadline) {
			t.Fatal("the command outlives the program")
		}
		<-time.After(10 * time.Millisecond)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestWhatIsNotAttestedDoesNotStart(t *testing.T) {
	w := newWorld(t)
	w.write(t, "sighting", strings.Replace(goodSighting, `"seccomp":true`, `"seccomp":false`, 1))
	d := w.open(t)
	if err := d.Provision(t.Context(), w.prepare(t, nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(t.Context(), "e1"); nod.CodeOf(err) != nod.Unsupported {
		t.Errorf("without a filter: %v", err)
	}
	if list, err := d.List(t.Context(), "o"); err != nil || len(list) != 1 || list[0].Running {
		t.Errorf("it is left running: %v, %v", list, err)
	}
	for _, l := range []runtime.Limits{{PIDs: 64, Required: true}, {CPUs: 0.5, Required: true}} {
		if err := d.Provision(t.Context(), w.prepare(t, func(s *runtime.Spec) { s.ID, s.Limits = "e2", l })); nod.CodeOf(err) != nod.Unsupported {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

func TestLifecycleIsIdempotentAndKeepsToItsOwn(t *testing.T) {
	w := newWorld(t)
	d := w.started(t)
	w.write(t, "nod-other.json", `{"Args":["create","--name","nod-other","-l","nod.supervisor=else","-l","nod.owner=o","-l","nod.env=e1"],"PID":1,"Running":true}`)
	ctx := context.WithoutCancel(t.Context())
	if _, err := d.Start(ctx, "e1"); nod.CodeOf(err) != nod.Conflict {
		t.Errorf("a second start: %v", err)
	}
	for range 2 {
		if err := d.Stop(ctx, "e1"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Start(ctx, "e1"); err != nil {
		t.Fatal(err)
	}
	if list, err := d.List(ctx, "o"); err != nil || len(list) != 1 || !list[0].Running {
		t.Errorf("List: %v, %v", list, err)
	}
	for range 2 {
		if err := d.Delete(ctx, "e1"); err != nil {
			t.Fatal(err)
		}
	}
	if list, err := d.List(ctx, "o"); err != nil || len(list) != 0 {
		t.Errorf("List after Delete: %v, %v", list, err)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "nod-other.json")); err != nil {
		t.Errorf("another's machine is gone: %v", err)
	}
}

func alive(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(b), ") Z ") && syscall.Kill(pid, 0) == nil
}
