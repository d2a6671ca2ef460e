package contain

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	goruntime "runtime"

	"nod"
)

// listen listens on a unix socket called name in dir that the agent's user may
// connect to. A path of any length will do: on Linux it goes through the open
// directory, since an address holds about a hundred bytes.
func listen(dir, name string) (*net.UnixListener, error) {
	l, err := listenIn(dir, name)
	if err != nil {
		return nil, nod.E(nod.Internal, "no socket for the environment", err)
	}
	return l, nil
}

func listenIn(dir, name string) (*net.UnixListener, error) {
	path := filepath.Join(dir, name)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	short := path
	if goruntime.GOOS == "linux" {
		d, err := os.Open(dir)
		if err != nil {
			return nil, err
		}
		defer d.Close()
		short = fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), name)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // the short name means nothing later; Start and Delete remove it
	if err := os.Chmod(path, 0o666); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}
