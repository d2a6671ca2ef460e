//go:build linux

package linux_test

import (
	"fmt"
	"log/slog"
	"os"
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
	if dir := os.Getenv(supervisorRole); dir != "" {
		if err := supervise(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
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
		TempDir: func(t *testing.T) string { return t.TempDir() },
	}
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
