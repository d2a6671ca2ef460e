package runtime

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"nod"
)

// TestALockOutlivesNobodysClose has a copy of the descriptor, as a child has one
// between fork and exec.
func TestALockOutlivesNobodysClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	held, err := Hold(path, "it")
	if err != nil {
		t.Fatal(err)
	}
	twin, err := syscall.Dup(int(held.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	copied := os.NewFile(uintptr(twin), "copy")
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Hold(path, "it")
	if err != nil {
		t.Fatalf("after Close, and a copy is open: %v", err)
	}
	if err := copied.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Hold(path, "it"); nod.CodeOf(err) != nod.Conflict {
		t.Errorf("a second one: %v", err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestALockIsWaitedFor: who held it was killed, and a child that it was starting has
// not executed yet.
func TestALockIsWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	synctest.Test(t, func(t *testing.T) {
		killed, err := Hold(path, "it")
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(holdPatience/2, func() { _ = killed.file.Close() }) // no unlock
		next, err := Hold(path, "it")
		if err != nil {
			t.Fatal(err)
		}
		if err := next.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
