package guest

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxPacket is the most that one control packet may hold; the kernel's default
// socket buffer bounds it as well.
const maxPacket = 192 << 10

// maxRights is how many descriptors the kernel lets one packet carry: SCM_MAX_FD of
// its net/scm.h.
const maxRights = 253

// sendPacket sends one frame as one packet, with fds attached.
func sendPacket(fd int, t Type, payload []byte, fds ...int) error {
	b, err := AppendFrame(nil, t, payload)
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	for {
		err := unix.Sendmsg(fd, b, rights, nil, unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

var (
	errClosed  = errors.New("the host has closed the control socket")
	errGarbage = errors.New("the packet is not a frame")
)

// receivePacket reads one frame. Garbage is errGarbage and leaves the socket
// usable: packets keep their bounds.
func receivePacket(fd int) (Type, []byte, []int, error) {
	buf, oob := make([]byte, maxPacket), make([]byte, unix.CmsgSpace(4*maxRights))
	var n, oobn, flags int
	var err error
	for {
		n, oobn, flags, _, err = unix.Recvmsg(fd, buf, oob, unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return 0, nil, nil, err
	}
	fds, err := parseRights(oob[:oobn])
	if err != nil {
		return 0, nil, nil, fmt.Errorf("%w: %w", errGarbage, err)
	}
	if n == 0 && oobn == 0 {
		return 0, nil, nil, errClosed
	}
	t, payload, err := ParsePacket(buf[:n])
	if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = errFrameLength
	}
	if err != nil {
		for _, f := range fds {
			err = errors.Join(err, unix.Close(f))
		}
		return 0, nil, nil, fmt.Errorf("%w: %w", errGarbage, err)
	}
	return t, payload, fds, nil
}

func parseRights(oob []byte) ([]int, error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	var fds []int
	for _, m := range messages {
		got, err := unix.ParseUnixRights(&m)
		if err != nil {
			return nil, err
		}
		fds = append(fds, got...)
	}
	return fds, nil
}

// execSelf replaces the process by the sealed copy of this binary. It returns only
// on failure.
func execSelf(argv []string) error {
	args, err := pointers(argv)
	if err != nil {
		return err
	}
	env, err := pointers([]string{Tuning})
	if err != nil {
		return err
	}
	empty := [1]byte{}
	_, _, errno := unix.Syscall6(unix.SYS_EXECVEAT, selfFD, uintptr(unsafe.Pointer(&empty[0])),
		uintptr(unsafe.Pointer(&args[0])), uintptr(unsafe.Pointer(&env[0])), unix.AT_EMPTY_PATH, 0)
	return errno
}

func pointers(list []string) ([]*byte, error) {
	out := make([]*byte, 0, len(list)+1)
	for _, s := range list {
		p, err := unix.BytePtrFromString(s)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return append(out, nil), nil
}
