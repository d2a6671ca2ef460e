//go:build !linux

package image

import (
	"errors"
	"os"
)

// settle asks for dir to be written; the files in it follow when the system does so.
func settle(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
