package guest

import (
	"encoding/binary"
	"testing"

	"golang.org/x/sys/unix"
)

// simulate runs a classic BPF program over one system call, as the kernel would.
func simulate(t *testing.T, p program, arch, nr uint32, args ...uint32) uint32 {
	t.Helper()
	data := make([]byte, 64)
	binary.LittleEndian.PutUint32(data[dataNumber:], nr)
	binary.LittleEndian.PutUint32(data[dataArch:], arch)
	for i, a := range args {
		binary.LittleEndian.PutUint32(data[dataArg0+8*i:], a)
	}
	var acc uint32
	for pc := 0; pc < len(p); pc++ {
		f := p[pc]
		jump := func(yes bool) {
			if yes {
				pc += int(f.Jt)
			} else {
				pc += int(f.Jf)
			}
		}
		switch f.Code {
		case opLoad:
			acc = binary.LittleEndian.Uint32(data[f.K:])
		case opEq:
			jump(acc == f.K)
		case opGe:
			jump(acc >= f.K)
		case opSet:
			jump(acc&f.K != 0)
		case opRet:
			return f.K
		default:
			t.Fatalf("instruction %d has code %#x", pc, f.Code)
		}
	}
	t.Fatal("the program falls off its end")
	return 0
}

func TestFilterVerdicts(t *testing.T) {
	const arch = uint32(unix.AUDIT_ARCH_X86_64)
	p := filter(arch, []uint32{401}, true)
	if len(p) > 4096 {
		t.Fatalf("the program has %d instructions", len(p))
	}
	eperm, enosys, family := refuse(unix.EPERM), refuse(unix.ENOSYS), refuse(unix.EAFNOSUPPORT)
	for _, c := range []struct {
		name string
		arch uint32
		nr   uint32
		args []uint32
		want uint32
	}{
		{"read", arch, unix.SYS_READ, nil, unix.SECCOMP_RET_ALLOW},
		{"another architecture", unix.AUDIT_ARCH_I386, unix.SYS_READ, nil, unix.SECCOMP_RET_KILL_PROCESS},
		{"x32", arch, 0x40000000 | unix.SYS_READ, nil, unix.SECCOMP_RET_KILL_PROCESS},
		{"x32 of a denied call", arch, 0x40000000 | unix.SYS_MOUNT, nil, unix.SECCOMP_RET_KILL_PROCESS},
		{"the architecture's own", arch, 401, nil, eperm},
		{"the last known", arch, firstUnknown - 1, nil, unix.SECCOMP_RET_ALLOW},
		{"the first unknown", arch, firstUnknown, nil, enosys},
		{"minus one", arch, 1<<30 - 1, nil, enosys},
		{"clone3", arch, unix.SYS_CLONE3, nil, enosys},
		{"a thread", arch, unix.SYS_CLONE, []uint32{unix.CLONE_VM | unix.CLONE_THREAD | uint32(unix.SIGCHLD)}, unix.SECCOMP_RET_ALLOW},
		{"clone with a namespace", arch, unix.SYS_CLONE, []uint32{unix.CLONE_NEWNET}, eperm},
		{"clone with a thread and a namespace", arch, unix.SYS_CLONE, []uint32{unix.CLONE_VM | unix.CLONE_NEWUSER}, eperm},
		{"ioctl", arch, unix.SYS_IOCTL, []uint32{0, unix.TCGETS}, unix.SECCOMP_RET_ALLOW},
		{"ioctl TIOCSTI", arch, unix.SYS_IOCTL, []uint32{0, unix.TIOCSTI}, eperm},
		{"ioctl TIOCLINUX", arch, unix.SYS_IOCTL, []uint32{0, tioclinux}, eperm},
		{"socket of a family past the list", arch, unix.SYS_SOCKET, []uint32{unix.AF_VSOCK}, family},
		{"socketpair of a family past the list", arch, unix.SYS_SOCKETPAIR, []uint32{unix.AF_ALG}, family},
		{"socket of family 0", arch, unix.SYS_SOCKET, []uint32{0}, family},
	} {
		if got := simulate(t, p, c.arch, c.nr, c.args...); got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
	for _, n := range denied {
		if got := simulate(t, p, arch, n); got != eperm {
			t.Errorf("call %d: %#x", n, got)
		}
	}
	for _, d := range socketDomains {
		for _, n := range []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR} {
			if got := simulate(t, p, arch, n, d); got != unix.SECCOMP_RET_ALLOW {
				t.Errorf("call %d for family %d: %#x", n, d, got)
			}
		}
	}
}
