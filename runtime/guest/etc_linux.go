package guest

import (
	"errors"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// hostEtc is what the host image shows of the host's /etc: how to load and
// configure programs, which authorities to trust, which time zone it is. No
// accounts, no keys, no names of networks, no git configuration.
var hostEtc = []string{
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
	"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/crypto-policies",
	"/etc/pki/ca-trust", "/etc/pki/tls/certs", "/etc/pki/tls/cert.pem", "/etc/pki/tls/openssl.cnf",
	"/etc/localtime", "/etc/timezone", "/etc/os-release", "/etc/debian_version",
	"/etc/mime.types", "/etc/services", "/etc/protocols", "/etc/terminfo", "/etc/inputrc",
	"/etc/java*", "/etc/maven", "/etc/perl", "/etc/python3*", "/etc/fonts", "/etc/magic", "/etc/shells",
}

// imageSkip is what of an image's top level the environment makes itself.
var imageSkip = map[string]bool{
	"dev": true, "proc": true, "sys": true, "tmp": true, "run": true, "etc": true, "home": true, "workspace": true,
	"nod": true, "boot": true, "root": true, "lost+found": true, "media": true, "mnt": true, "srv": true, "var": true,
}

// openImageInside opens what is taken from an image directory. The first bind is
// the image; it is moved to a place inside the new root, opened entry by entry
// there, with the environment's own rights, and detached again.
func (r *root) openImageInside() error {
	if r.boot.Image == "" {
		return nil
	}
	image := r.trees[0]
	r.trees = r.trees[1:]
	at := r.dir + "/nod/image"
	if err := os.Mkdir(at, 0o755); err != nil {
		return step("make a place for the image", err)
	}
	if err := unix.MoveMount(image.fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return step("mount the image", err)
	}
	generated := map[string]bool{}
	for _, f := range r.boot.EtcFiles {
		generated[f.Path] = true
	}
	if err := r.takeEntries(at, "/", func(p string) bool { return imageSkip[path.Base(p)] }); err != nil {
		return err
	}
	if err := r.takeEntries(at+"/etc", "/etc", func(p string) bool { return generated[p] }); err != nil {
		return err
	}
	if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
		return step("put the image away", err)
	}
	return step("put the image away", errors.Join(unix.Close(image.fd), os.Remove(at)))
}

func (r *root) takeEntries(from, to string, skip func(string) bool) error {
	list, err := os.ReadDir(from)
	if errors.Is(err, os.ErrNotExist) && to != "/" {
		return nil
	}
	if err != nil {
		return step("read the image's "+to, err)
	}
	for _, e := range list {
		target := path.Join(to, e.Name())
		switch {
		case skip(target):
		case e.Type()&os.ModeSymlink != 0:
			link, err := os.Readlink(from + "/" + e.Name())
			if err != nil {
				return step("read the image's "+target, err)
			}
			r.links[target] = link
		case e.IsDir(), e.Type().IsRegular():
			fd, err := openTree(unix.AT_FDCWD, from+"/"+e.Name(), readOnlyAttr, e.IsDir())
			if err != nil {
				return step("open the image's "+target, err)
			}
			r.trees = append([]tree{{fd: fd, target: target, dir: e.IsDir()}}, r.trees...)
		}
	}
	return nil
}

// writeEtc writes the generated files.
func (r *root) writeEtc() error {
	for _, f := range r.boot.EtcFiles {
		at, err := r.place(path.Dir(f.Path), true)
		if err != nil {
			return step("make "+f.Path, err)
		}
		fd, err := unix.Openat(at, path.Base(f.Path), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o444)
		if err = errors.Join(err, unix.Close(at)); err != nil {
			return step("make "+f.Path, err)
		}
		file := os.NewFile(uintptr(fd), f.Path)
		_, err = file.WriteString(f.Content)
		if err = errors.Join(err, file.Close()); err != nil {
			return step("write "+f.Path, err)
		}
	}
	return nil
}
