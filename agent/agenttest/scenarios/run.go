//go:build linux

package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"nod"
	"nod/agent"
	"nod/agent/agenttest/modelserver"
	"nod/runtime/linux"
	"nod/runtime/runtimetest"
)

// supervisorRole names the environment variable with the place of a supervisor
// that is to be killed.
const supervisorRole = "NOD_SCENARIO_SUPERVISOR"

func mkfifo(path string) error {
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		return err
	}
	return os.Chmod(path, 0o666) // whatever the umask is
}

// Supervise is a supervisor that is to be killed, when this process is meant to be
// one: it starts a session that waits for an answer for ever. Call it in TestMain,
// behind guest.Dispatch.
func Supervise(p Program) bool {
	raw := os.Getenv(supervisorRole)
	if raw == "" {
		return false
	}
	if err := supervise(p, raw); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	return true
}

func supervise(p Program, raw string) error {
	var at place
	if err := json.Unmarshal([]byte(raw), &at); err != nil {
		return err
	}
	d, err := linux.New(linux.Config{StateDir: at.State})
	if err != nil {
		return err
	}
	if err := at.start(context.Background(), d); err != nil {
		return err
	}
	a, err := p.Adapter(at.options(agent.Limits{}))
	if err != nil {
		return err
	}
	asked := make(chan struct{})
	s, err := a.Start(context.Background(), &box{place: at, lab: &lab{driver: d}}, nod.AgentSpec{Prompt: "Please do it.", Approve: func(ctx context.Context, r nod.ApprovalRequest) nod.ApprovalAnswer {
		if strings.Contains(string(r.Input), "up.fifo") {
			return nod.ApprovalAnswer{Allow: true}
		}
		close(asked)
		<-ctx.Done()
		return nod.ApprovalAnswer{}
	}})
	if err != nil {
		return err
	}
	go func() {
		<-asked
		fmt.Println("asked", s.ID())
	}()
	for range s.Events() {
	}
	return nil
}

// Run plays every scenario with the program, at once as far as the machine allows.
func Run(t *testing.T, p Program) {
	path := os.Getenv(p.Variable)
	if path == "" {
		runtimetest.Missing(t, "an agent program ("+p.Variable+" is its path)")
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t, t.TempDir())
	for _, s := range list(p) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			p.stage(t, l, path, s)
		})
	}
}

// stage sets one scenario up and plays it.
func (p Program) stage(t *testing.T, l *lab, path string, s scenario) {
	servers := map[string]*modelserver.Server{}
	var trust []byte
	for host, steps := range map[string][]Step{modelHost: s.steps, evilHost: nil} {
		if host == evilHost && !s.evil {
			continue
		}
		m, err := p.Model(steps, host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		})
		if servers[host] = m; host == evilHost || !s.strange {
			trust = append(trust, m.CAPEM...)
		}
	}
	top := t.TempDir()
	at := place{State: filepath.Join(top, "state"), ID: id(l.next.Add(1)), Workspace: filepath.Join(top, "workspace"), Home: filepath.Join(top, "home"),
		Root: p.Root(path), Inside: "/opt/" + filepath.Base(filepath.Dir(top)) + filepath.Base(top), Trust: filepath.Join(top, "trust"), URL: "https://" + modelHost}
	rest, err := filepath.Rel(at.Root, path)
	if err != nil {
		t.Fatal(err)
	}
	at.Program = filepath.Join(at.Inside, rest)
	if !s.walled {
		for host, m := range servers {
			at.Hosts = append(at.Hosts, host+":443="+m.TLS)
		}
	}
	write(t, filepath.Join(at.Trust, "ca.pem"), string(trust))
	for _, dir := range []string{at.Workspace, at.Home} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	ran := func(what string) string { return "touch /workspace/ran-" + what }
	for name, text := range p.Plant(ran, "https://"+evilHost) {
		if s.planted != "" && strings.HasPrefix(name, s.planted) {
			write(t, filepath.Join(top, name), text)
		}
	}
	w := &scene{program: p, model: servers[modelHost], evil: servers[evilHost], options: at.options(s.limits)}
	w.box = &box{place: at, t: t, lab: l}
	if !s.alone {
		w.box = l.box(t, at)
	}
	s.play(w)
	if s.planted != "" {
		left, err := filepath.Glob(filepath.Join(at.Workspace, "ran-*"))
		if err != nil || len(left) > 0 {
			t.Errorf("planted programs ran: %v, %v", left, err)
		}
		if got, _ := w.heard(Planted); got {
			t.Error("planted words reached the model")
		}
	}
	if w.evil != nil && len(w.evil.Requests()) > 0 {
		t.Errorf("%d requests reached a planted address", len(w.evil.Requests()))
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
