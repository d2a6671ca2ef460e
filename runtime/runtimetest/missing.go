package runtimetest

import (
	"os"
	"os/exec"
	"testing"
)

// Missing skips the test because this machine lacks what. When NOD_TEST_ALL is
// set, as .ci/run does after it has installed everything, the test fails instead.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("NOD_TEST_ALL") != "" {
		t.Fatalf("NOD_TEST_ALL is set but this machine lacks %s", what)
	}
	t.Skipf("this machine lacks %s", what)
}

// Program says Missing unless a program of that name is in PATH.
func Program(t testing.TB, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		Missing(t, name)
	}
}
