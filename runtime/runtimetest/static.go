package runtimetest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
)

// StaticVariable names a program that Static returns, for tests that run as a user
// who cannot build one.
const StaticVariable = "NOD_TEST_STATIC"

// static is what Static has built.
type static struct {
	once sync.Once
	path string
	err  error
}

var built static

func (s *static) build() {
	if s.path = os.Getenv(StaticVariable); s.path != "" {
		return
	}
	info, ok := debug.ReadBuildInfo()
	pkg, test := "", false
	if ok {
		pkg, test = strings.CutSuffix(info.Path, ".test")
	}
	if !test {
		s.err = errors.New("the running program is no package's test")
		return
	}
	dir, err := os.MkdirTemp("", "nod-static-")
	if err != nil {
		s.err = err
		return
	}
	s.path = filepath.Join(dir, "guest")
	cmd := exec.Command("go", "test", "-c", "-o", s.path, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+os.Getenv("GOFLAGS")+" -buildvcs=false")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = errors.New(string(out))
	}
	s.err = errors.Join(err, os.Chmod(dir, 0o755))
}

// Static is this package's test program once more: without the host's libraries, so
// that it runs in any image, and without the race detector, with which a process
// takes ten times as long to start. It must not be changed.
func Static(t testing.TB) string {
	t.Helper()
	built.once.Do(built.build)
	if built.err != nil {
		t.Fatalf("build a static program: %v", built.err)
	}
	return built.path
}

// Quick is what stands for this test program where a test starts it many times: itself,
// or Static when it has the race detector.
func Quick(t testing.TB) string {
	t.Helper()
	if raced {
		return Static(t)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// Main runs the tests, removes what Static has built and returns the exit status.
func Main(m *testing.M) int {
	code := m.Run()
	if built.path != "" && os.Getenv(StaticVariable) == "" {
		_ = os.RemoveAll(filepath.Dir(built.path)) // a directory in the machine's own for such things
	}
	return code
}
