//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"nod"
	"nod/agent/agenttest/anthropicmock"
)

// withClaude changes the configuration so that the agent is the real Claude Code,
// whose model says steps.
func (o *outside) withClaude(steps []anthropicmock.Step) *anthropicmock.Server {
	o.t.Helper()
	needProgram(o.t, "NOD_CLAUDE", "Claude Code")
	model, err := anthropicmock.New(steps)
	if err != nil {
		o.t.Fatal(err)
	}
	closing(o.t, model.Server)
	path, err := filepath.EvalSymlinks(os.Getenv("NOD_CLAUDE"))
	if err != nil {
		o.t.Fatal(err)
	}
	dir := filepath.Dir(o.config)
	for name, content := range map[string]string{"model.pem": string(model.CAPEM), "model.key": modelKey} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			o.t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(o.config)
	if err != nil {
		o.t.Fatal(err)
	}
	var c map[string]any
	if err := json.Unmarshal(raw, &c); err != nil {
		o.t.Fatal(err)
	}
	c["agents"] = map[string]any{"claude": map[string]any{"argv": []string{"/opt/claude/" + filepath.Base(path)}, "mounts": map[string]string{"/opt/claude": filepath.Dir(path)},
		"key_file": filepath.Join(dir, "model.key"), "ca_file": filepath.Join(dir, "model.pem"), "base_url": "https://" + model.TLS}}
	c["repos"].([]any)[0].(map[string]any)["agent"] = "claude"
	if raw, err = json.Marshal(c); err != nil {
		o.t.Fatal(err)
	}
	if err := os.WriteFile(o.config, raw, 0o600); err != nil {
		o.t.Fatal(err)
	}
	return model
}

// seat is a person at a terminal that runs nod.
type seat struct {
	o      *outside
	cmd    *exec.Cmd
	tty    *os.File
	mu     sync.Mutex
	screen bytes.Buffer
	ended  chan error
}

func (p *seat) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.screen.Write(b)
}

// sit runs nod with args on a terminal of its own.
func (o *outside) sit(args ...string) *seat {
	o.t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		o.t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		o.t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: 120}); err != nil {
		o.t.Fatal(err)
	}
	other, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		o.t.Fatal(errno)
	}
	p := &seat{o: o, cmd: o.nod(args...), tty: os.NewFile(uintptr(fd), "terminal"), ended: make(chan error, 1)}
	side := os.NewFile(other, "peer")
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = side, side, side
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := p.cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	if err := side.Close(); err != nil {
		o.t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(p, p.tty) // it ends with the last process on the terminal
	}()
	go func() {
		err := p.cmd.Wait()
		<-read
		p.ended <- err
	}()
	o.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it has ended, unless the test failed
		_ = p.tty.Close()
		if o.t.Failed() {
			p.mu.Lock()
			defer p.mu.Unlock()
			o.t.Logf("the screen: %q", shown(p.screen.String()))
		}
	})
	return p
}

// shows waits until the screen has shown words after those of the last call.
func (p *seat) shows(words string) {
	p.o.t.Helper()
	p.o.until(fmt.Sprintf("the terminal shows %q", words), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		all, want := p.screen.Bytes(), strings.ReplaceAll(words, " ", "")
		end := sort.Search(len(all)+1, func(n int) bool { return strings.Contains(shown(string(all[:n])), want) })
		if end > len(all) {
			return false
		}
		p.screen.Next(end) // what came with them is for the next call
		return true
	})
}

var control = regexp.MustCompile(`\x1b\[[0-9;?<>=]*[A-Za-z]|\x1b\][^\x07]*\x07|[\r ]`)

// shown is what a terminal was told without spaces, for which many programs move the
// cursor instead, and without what moves it.
func shown(screen string) string { return control.ReplaceAllString(screen, "") }

func (p *seat) types(keys string) {
	p.o.t.Helper()
	if _, err := io.WriteString(p.tty, keys); err != nil {
		p.o.t.Error(err)
	}
}

// says sends a message to the agent.
func (p *seat) says(words string) {
	p.o.t.Helper()
	p.types(words)
	p.shows(words)
	p.types("\r")
}

// tasks are what "nod show" says of the one task.
func (o *outside) task(id string) (c nod.Case) {
	o.t.Helper()
	out, errs, code := o.run("show", id, "--json")
	var v struct{ Data nod.Case }
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != 0 {
		o.t.Fatalf("show: %d, %v: %s", code, err, errs)
	}
	return v.Data
}

// superseded reports whether nobody waits for an answer to the decision any more.
func (o *outside) superseded(task, decision string) bool {
	o.t.Helper()
	return slices.ContainsFunc(o.task(task).Decisions, func(d nod.Decision) bool { return d.ID == decision && d.State == nod.DecisionSuperseded })
}

// must runs nod with args, which must succeed.
func (o *outside) must(args ...string) {
	o.t.Helper()
	if out, errs, code := o.run(args...); code != 0 {
		o.t.Fatalf("nod %v: %d: %s%s", args, code, out, errs)
	}
}

