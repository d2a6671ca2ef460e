package image

import (
	"testing"

	"golang.org/x/sys/unix"
)

func xattrs(t *testing.T, path string) int {
	t.Helper()
	n, err := unix.Llistxattr(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
