package guest

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"nod"
)

// startOnTerminal starts the command on a terminal of its own, made inside the
// environment: no descriptor of the operator's terminal is anywhere near it.
func (r *runner) startOnTerminal(path string, c Command) (*os.File, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	other, err := peer(fd, *c.Terminal)
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	r.main, err = syscall.ForkExec(path, c.Argv, &syscall.ProcAttr{
		Dir: c.Dir, Env: c.Env, Files: []uintptr{uintptr(other), uintptr(other), uintptr(other)},
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0},
	})
	if err = errors.Join(err, unix.Close(other)); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	if r.tty, err = pollable(fd, "terminal"); err != nil {
		return nil, err
	}
	r.stdin = newInlet(typist{r.tty})
	return r.tty, nil
}

// peer opens the command's end of the terminal at fd.
func peer(fd int, w nod.Window) (int, error) {
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return -1, err
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: w.Rows, Col: w.Columns}); err != nil {
		return -1, err
	}
	other, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return -1, errno
	}
	return int(other), nil
}

// typist writes to a terminal, whose end of input is a character.
type typist struct{ io.Writer }

func (t typist) Close() error {
	_, err := t.Write([]byte{4})
	return err
}

// resize tells the terminal its size, and the kernel the command.
func resize(tty *os.File, payload []byte) error {
	if len(payload) != 4 {
		return errFrameLength
	}
	raw, err := tty.SyscallConn()
	if err != nil {
		return err
	}
	size := unix.Winsize{Row: uint16(payload[0])<<8 | uint16(payload[1]), Col: uint16(payload[2])<<8 | uint16(payload[3])}
	var failed error
	err = raw.Control(func(fd uintptr) { failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &size) })
	return errors.Join(err, failed)
}