// TestALoginIsKeptByItsOwnerAlone: the real program's sign-in shows its address in an
// environment that reaches nothing else; the token that is given then is in the key's
// file, and nowhere else.
func TestALoginIsKeptByItsOwnerAlone(t *testing.T) {
	o := newOutside(t)
	o.withClaude(nil)
	raw, err := os.ReadFile(o.config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(filepath.Dir(o.config), "model.key")
	if _, errs, code := o.run("agent", "login", "claude"); code == 0 || !strings.Contains(errs, "takes a key, no login") {
		t.Errorf("%d: %s", code, errs)
	}
	if err := os.WriteFile(o.config, bytes.Replace(raw, []byte(`"key_file"`), []byte(`"key":"login","key_file"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	const token = "sk-ant-oat01-given-by-hand"
	p := o.sit("agent", "login", "claude")
	p.shows("Paste code")
	ended := 0 // the program, as if its person had what they wanted
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range all {
		var pid int
		line, err := os.ReadFile(path)
		if _, e := fmt.Sscanf(path, "/proc/%d/", &pid); err == nil && e == nil && bytes.HasSuffix(line, []byte("/claude\x00setup-token\x00")) && syscall.Kill(pid, syscall.SIGTERM) == nil {
			ended++
		}
	}
	if err != nil || ended == 0 {
		t.Fatalf("%d programs run, %v", ended, err)
	}
	p.shows("The token that it showed")
	p.types(token + "\r")
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
	got, err := os.ReadFile(file)
	info, err2 := os.Stat(file)
	if err != nil || err2 != nil || string(got) != token+"\n" || info.Mode().Perm() != 0o600 {
		t.Errorf("%q, %v, %v, %v", got, info, err, err2)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if strings.Contains(p.screen.String(), token) {
		t.Error("the token is shown")
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(o.config), "state", "login-*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestAPersonTakesAPausedAgentsPlace: the real Claude Code is paused, and its session
// goes on in a terminal. What it asks there is on the phone as well; whoever is first
// has answered, a terminal that is killed leaves nothing to answer, and the agent goes
// on by itself afterwards.
func TestAPersonTakesAPausedAgentsPlace(t *testing.T) {
	o := newOutside(t)
	bash := func(command string) anthropicmock.Step {
		return claudeStep("Bash", map[string]any{"command": command, "description": "Do it"})
	}
	o.withClaude([]anthropicmock.Step{bash("printf no > paused.txt"),
		bash("printf ok > phone.txt"), bash("printf ok > there.txt"), {Text: "Both are done."},
		bash("printf no > killed.txt"), bash("printf ok > after.txt")})
	o.serve()
	o.enrol()
	if err := o.sim.Label(demoOwner, demoRepo, o.issue, "nod"); err != nil {
		t.Fatal(err)
	}
	first := o.push()
	name := fmt.Sprintf("%s#%d", demoRepo, o.issue)
	if out, err := o.nod("shell", name).CombinedOutput(); err == nil || !strings.Contains(string(out), "not a terminal") {
		t.Errorf("%v: %s", err, out)
	}
	o.must("pause", o.task(name).Task.ID)
	o.until("the run is paused", func() bool { return o.task(name).Run.State == nod.RunPaused })
	workspace := filepath.Join(filepath.Dir(o.config), "state", "environments", o.task(name).Environment.ID, "workspace")
	written := func(file string) bool {
		raw, err := os.ReadFile(filepath.Join(workspace, file))
		return err == nil && string(raw) == "ok"
	}

	p := o.sit("shell", name)
	p.shows("/effort") // it takes words
	p.says("go on please")
	onPhone := o.push()
	if onPhone == first {
		t.Error("it is the old decision")
	}
	p.shows("Do you want")
	o.allow(onPhone)
	o.until("what the phone allowed has run", func() bool { return written("phone.txt") })

	here := o.push()
	p.shows("there.txt") // not the last question, drawn anew
	p.shows("Do you want")
	p.types("\r")
	o.until("what was allowed at the terminal has run", func() bool { return written("there.txt") })
	o.until("the phone's question is superseded", func() bool { return o.superseded(name, here) })
	if err := o.browser.Answer(t.Context(), here, nod.Deny, ""); err == nil || !strings.Contains(err.Error(), "superseded") {
		t.Errorf("the question that was answered at the terminal took an answer: %v", err)
	}
	p.shows("Both are done.")
	second := o.sit("shell", name)
	second.shows("another terminal is open")

	p.says("and more")
	left := o.push()
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-p.ended
	o.until("what a dead terminal asked is superseded", func() bool { return o.superseded(name, left) })
	o.must("resume", o.task(name).Task.ID)
	o.allow(o.push())
	o.until("the agent goes on by itself", func() bool { return written("after.txt") })
	if written("killed.txt") || written("paused.txt") {
		t.Error("what nobody allowed has run")
	}
	o.must("audit", "verify")
}
