//go:build linux

package docker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"nod"
	"nod/runtime"
	"nod/runtime/egress"
	"nod/runtime/runtimetest"
)

func lockThread() { goruntime.LockOSThread() }

func suite(t *testing.T, e *testEngine, archive string) runtimetest.Config {
	t.Helper()
	return runtimetest.Config{
		New: func(t *testing.T, dir string, ec egress.Config) runtimetest.Driver {
			t.Helper()
			c := e.config(t, archive)
			c.StateDir, c.Egress = dir, ec
			return open(t, c)
		},
		TempDir:    func(t *testing.T) string { return t.TempDir() },
		Container:  true,
		Base:       testImage,
		Canary:     e.canary,
		Told:       told,
		Supervised: []string{supervisedEngine + "=" + strings.Join([]string{e.name, e.socket, runtimetest.Static(t), archive}, "|")},
		Left:       e.left,
	}
}

// told is C28: all that the engine tells of a container and its execs.
func told(t *testing.T, driver runtimetest.Driver, id string) string {
	t.Helper()
	d := driver.(*Driver)
	env, err := d.envs.Known(id)
	if err != nil {
		t.Fatal(err)
	}
	container := env.container
	var c struct{ ExecIDs []string }
	if err := d.engine.call(t.Context(), "GET", "/containers/"+container+"/json", nil, &c); err != nil {
		t.Fatal(err)
	}
	if len(c.ExecIDs) == 0 {
		t.Error("the engine tells of no exec, so it cannot be looked at")
	}
	paths := []string{"/containers/" + container + "/json", "/containers/" + container + "/logs?stdout=1&stderr=1", "/images/json"}
	for _, x := range c.ExecIDs {
		paths = append(paths, "/exec/"+x+"/json")
	}
	var all strings.Builder
	for _, path := range paths {
		text, err := d.engine.send(t.Context(), "GET", path, "", nil)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		all.Write(text)
	}
	return all.String()
}

// left are the containers of a driver that run.
func (e *testEngine) left(t *testing.T, stateDir string) (list []string) {
	t.Helper()
	probe, err := connect(t.Context(), Config{Engine: e.name, Socket: e.socket, StateDir: stateDir, Guest: runtimetest.Static(t), Image: testImage})
	if err != nil {
		t.Fatal(err)
	}
	defer probe.close()
	sum := sha256.Sum256([]byte(stateDir))
	all, err := probe.list(t.Context(), map[string]string{labelSupervisor: hex.EncodeToString(sum[:])[:16]})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.running() {
			list = append(list, "container "+c.ID+" of "+c.Labels[labelEnv])
		}
	}
	return list
}

const supervisedEngine = "NOD_TEST_ENGINE"

// openSupervised is the driver of the process that is killed.
func openSupervised(dir string) (runtimetest.Driver, error) {
	f := strings.Split(os.Getenv(supervisedEngine), "|")
	if len(f) != 4 {
		return nil, errors.New("the engine is not named")
	}
	return New(context.Background(), Config{Engine: f[0], Socket: f[1], StateDir: dir, Guest: f[2], Image: testImage, Archive: f[3]})
}

func TestDockerKeepsTheContract(t *testing.T) { keepsTheContract(t, Docker) }

func TestPodmanKeepsTheContract(t *testing.T) { keepsTheContract(t, Podman) }

// keepsTheContract starts a real engine once for everything that needs one.
func keepsTheContract(t *testing.T, name string) {
	e, archive := startEngine(t, name), image(t)
	runtimetest.Run(t, suite(t, e, archive))
	for _, test := range []struct {
		name string
		run  func(*testing.T, *testEngine, string)
	}{
		{"AnotherSupervisorsContainersAreLeftAlone", othersAreLeftAlone},
		{"SourcesThatAreSwappedOrLinkedAreRefused", swappedSources},
		{"TheGuestProgramItselfWillDo", realGuest},
		{"NothingIsLeftOfASupervisorKilledAnywhere", killedAnywhere},
		{"AnImageIsBuiltWithoutANetwork", builtImage},
		{"AnImageIsPulledByItsDigest", pulledReference},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, e, archive) })
	}
}

