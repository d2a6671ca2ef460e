//go:build linux

package linux_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"nod/runtime/runtimetest"
)

// guestProgram builds cmd/nod-guest, which starts faster than a test does.
func guestProgram(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nod-guest")
	build := exec.Command("go", "build", "-o", path, "nod/cmd/nod-guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the guest: %v\n%s", err, out)
	}
	return path
}

// TestNothingIsLeftOfASupervisorKilledAnywhere kills it 200 times.
func TestNothingIsLeftOfASupervisorKilledAnywhere(t *testing.T) {
	c := suite()
	guest := os.Getenv(guestVariable)
	if guest == "" {
		guest = guestProgram(t)
	}
	c.Supervised = []string{guestVariable + "=" + guest}
	runtimetest.Crash(t, c, 200)
}
