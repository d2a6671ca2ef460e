//go:build linux

package linux_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
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
		return linux.New(linux.Config{StateDir: dir, Guest: os.Getenv(guestVariable)})
	}) {
		return
	}
	os.Exit(m.Run())
}

func suite() runtimetest.Config {
	return runtimetest.Config{
		New: func(t *testing.T, dir string, e egress.Config) runtimetest.Driver {
			t.Helper()
			return open(t, linux.Config{StateDir: dir, Egress: e})
		},
		TempDir:    func(t *testing.T) string { return t.TempDir() },
		Supervised: []string{},
		Left:       left,
	}
}

// guestVariable names the guest binary of a supervised driver; empty is its own.
const guestVariable = "NOD_TEST_GUEST"

// left are the cgroups of a driver, and its directories that say nothing.
func left(t *testing.T, stateDir string) (list []string) {
	t.Helper()
	sum := sha256.Sum256([]byte(stateDir))
	name := "nod-" + hex.EncodeToString(sum[:4])
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), name) {
			list = append(list, path)
		}
		return nil // what is not this user's, or is gone meanwhile
	})
	if err != nil {
		t.Fatal(err)
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
