package guest

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	readOnlyAttr = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	writableAttr = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	deviceAttr   = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC
)

var deviceNodes = []string{"null", "zero", "full", "random", "urandom", "tty"}

// What of /proc is made read-only, and what is covered.
var (
	procReadOnly   = []string{"sys", "sysrq-trigger", "irq", "bus", "fs"}
	procMaskedFile = []string{"kcore", "keys", "timer_list", "latency_stats", "sched_debug", "kmsg", "kpagecount", "kpageflags", "kpagecgroup", "config.gz"}
	procMaskedDir  = []string{"scsi", "acpi", "asound", "driver", "dynamic_debug", "pressure"}
)

// tree is a detached mount on its way to a target.
type tree struct {
	fd     int
	target string
	dir    bool
}

// root assembles the new root below dir, the mount point of its tmpfs. Every
// source is opened before anything is mounted: afterwards parts of the host are
// covered, and nothing of the environment is ever resolved on the host.
type root struct {
	boot   Boot
	handed []int // descriptors that came with it
	dir    string
	fd     int
	trees  []tree
	links  map[string]string // target → what it points to
	nulls  []int             // detached mounts of the host's /dev/null
}

func buildRoot(b Boot, handed []int) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return step("make mounts private", err)
	}
	r := &root{boot: b, handed: handed, links: map[string]string{}}
	for _, f := range []func() error{
		r.openBinds, r.openImage, r.openDevices, r.mountBase, r.openImageInside, r.makeDev, r.makeProc, r.makeTmp,
		r.placeAll, r.writeEtc, r.enter,
	} {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// openTree clones the mount at p, with its submounts when recursive, and sets attr.
func openTree(at int, p string, attr uint64, recursive bool) (int, error) {
	var rec uint
	if recursive {
		rec = unix.AT_RECURSIVE
	}
	fd, err := unix.OpenTree(at, p, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW|rec)
	if err != nil {
		return -1, fmt.Errorf("open_tree: %w", err)
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|rec, &unix.MountAttr{Attr_set: attr}); err != nil {
		return -1, fmt.Errorf("mount_setattr: %w", err)
	}
	return fd, nil
}

func (r *root) openBinds() error {
	for _, b := range r.boot.Binds {
		fd := -1
		if b.Tree != 0 {
			if b.Tree < 1 || b.Tree > len(r.handed) {
				return step("open the source of "+b.Target, errors.New("its mount was not handed over"))
			}
			fd = r.handed[b.Tree-1]
		} else {
			attr := uint64(readOnlyAttr)
			if b.Writable {
				attr = writableAttr
			}
			var err error
			if fd, err = openTree(unix.AT_FDCWD, b.Path, attr, b.Dir); err != nil {
				return step("open the source of "+b.Target, err)
			}
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return step("check the source of "+b.Target, err)
		}
		if uint64(st.Dev) != b.Dev || st.Ino != b.Ino || (st.Mode&unix.S_IFMT == unix.S_IFDIR) != b.Dir {
			return step("check the source of "+b.Target, errors.New("another file took its place"))
		}
		r.trees = append(r.trees, tree{fd: fd, target: b.Target, dir: b.Dir})
	}
	return nil
}

// openImage opens what the host image takes from the host.
func (r *root) openImage() error {
	if r.boot.Image != "" {
		return nil
	}
	var early []tree
	take := func(p string, optional bool) error {
		info, err := os.Lstat(p)
		if optional && (errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission)) {
			return nil
		}
		if err != nil {
			return step("read "+p, err)
		}
		if info.Mode()&os.ModeSymlink != 0 {
			to, err := os.Readlink(p)
			if err != nil {
				return step("read "+p, err)
			}
			r.links[p] = to
			return nil
		}
		fd, err := openTree(unix.AT_FDCWD, p, readOnlyAttr, info.IsDir())
		if optional && errors.Is(err, unix.EACCES) {
			return nil
		}
		if err != nil {
			return step("open "+p, err)
		}
		early = append(early, tree{fd: fd, target: p, dir: info.IsDir()})
		return nil
	}
	if err := take("/usr", false); err != nil {
		return err
	}
	for _, p := range append([]string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}, r.boot.HostTools...) {
		if err := take(p, true); err != nil {
			return err
		}
	}
	for _, pattern := range hostEtc {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return step("list "+pattern, err)
		}
		for _, p := range found {
			if err := take(p, true); err != nil {
				return err
			}
		}
	}
	r.trees = append(early, r.trees...)
	return nil
}

func (r *root) openDevices() error {
	for _, d := range deviceNodes {
		fd, err := openTree(unix.AT_FDCWD, "/dev/"+d, deviceAttr, false)
		if err != nil {
			return step("open /dev/"+d, err)
		}
		r.trees = append(r.trees, tree{fd: fd, target: "/dev/" + d})
	}
	// A mask is moved once; its own /dev/null is never resolved (CVE-2025-31133).
	for range procMaskedFile {
		fd, err := openTree(unix.AT_FDCWD, "/dev/null", readOnlyAttr|unix.MOUNT_ATTR_NOEXEC, false)
		if err != nil {
			return step("open /dev/null", err)
		}
		r.nulls = append(r.nulls, fd)
	}
	return nil
}

