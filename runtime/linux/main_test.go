//go:build linux

package linux_test

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nod/runtime/egress"
	"nod/runtime/guest"
	"nod/runtime/linux"
	"nod/runtime/runtimetest"
)

func TestMain(m *testing.M) {
	if guest.Dispatch(os.Args) || runtimetest.Dispatch(os.Args) {
		return
	}
	if runtimetest.Supervised(func(dir string) (runtimetest.Driver, error) {
		return linux.New(linux.Config{StateDir: dir, Guest: os.Getenv(supervisedGuest)})
	}) {
		return
	}
	os.Exit(runtimetest.Main(m))
}

func suite() runtimetest.Config {
	return runtimetest.Config{
		New: func(t *testing.T, dir string, e egress.Config) runtimetest.Driver {
			t.Helper()
			return open(t, linux.Config{StateDir: dir, Guest: runtimetest.Quick(t), Egress: e})
		},
		TempDir:    func(t *testing.T) string { return t.TempDir() },
		Supervised: []string{},
		Left:       left,
	}
}

// supervisedGuest names the guest binary of a supervised driver; empty is its own.
const supervisedGuest = "NOD_TEST_GUEST"

// left are the cgroups of a driver, and its directories that say nothing.
func left(t *testing.T, stateDir string) (list []string) {
	t.Helper()
	sum := sha256.Sum256([]byte(stateDir))
	name := "nod-" + hex.EncodeToString(sum[:4])
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(own)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		for _, top := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
			groups, err := filepath.Glob(filepath.Join(top, f[len(f)-1], name+"*"))
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, groups...)
		}
	}
	dirs, err := filepath.Glob(filepath.Join(stateDir, "env", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "state.json")); err != nil {
			list = append(list, dir)
		}
	}
	return list
}

func open(t testing.TB, c linux.Config) *linux.Driver {
	t.Helper()
	c.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	d, err := linux.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDriverKeepsTheContract(t *testing.T) {
	runtimetest.Run(t, suite())
}
