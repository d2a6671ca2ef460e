//go:build linux

package linux_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"nod"
	"nod/runtime"
	"nod/runtime/egress"
	"nod/runtime/linux"
	"nod/runtime/runtimetest"
)

func run(t testing.TB, d *linux.Driver, id string, argv ...string) (string, nod.ExitStatus) {
	t.Helper()
	p, err := d.Exec(t.Context(), id, nod.Command{Argv: argv})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Stdin().Close(); err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(p.Stdout())
	if err != nil {
		t.Fatal(err)
	}
	status, err := p.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return string(out), status
}

func closing(t testing.TB, d *linux.Driver) {
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestASourceThatIsSwappedAfterPrepareIsRefused(t *testing.T) {
	d := open(t, linux.Config{StateDir: t.TempDir()})
	closing(t, d)
	needEnvironments(t, d)
	top := t.TempDir()
	ws := filepath.Join(top, "ws")
	if err := os.Mkdir(ws, 0o755); err != nil {
		t.Fatal(err)
	}
	p, err := runtime.Prepare(runtime.Spec{ID: "e1", Owner: "o", Image: runtime.HostImage, Workspace: ws}, runtime.Roots{Allowed: []string{top}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Provision(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(ws, ws+"-old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", ws); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(t.Context(), "e1"); err == nil {
		t.Error("the environment started over another directory")
	}
	if list, err := d.List(t.Context(), "o"); err != nil || len(list) != 1 || list[0].Running {
		t.Errorf("List: %+v, %v", list, err)
	}
}

// TestAnImageDirectoryIsTheRoot uses an image that holds nothing but a static
// guest: there is no libc and no shell to lean on.
func TestAnImageDirectoryIsTheRoot(t *testing.T) {
	static := staticGuest(t)
	d := open(t, linux.Config{StateDir: t.TempDir(), Guest: static})
	closing(t, d)
	needEnvironments(t, d)
	image := t.TempDir()
	for path, content := range map[string]string{"etc/motd": "hello\n", "etc/resolv.conf": "nameserver 192.0.2.53\n", "opt/tool/bin/x": "x"} {
		p := filepath.Join(image, path)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	binary, err := os.ReadFile(static)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(image, "usr/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(image, "usr/bin/nod-guest"), binary, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(image, 0o755); err != nil {
		t.Fatal(err)
	}
	start(t, d, "e1", func(s *runtime.Spec) {
		s.Image = image
	})
	if out, status := run(t, d, "e1", "nod-guest", "probe"); status.Code != 0 || !strings.Contains(out, `"root_read_only":true`) {
		t.Errorf("the image's own program said %q, %+v", out, status)
	}
	_, err = d.Exec(t.Context(), "e1", nod.Command{Argv: []string{"/bin/sh"}})
	if nod.CodeOf(err) != nod.NotFound {
		t.Errorf("the host's shell in an empty image: %v", err)
	}
}

func TestFurtherMountsAreReadOnly(t *testing.T) {
	d := open(t, linux.Config{StateDir: t.TempDir()})
	closing(t, d)
	needEnvironments(t, d)
	tools := t.TempDir()
	if err := os.WriteFile(filepath.Join(tools, "t"), []byte("#!/bin/sh\necho tool\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(tools, 0o755); err != nil {
		t.Fatal(err)
	}
	start(t, d, "e1", func(s *runtime.Spec) {
		s.Mounts = []runtime.Mount{{Source: tools, Target: "/opt/agent"}, {Source: filepath.Join(tools, "t"), Target: runtime.HomePath + "/bin/t"}}
	})
	if out, status := run(t, d, "e1", "sh", "-c", "/opt/agent/t; ~/bin/t; echo x > /opt/agent/t || echo x > /opt/agent/n || echo refused"); out != "tool\ntool\nrefused\n" {
		t.Errorf("got %q, %+v", out, status)
	}
}

// TestPlantedLinksDoNotMoveMounts has the home of an earlier run lead a mount's
// target out of the environment.
func TestPlantedLinksDoNotMoveMounts(t *testing.T) {
	d := open(t, linux.Config{StateDir: t.TempDir()})
	closing(t, d)
	needEnvironments(t, d)
	top := t.TempDir()
	for _, dir := range []string{"ws", "home", "tools"} {
		if err := os.Mkdir(filepath.Join(top, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/tmp", filepath.Join(top, "home", "bin")); err != nil {
		t.Fatal(err)
	}
	p, err := runtime.Prepare(runtime.Spec{ID: "e1", Owner: "o", Image: runtime.HostImage, Workspace: filepath.Join(top, "ws"), Home: filepath.Join(top, "home"),
		Mounts: []runtime.Mount{{Source: filepath.Join(top, "tools"), Target: runtime.HomePath + "/bin/t"}}}, runtime.Roots{Allowed: []string{top}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Provision(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(t.Context(), "e1"); err == nil {
		t.Error("a mount was placed through a planted link")
	}
}

func TestATightenedPolicyHoldsAtOnce(t *testing.T) {
	d := open(t, linux.Config{StateDir: t.TempDir()})
	closing(t, d)
	needEnvironments(t, d)
	start(t, d, "e1", func(s *runtime.Spec) { s.Egress = []egress.Rule{{Host: "a.example", Upstream: "127.0.0.1:1"}} })
	ask := func() string {
		out, _ := run(t, d, "e1", nod.GuestPath, "nod-try-proxy", "a.example:443")
		return out
	}
	if got := ask(); strings.Contains(got, "403") {
		t.Errorf("the listed host is refused: %s", got)
	}
	if err := d.UpdateEgress(t.Context(), "e1", nil); err != nil {
		t.Fatal(err)
	}
	if got := ask(); !strings.Contains(got, "403") {
		t.Errorf("after the policy was emptied: %s", got)
	}
}

func TestToolsOfTheHostRunInside(t *testing.T) {
	d := open(t, linux.Config{StateDir: t.TempDir()})
	closing(t, d)
	needEnvironments(t, d)
	start(t, d, "e1", nil)
	for _, c := range []struct{ tool, script string }{
		{"git", `git init -q r && cd r && git -c user.name=a -c user.email=a@example.com commit -q --allow-empty -m x && git log --format=%s`},
		{"bash", `bash -c 'cat <(echo x)'`},
		{"script", `script -qec 'echo x' /dev/null </dev/null`},
	} {
		if _, err := exec.LookPath(c.tool); err != nil {
			runtimetest.Missing(t, c.tool)
		}
		if out, status := run(t, d, "e1", "sh", "-c", c.script+" 2>&1"); strings.TrimSpace(out) != "x" || status.Code != 0 {
			t.Errorf("%s: %q, %+v", c.tool, out, status)
		}
	}
}
