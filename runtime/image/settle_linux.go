package image

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// settle returns once everything on the file system of dir is on disk: an image is
// tens of thousands of files, and one call for all is far cheaper than one for each.
func settle(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}
