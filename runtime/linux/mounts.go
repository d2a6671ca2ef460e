//go:build linux

package linux

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"nod"
	"nod/runtime"
	"nod/runtime/guest"
)

// sources opens what the environment shows of the host. As root the mounts are
// made here and handed over, because the environment's user may not even look up
// their paths; otherwise the guest opens them with the same user's rights.
func (d *Driver) sources(p runtime.PreparedSpec, root root) ([]guest.Bind, []*os.File, error) {
	guestInfo, err := os.Lstat(d.guest)
	if err != nil {
		return nil, nil, nod.E(nod.Internal, "the guest binary is gone", err)
	}
	type want struct {
		src      runtime.Source
		writable bool
	}
	var wants []want
	if root.Info != nil {
		wants = append(wants, want{root.Source, false}) // first, as guest.Boot says
	}
	wants = append(wants, want{p.Workspace(), true})
	if p.Home().Info != nil {
		wants = append(wants, want{p.Home(), true})
	}
	wants = append(wants, want{runtime.Source{Path: d.guest, Target: nod.GuestPath, Info: guestInfo}, false})
	for _, m := range p.Mounts() {
		wants = append(wants, want{m, false})
	}
	var binds []guest.Bind
	var files []*os.File
	for _, w := range wants {
		st, ok := w.src.Info.Sys().(*syscall.Stat_t)
		if !ok {
			return nil, files, nod.E(nod.Internal, "a source has no identity", nil)
		}
		b := guest.Bind{
			Path: w.src.Path, Target: w.src.Target, Dir: w.src.Info.IsDir(), Writable: w.writable,
			Dev: uint64(st.Dev), Ino: st.Ino,
		}
		if os.Geteuid() == 0 {
			f, err := detach(b)
			if err != nil {
				return nil, files, err
			}
			files = append(files, f)
			b.Tree = len(files)
		}
		binds = append(binds, b)
	}
	return binds, files, nil
}

// detach clones the mount at b.Path, without submounts unless it is read-only,
// and cuts it off from what the host mounts later.
func detach(b guest.Bind) (*os.File, error) {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	if !b.Writable {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, b.Path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
	if err != nil {
		return nil, nod.E(nod.Unsupported, "a source cannot be mounted", fmt.Errorf("open_tree: %w", err))
	}
	f := os.NewFile(uintptr(fd), b.Target)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || uint64(st.Dev) != b.Dev || st.Ino != b.Ino {
		return nil, errors.Join(nod.E(nod.Forbidden, "another file took a source's place", err), f.Close())
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return nil, errors.Join(nod.E(nod.Unsupported, "a source cannot be mounted", fmt.Errorf("mount_setattr: %w", err)), f.Close())
	}
	return f, nil
}

// etcFiles is what every environment has below /etc besides its image's own.
var etcFiles = []guest.File{
	{Path: "/etc/passwd", Content: "agent:x:1000:1000:agent:" + runtime.HomePath + ":/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n"},
	{Path: "/etc/group", Content: "agent:x:1000:\nnogroup:x:65534:\n"},
	{Path: "/etc/hostname", Content: "nod\n"},
	{Path: "/etc/hosts", Content: "127.0.0.1 localhost nod\n::1 localhost\n"},
	{Path: "/etc/resolv.conf", Content: "nameserver 127.0.0.1\noptions attempts:1 timeout:1\n"},
	{Path: "/etc/nsswitch.conf", Content: "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n"},
}

const defaultTmp = 1 << 30

func (d *Driver) boot(p runtime.PreparedSpec, root root, binds []guest.Bind) guest.Boot {
	l := p.Spec().Limits
	b := guest.Boot{
		Binds: binds, EtcFiles: etcFiles, HomeTmp: p.Home().Info == nil, TmpBytes: l.TmpBytes, PIDs: l.PIDs,
		Landlock: d.landlock, Proxy: runtime.ProxyAddress, HostTools: d.cfg.HostTools,
	}
	if root.Info != nil {
		b.Image = root.Path
	}
	if b.TmpBytes == 0 {
		b.TmpBytes = defaultTmp
	}
	return b
}
