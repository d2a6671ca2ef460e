package hostgit

import (
	"os"
	"syscall"
	"testing"
)

// links is how many names a file has.
func links(t *testing.T, path string) uint64 {
	t.Helper()
	st, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatal("no link count on this system")
	}
	return uint64(sys.Nlink)
}
