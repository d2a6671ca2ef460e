//go:build linux

package linux_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"nod"
	"nod/runtime"
	"nod/runtime/egress"
	"nod/runtime/linux"
	"nod/runtime/runtimetest"
)

func TestACommandHasATerminal(t *testing.T) {
	d := open(t, linux.Config{StateDir: t.TempDir()})
	closing(t, d)
	needEnvironments(t, d)
	start(t, d, "e1", nil)
	runtimetest.Terminal(t, d, "e1")
}

// TestHostsAreAddedOnlyWhileNothingRuns takes hosts away at any time, and lets new
// ones through only once what runs has ended.
func TestHostsAreAddedOnlyWhileNothingRuns(t *testing.T) {
	d := open(t, linux.Config{StateDir: t.TempDir()})
	closing(t, d)
	needEnvironments(t, d)
	a := egress.Rule{Host: "a.example", Upstream: "127.0.0.1:1"}
	b := egress.Rule{Host: "b.example", Upstream: "127.0.0.1:1"}
	start(t, d, "e1", func(s *runtime.Spec) { s.Egress = []egress.Rule{a} })
	refused := func(host string) bool {
		t.Helper()
		out, _ := run(t, d, "e1", nod.GuestPath, "nod-try-proxy", host+":443")
		return strings.Contains(out, "403")
	}
	update := func(rules ...egress.Rule) error { return d.UpdateEgress(t.Context(), "e1", rules) }
	before, err := d.Inspect(t.Context(), "e1")
	if err != nil {
		t.Fatal(err)
	}
	agent, err := d.Exec(t.Context(), "e1", nod.Command{Argv: []string{"sleep", "600"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := update(a, b); nod.CodeOf(err) != nod.Conflict {
		t.Errorf("a new host while an agent runs: %v", err)
	}
	if err := update(egress.Rule{Host: "a.example", Upstream: "127.0.0.1:2"}); nod.CodeOf(err) != nod.Conflict {
		t.Errorf("another place for a host while an agent runs: %v", err)
	}
	if refused("a.example") || !refused("b.example") {
		t.Error("a refused update changed something")
	}
	if err := update(); err != nil || !refused("a.example") {
		t.Errorf("hosts taken away while an agent runs: %v", err)
	}
	if err := agent.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := update(a, b); err != nil || refused("a.example") || refused("b.example") {
		t.Errorf("hosts added once nothing runs: %v", err)
	}
	if err := update(egress.Rule{Host: "10.0.0.1"}); nod.CodeOf(err) != nod.Invalid {
		t.Errorf("an address as a host: %v", err)
	}
	after, err := d.Inspect(t.Context(), "e1")
	if err != nil || after.Digest == before.Digest {
		t.Errorf("other rules, and still the digest %s, %v", after.Digest, err)
	}
	if err := d.Stop(t.Context(), "e1"); err != nil {
		t.Fatal(err)
	}
	if err := update(b); err != nil {
		t.Errorf("other rules for the next start: %v", err)
	}
	if _, err := d.Start(t.Context(), "e1"); err != nil {
		t.Fatal(err)
	}
	if !refused("a.example") || refused("b.example") {
		t.Error("the rules for the next start do not hold in it")
	}
	if err := d.UpdateEgress(t.Context(), "e2", nil); nod.CodeOf(err) != nod.NotFound {
		t.Errorf("what is not provisioned: %v", err)
	}
}

// quotaMount mounts a small file system that enforces project quotas. It reports
// false where the kernel has none (CONFIG_QFMT_V2), which no package can mend.
func quotaMount(t *testing.T) (string, bool) {
	t.Helper()
	if os.Geteuid() != 0 {
		runtimetest.Missing(t, "root, who alone sets project quotas")
	}
	for _, program := range []string{"mkfs.ext4", "mount", "umount"} {
		if _, err := exec.LookPath(program); err != nil {
			runtimetest.Missing(t, program)
		}
	}
	file := filepath.Join(t.TempDir(), "disk")
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Truncate(file, 64<<20)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-O", "quota,project", "-E", "quotatype=prjquota", file).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop,prjquota", file, dir).CombinedOutput(); err != nil {
		t.Logf("this kernel mounts no ext4 with project quotas: %v %s", err, out)
		return dir, false
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v %s", err, out)
		}
	})
	return dir, true
}

