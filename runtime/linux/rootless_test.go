//go:build linux

package linux_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"nod/runtime/runtimetest"
)

// TestDriverKeepsTheContractRootless runs the whole suite again as an ordinary
// user, from a copy of this test binary, when the tests run as root.
func TestDriverKeepsTheContractRootless(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("already an ordinary user: TestDriverKeepsTheContract is it")
		return
	}
	const uid = 54321
	dir, err := os.MkdirTemp("", "nod-rootless-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chown(dir, uid, uid); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "linux.test")
	if err := os.WriteFile(program, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^(TestDriverKeepsTheContract|TestNothingIsLeftOfASupervisorKilledAnywhere|TestEnvironmentsShareAnUnpackedImage|TestACommandHasATerminal)$", "-test.v")
	cmd.Dir = dir
	guest := filepath.Join(dir, "nod-guest")
	static, err := os.ReadFile(staticGuest(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(guest, static, 0o755); err != nil {
		t.Fatal(err)
	}
	quick := filepath.Join(dir, "guest")
	if static, err = os.ReadFile(runtimetest.Quick(t)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(quick, static, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd.Env = []string{runtimetest.StaticVariable + "=" + quick, staticVariable + "=" + guest, "PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "NOD_TEST_ALL=" + os.Getenv("NOD_TEST_ALL")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("as user %d: %v\n%s", uid, err, out)
	}
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(out, []byte("--- SKIP: TestDriverKeepsTheContract (")) {
		runtimetest.Missing(t, "user namespaces for ordinary users: "+string(out))
	}
}
