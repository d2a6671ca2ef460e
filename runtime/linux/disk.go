//go:build linux

package linux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"nod"
	"nod/runtime"
)

// Disk limits are project quotas: every file below the workspace and the home
// carries a number, the environment's user, and what is made there inherits it.
// Only a process in the host's own user namespace may change it, so the
// environment cannot leave its quota.

// From linux/fs.h, linux/quota.h and linux/dqblk_xfs.h.
const (
	fsGetXattr     = 0x801c581f
	fsSetXattr     = 0x401c5820
	projectInherit = 0x200

	projectQuota  = 2
	quotaGet      = 0x800007
	quotaSet      = 0x800008
	quotaState    = 'X'<<8 + 8
	stateVersion  = 1
	enforced      = 1 << 5 // of projects
	blockLimits   = 1
	inodeLimits   = 4
	quotaBlock    = 1024
	bytesPerInode = 1024
)

// fileAttr is struct fsxattr.
type fileAttr struct {
	flags, extentSize, extents, project, cowExtentSize uint32
	_                                                  [8]byte
}

// quota is struct if_dqblk.
type quota struct {
	blockHard, blockSoft, space, inodeHard, inodeSoft, inodes, blockTime, inodeTime uint64
	valid                                                                           uint32
	_                                                                               uint32
}

func attrIoctl(fd int, request uintptr, a *fileAttr) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(a))); errno != 0 {
		return errno
	}
	return nil
}

func quotaCall(fd int, command int, id uint32, data unsafe.Pointer) error {
	if _, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(fd), uintptr(uint32(command<<8|projectQuota)), uintptr(id), uintptr(data), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// quotas returns nil when the file system of dir enforces project quotas.
func quotas(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	var state [256]byte // struct fs_quota_statv, which is shorter
	state[0] = stateVersion
	if err := quotaCall(int(f.Fd()), quotaState, 0, unsafe.Pointer(&state)); err != nil {
		return fmt.Errorf("ask for the state of quotas: %w", err)
	}
	if binary.NativeEndian.Uint16(state[2:])&enforced == 0 {
		return errors.New("project quotas are not enforced there")
	}
	return nil
}

// joinProject puts the open file or directory into a project.
func joinProject(fd int, project uint32) error {
	var a fileAttr
	if err := attrIoctl(fd, fsGetXattr, &a); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	a.project = project
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		a.flags |= projectInherit
	}
	return attrIoctl(fd, fsSetXattr, &a)
}

// limited are the directories that a disk limit is about.
func limited(p runtime.PreparedSpec) []runtime.Source {
	if p.Home().Info == nil {
		return []runtime.Source{p.Workspace()}
	}
	return []runtime.Source{p.Workspace(), p.Home()}
}

// checkDisk refuses a required disk limit that cannot be enforced where the
// directories are.
func checkDisk(p runtime.PreparedSpec) error {
	l := p.Spec().Limits
	if l.DiskBytes == 0 || !l.Required {
		return nil
	}
	if os.Geteuid() != 0 {
		return &nod.Error{Code: nod.Unsupported, Msg: "this host cannot enforce the required disk limit", Hint: "only root sets project quotas"}
	}
	for _, src := range limited(p) {
		if err := quotas(src.Path); err != nil {
			return &nod.Error{Code: nod.Unsupported, Msg: "this host cannot enforce the required disk limit",
				Hint: "put the state directory on ext4 with the quota and project features, mounted with prjquota", Err: err}
		}
	}
	return nil
}

// limitDisk sets the limit and reads it back, where that can be: elsewhere it was
// not required.
func (d *Driver) limitDisk(p runtime.PreparedSpec, project uint32) error {
	l := p.Spec().Limits
	if l.DiskBytes == 0 || os.Geteuid() != 0 {
		return nil
	}
	for _, src := range limited(p) {
		if quotas(src.Path) != nil {
			continue // checkDisk has let it pass
		}
		if err := limitProject(src, project, uint64(l.DiskBytes)); err != nil {
			return nod.E(nod.Unsupported, "the environment's disk limit does not take", err)
		}
	}
	return nil
}

// limitProject limits what project may use on the file system of src, which must
// be in it; 0 is no limit.
func limitProject(src runtime.Source, project uint32, bytes uint64) error {
	f, err := os.OpenFile(src.Path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	fd := int(f.Fd())
	var a fileAttr
	if err := attrIoctl(fd, fsGetXattr, &a); err != nil {
		return err
	}
	if bytes > 0 && (a.project != project || a.flags&projectInherit == 0) {
		return errors.New("the directory was made without a limit")
	}
	want := quota{blockHard: (bytes + quotaBlock - 1) / quotaBlock, inodeHard: bytes / bytesPerInode, valid: blockLimits | inodeLimits}
	if err := quotaCall(fd, quotaSet, project, unsafe.Pointer(&want)); err != nil {
		return fmt.Errorf("set the quota: %w", err)
	}
	var got quota
	if err := quotaCall(fd, quotaGet, project, unsafe.Pointer(&got)); err != nil {
		return fmt.Errorf("read the quota back: %w", err)
	}
	if got.blockHard != want.blockHard || got.inodeHard != want.inodeHard {
		return errors.New("the quota reads back as another")
	}
	return nil
}

// forgetDisk takes the limit of a deleted environment away.
func forgetDisk(e *environment) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.prepared.Spec().Limits.DiskBytes == 0 || os.Geteuid() != 0 {
		return nil
	}
	for _, src := range limited(e.prepared) {
		if quotas(src.Path) != nil {
			continue // not limited, or gone
		}
		if err := limitProject(src, uint32(e.state.HostUID), 0); err != nil {
			return nod.E(nod.Internal, "the environment's disk limit cannot be taken away", err)
		}
	}
	return nil
}