func diskSpec(t *testing.T, top string, bytes int64) runtime.PreparedSpec {
	t.Helper()
	for _, dir := range []string{"ws", "home"} {
		if err := os.MkdirAll(filepath.Join(top, dir, "seed"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p, err := runtime.Prepare(runtime.Spec{ID: "e1", Owner: "o", Image: runtime.HostImage, Workspace: filepath.Join(top, "ws"), Home: filepath.Join(top, "home"),
		Limits: runtime.Limits{DiskBytes: bytes, Required: true}}, runtime.Roots{Allowed: []string{top}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestADiskLimitHoldsWhereItCan(t *testing.T) {
	top, can := quotaMount(t)
	d := open(t, linux.Config{StateDir: filepath.Join(top, "state")})
	closing(t, d)
	needEnvironments(t, d)
	if told := strings.Contains(strings.Join(d.Capabilities(t.Context()).Limits, " "), "disk"); told != can {
		t.Errorf("the disk limit is told: %v; it can hold: %v", told, can)
	}
	p := diskSpec(t, top, 8<<20)
	if !can {
		if err := d.Provision(t.Context(), p); nod.CodeOf(err) != nod.Unsupported {
			t.Errorf("a limit that cannot hold: %v", err)
		}
		return
	}
	if err := d.Provision(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(t.Context(), "e1"); err != nil {
		t.Fatal(err)
	}
	fill := `head -c 3000000 /dev/zero > /workspace/seed/control && echo fits
head -c 40000000 /dev/zero > /workspace/seed/f 2>/dev/null || echo full
head -c 9000000 /dev/zero > ~/f 2>/dev/null || echo full
cat /workspace/seed/* ~/* 2>/dev/null | wc -c`
	out, _ := run(t, d, "e1", "sh", "-c", fill)
	words := strings.Fields(out)
	if len(words) != 4 || strings.Join(words[:3], " ") != "fits full full" {
		t.Fatalf("inside: %q", out)
	}
	if n, err := strconv.Atoi(words[3]); err != nil || n > 8<<20 || n < 6<<20 {
		t.Errorf("%s bytes took place under a limit of %d", words[3], 8<<20)
	}
	out, _ = run(t, d, "e1", "sh", "-c", `rm -f /workspace/seed/* ~/f; i=0; while [ $i -lt 20000 ] && : 2>/dev/null > ~/n$i; do i=$((i+1)); done; [ $i -lt 9000 ] && echo bounded`)
	if strings.TrimSpace(out) != "bounded" {
		t.Errorf("the number of files has no bound: %q", out)
	}
	if err := os.WriteFile(filepath.Join(top, "host"), make([]byte, 10<<20), 0o600); err != nil {
		t.Errorf("the host is out of space: %v", err)
	}
	if err := d.Delete(t.Context(), "e1"); err != nil {
		t.Error(err)
	}
}

func TestADiskLimitThatCannotHoldIsRefused(t *testing.T) {
	top := t.TempDir()
	d := open(t, linux.Config{StateDir: filepath.Join(top, "state")})
	closing(t, d)
	if strings.Contains(strings.Join(d.Capabilities(t.Context()).Limits, " "), "disk") {
		runtimetest.Missing(t, "a file system without project quotas")
	}
	if err := d.Provision(t.Context(), diskSpec(t, top, 8<<20)); nod.CodeOf(err) != nod.Unsupported {
		t.Errorf("got %v", err)
	}
	if list, err := d.List(t.Context(), "o"); err != nil || len(list) != 0 {
		t.Errorf("it left %v, %v", list, err)
	}
}
