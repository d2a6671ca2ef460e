//go:build linux

package docker

import (
	goruntime "runtime"
	"testing"

	"nod/runtime/egress"
	"nod/runtime/runtimetest"
)

func lockThread() { goruntime.LockOSThread() }

func suite(e *testEngine, archive string) runtimetest.Config {
	return runtimetest.Config{
		New: func(t *testing.T, dir string, ec egress.Config) runtimetest.Driver {
			t.Helper()
			c := e.config(t, archive)
			c.StateDir, c.Egress = dir, ec
			return open(t, c)
		},
		TempDir:   func(t *testing.T) string { return t.TempDir() },
		Container: true,
	}
}

func TestDockerKeepsTheContract(t *testing.T) {
	runtimetest.Run(t, suite(startEngine(t, Docker), image(t)))
}

func TestPodmanKeepsTheContract(t *testing.T) {
	runtimetest.Run(t, suite(startEngine(t, Podman), image(t)))
}
