//go:build linux

package linux

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE

// copyGuest makes the two copies of the guest binary: a sealed one in memory that
// PID 1 executes, which an environment of the same host user cannot write through
// /proc (CVE-2019-5736), and a file that is seen read-only at nod.GuestPath.
func (d *Driver) copyGuest() error {
	from := d.cfg.Guest
	if from == "" {
		from = "/proc/self/exe"
	}
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	// No fork may copy the writable descriptor, or executing would be refused.
	syscall.ForkLock.RLock()
	d.self, err = sealedCopy(src)
	syscall.ForkLock.RUnlock()
	if err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(d.self, 0, 1<<40)); err != nil {
		return err
	}
	dir := filepath.Join(d.cfg.StateDir, "guest")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	d.guest = filepath.Join(dir, hex.EncodeToString(sum.Sum(nil))[:16])
	f, err := os.OpenFile(d.guest, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o555)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.NewSectionReader(d.self, 0, 1<<40))
	return errors.Join(err, f.Chmod(0o555), f.Close())
}

func sealedCopy(src io.Reader) (*os.File, error) {
	fd, err := unix.MemfdCreate("nod-guest", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("nod-guest", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, err
	}
	w := os.NewFile(uintptr(fd), "nod-guest")
	if _, err := io.Copy(w, src); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	r, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	return r, errors.Join(err, w.Close())
}