// env is one environment, "e1", that a driver has provisioned.
func env(t *testing.T, c Config, change func(*runtime.Spec)) (*Driver, string) {
	t.Helper()
	if c.StateDir == "" {
		c.StateDir = t.TempDir()
	}
	d := open(t, c)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	top := t.TempDir()
	s := runtime.Spec{ID: "e1", Owner: "o", Image: runtime.HostImage, Workspace: filepath.Join(top, "ws"), Home: filepath.Join(top, "home")}
	for _, dir := range []string{s.Workspace, s.Home} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if change != nil {
		change(&s)
	}
	p, err := runtime.Prepare(s, runtime.Roots{Allowed: []string{top}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Provision(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return d, top
}

func mustStart(t *testing.T, d *Driver) {
	t.Helper()
	if _, err := d.Start(t.Context(), "e1"); err != nil {
		t.Fatal(err)
	}
}

func othersAreLeftAlone(t *testing.T, e *testEngine, archive string) {
	a, _ := env(t, e.config(t, archive), nil)
	b, _ := env(t, e.config(t, archive), nil)
	mustStart(t, a)
	mustStart(t, b)
	if err := b.Delete(t.Context(), "e1"); err != nil {
		t.Fatal(err)
	}
	if err := b.Stop(t.Context(), "e1"); nod.CodeOf(err) != nod.NotFound {
		t.Errorf("stop of what is deleted: %v", err)
	}
	if list, err := b.List(t.Context(), "o"); err != nil || len(list) != 0 {
		t.Errorf("the second driver lists %v, %v", list, err)
	}
	if list, err := a.List(t.Context(), "o"); err != nil || len(list) != 1 || !list[0].Running {
		t.Errorf("the first driver lists %v, %v", list, err)
	}
}

func swappedSources(t *testing.T, e *testEngine, archive string) {
	d, top := env(t, e.config(t, archive), nil)
	ws := filepath.Join(top, "ws")
	if err := errors.Join(os.Rename(ws, ws+"-old"), os.Symlink("/etc", ws)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(t.Context(), "e1"); nod.CodeOf(err) != nod.Forbidden {
		t.Errorf("over another directory: %v", err)
	}
	d, _ = env(t, e.config(t, archive), func(s *runtime.Spec) {
		tools := filepath.Join(filepath.Dir(s.Workspace), "tools")
		if err := errors.Join(os.Mkdir(tools, 0o755), os.Symlink("/tmp", filepath.Join(s.Home, "bin"))); err != nil {
			t.Fatal(err)
		}
		s.Mounts = []runtime.Mount{{Source: tools, Target: runtime.HomePath + "/bin/t"}}
	})
	if _, err := d.Start(t.Context(), "e1"); nod.CodeOf(err) != nod.Forbidden {
		t.Errorf("a mount through a planted link: %v", err)
	}
}

// killedAnywhere kills a supervisor at random moments; a life of a container takes
// so long that a few must do.
func killedAnywhere(t *testing.T, e *testEngine, archive string) {
	runtimetest.Crash(t, suite(t, e, archive), 8)
}

// realGuest starts an environment with cmd/nod-guest, as it is shipped.
func realGuest(t *testing.T, e *testEngine, archive string) {
	c := e.config(t, archive)
	c.Guest = filepath.Join(t.TempDir(), "nod-guest")
	build := exec.Command("go", "build", "-o", c.Guest, "nod/cmd/nod-guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the guest: %v\n%s", err, out)
	}
	d, _ := env(t, c, func(s *runtime.Spec) { s.Home = "" })
	mustStart(t, d)
	p, err := d.Exec(t.Context(), "e1", nod.Command{Argv: []string{"sh", "-c", "echo x > ~/f && cat ~/f"}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(p.Stdout())
	if err != nil || string(out) != "x\n" {
		t.Errorf("got %q, %v", out, err)
	}
}

// builtImage has the engine build an image, and uses what is in it: a file, a
// variable, a terminal.
func builtImage(t *testing.T, e *testEngine, archive string) {
	env(t, e.config(t, archive), nil) // the base is imported
	c := e.config(t, "")
	c.Image, c.Build = "nod.test/built:1", t.TempDir()
	secret := filepath.Join(t.TempDir(), "secret")
	for path, text := range map[string]string{
		filepath.Join(c.Build, "tool"): "made\n", secret: "secret\n",
		filepath.Join(c.Build, "Containerfile"): "FROM " + testImage + "\nCOPY tool /opt/tool\nENV TOOL=built PATH=/opt/bin:/usr/bin\n" +
			"RUN test $(wc -l < /proc/net/dev) -le 3 && echo alone > /opt/alone\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d, _ := env(t, c, nil)
	mustStart(t, d)
	p, err := d.Exec(t.Context(), "e1", nod.Command{Argv: []string{"sh", "-c", "cat /opt/tool /opt/alone; echo $TOOL $PATH"}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(p.Stdout())
	if err != nil || string(out) != "made\nalone\nbuilt /opt/bin:/usr/bin\n" {
		t.Errorf("got %q, %v", out, err)
	}
	runtimetest.Terminal(t, d, "e1")
	s, err := d.Inspect(t.Context(), "e1")
	if err != nil || !s.Running || s.Owner != "o" || s.Image == "" || s.Digest == "" {
		t.Errorf("inspected %+v, %v", s, err)
	}
	if _, err := d.Inspect(t.Context(), "e2"); nod.CodeOf(err) != nod.NotFound {
		t.Errorf("what is not there: %v", err)
	}
	if err := os.Symlink(secret, filepath.Join(c.Build, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.Build, "Containerfile"), []byte("FROM "+testImage+"\nCOPY link /opt/link\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.Image, c.StateDir = "nod.test/built:2", t.TempDir()
	other := open(t, c)
	if i, err := other.image(t.Context(), runtime.HostImage); err == nil {
		t.Errorf("a file outside of the directory came into %s", i.ID)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}