func (r *root) mountBase() error {
	for _, dir := range []string{"/tmp", "/mnt", "/usr"} {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			r.dir = dir
			break
		}
	}
	if r.dir == "" {
		return step("find a mount point", os.ErrNotExist)
	}
	if err := unix.Mount("nod", r.dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=4m,mode=0755"); err != nil {
		return step("mount the root", err)
	}
	fd, err := unix.Open(r.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return step("open the root", err)
	}
	r.fd = fd
	for _, d := range []string{"/dev", "/proc", "/tmp", "/run", "/etc", "/var", "/home/agent", "/workspace", "/nod", "/opt", "/srv", "/mnt"} {
		if err := os.MkdirAll(r.dir+d, 0o755); err != nil {
			return step("make "+d, err)
		}
	}
	r.links["/var/tmp"], r.links["/var/run"] = "/tmp", "/run"
	return nil
}

func (r *root) makeDev() error {
	d := r.dir + "/dev"
	if err := unix.Mount("dev", d, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "size=64k,mode=0755"); err != nil {
		return step("mount /dev", err)
	}
	for _, sub := range []string{"/pts", "/shm"} {
		if err := os.Mkdir(d+sub, 0o755); err != nil {
			return step("make /dev"+sub, err)
		}
	}
	if err := unix.Mount("devpts", d+"/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620"); err != nil {
		return step("mount /dev/pts", err)
	}
	if err := unix.Mount("shm", d+"/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=64m,mode=1777"); err != nil {
		return step("mount /dev/shm", err)
	}
	for name, to := range map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(to, d+"/"+name); err != nil {
			return step("make /dev/"+name, err)
		}
	}
	return nil
}

func (r *root) makeProc() error {
	p := r.dir + "/proc"
	if err := unix.Mount("proc", p, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return step("mount /proc", err)
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	for _, name := range procReadOnly {
		at := p + "/" + name
		if err := unix.Mount(at, at, "", unix.MS_BIND|unix.MS_REC, ""); errors.Is(err, unix.ENOENT) {
			continue
		} else if err != nil {
			return step("bind /proc/"+name, err)
		}
		if err := unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|flags, ""); err != nil {
			return step("protect /proc/"+name, err)
		}
	}
	for i, name := range procMaskedFile {
		err := unix.MoveMount(r.nulls[i], "", unix.AT_FDCWD, p+"/"+name, unix.MOVE_MOUNT_F_EMPTY_PATH)
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return step("mask /proc/"+name, err)
		}
	}
	for _, name := range procMaskedDir {
		err := unix.Mount("mask", p+"/"+name, "tmpfs", unix.MS_RDONLY|flags, "size=4k,mode=0555")
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return step("mask /proc/"+name, err)
		}
	}
	return nil
}

func (r *root) makeTmp() error {
	size := fmt.Sprintf("size=%d", r.boot.TmpBytes)
	if err := unix.Mount("tmp", r.dir+"/tmp", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, size+",mode=1777"); err != nil {
		return step("mount /tmp", err)
	}
	// Landlock keeps /run from being written; the probe tells by it whether it took.
	if err := unix.Mount("run", r.dir+"/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "size=1m,mode=0755"); err != nil {
		return step("mount /run", err)
	}
	if !r.boot.HomeTmp {
		return nil
	}
	return step("mount the home", unix.Mount("home", r.dir+"/home/agent", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, size+",mode=0700"))
}

// placeAll moves every tree to its target and makes the links.
func (r *root) placeAll() error {
	for _, t := range r.trees {
		at, err := r.place(t.target, t.dir)
		if err != nil {
			return step("make "+t.target, err)
		}
		err = unix.MoveMount(t.fd, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
		if err = errors.Join(err, unix.Close(at), unix.Close(t.fd)); err != nil {
			return step("mount "+t.target, err)
		}
	}
	for target, to := range r.links {
		at, err := r.place(path.Dir(target), true)
		if err != nil {
			return step("make "+target, err)
		}
		err = unix.Symlinkat(to, at, path.Base(target))
		if err = errors.Join(err, unix.Close(at)); err != nil {
			return step("link "+target, err)
		}
	}
	return nil
}

// place opens target inside the new root, making what is missing. No component
// is ever followed through a symbolic link: the home may hold what an earlier
// agent planted.
func (r *root) place(target string, dir bool) (int, error) {
	at, err := unix.Dup(r.fd)
	if err != nil {
		return -1, err
	}
	if target == "/" {
		return at, nil
	}
	parts := strings.Split(strings.Trim(target, "/"), "/")
	for i, part := range parts {
		last := i == len(parts)-1
		flags := unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
		if last && !dir {
			fd, err := unix.Openat(at, part, unix.O_CREAT|unix.O_NOFOLLOW|unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o444)
			if err != nil {
				return -1, errors.Join(err, unix.Close(at))
			}
			if err := unix.Close(fd); err != nil {
				return -1, errors.Join(err, unix.Close(at))
			}
		} else {
			if err := unix.Mkdirat(at, part, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
				return -1, errors.Join(err, unix.Close(at))
			}
			flags |= unix.O_DIRECTORY
		}
		next, err := unix.Openat(at, part, flags, 0)
		if err = errors.Join(err, unix.Close(at)); err != nil {
			return -1, err
		}
		at = next
	}
	return at, nil
}

// enter makes the new root read-only and the only one.
func (r *root) enter() error {
	for _, d := range []string{"/dev", ""} {
		if err := unix.MountSetattr(unix.AT_FDCWD, r.dir+d, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return step("make "+d+"/ read-only", err)
		}
	}
	if err := unix.Fchdir(r.fd); err != nil {
		return step("enter the root", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return step("pivot_root", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return step("leave the host's root", err)
	}
	return step("enter the root", unix.Chdir("/"))
}
