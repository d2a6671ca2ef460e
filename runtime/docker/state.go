package docker

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"nod"
	"nod/runtime"
)

// agentUID is the agent's user and group, in the container and, unless the engine
// has a user namespace, on the host.
const agentUID = 1000

// openState makes the directory of this driver, holds it and puts there what the
// engine mounts: the guest, and for Podman the filter.
func (d *Driver) openState() error {
	dir := d.cfg.StateDir
	if err := os.MkdirAll(filepath.Join(dir, "sockets"), 0o700); err != nil {
		return nod.E(nod.Internal, "the runtime's state directory cannot be made", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nod.E(nod.Internal, "the runtime's state directory cannot be made private", err)
	}
	var err error
	if d.lock, err = runtime.Hold(filepath.Join(dir, "lock"), "the runtime's state"); err != nil {
		return err
	}
	d.guest = filepath.Join(dir, "guest")
	if err := replaceWithCopy(d.guest, d.cfg.Guest); err != nil {
		return nod.E(nod.Internal, "the guest binary cannot be copied", err)
	}
	if d.seccomp, err = seccompProfile(); err != nil {
		return nod.E(nod.Internal, "the seccomp profile has no form", err)
	}
	if d.cfg.Engine == Podman { // which reads it from a file, where Docker takes the text
		path := filepath.Join(dir, "seccomp.json")
		if err := os.WriteFile(path, []byte(d.seccomp), 0o600); err != nil {
			return nod.E(nod.Internal, "the seccomp profile cannot be written", err)
		}
		d.seccomp = path
	}
	return nil
}

// replaceWithCopy puts a copy of from at to, never changing a file that a
// container may be running.
func replaceWithCopy(to, from string) (err error) {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	f, err := os.CreateTemp(filepath.Dir(to), "guest-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(f, src)
	if err = errors.Join(err, f.Chmod(0o555), f.Close()); err == nil {
		err = os.Rename(f.Name(), to)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// makeSocketDir makes the directory that the container sees at guest.SocketDir.
// The agent may look up names in it, and cannot list or change it.
func (d *Driver) makeSocketDir(id string) error {
	dir := d.socketDir(id)
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nod.E(nod.Internal, "a directory for the environment's sockets cannot be made", err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return nod.E(nod.Internal, "a directory for the environment's sockets cannot be opened to it", err)
	}
	return nil
}

// give makes the agent the owner of fresh directories, when this process may.
func (d *Driver) give(p runtime.PreparedSpec) error {
	if os.Geteuid() != 0 || d.keepID {
		return nil // they belong to the agent already, see open
	}
	for _, src := range []runtime.Source{p.Workspace(), p.Home()} {
		if src.Info == nil {
			continue
		}
		now, err := os.Lstat(src.Path)
		if err != nil {
			return nod.E(nod.Invalid, "a source directory cannot be read", err)
		}
		if st, ok := now.Sys().(*syscall.Stat_t); ok && st.Uid == agentUID {
			continue // what the agent has made is never walked as root
		}
		if err := runtime.GiveTree(src, agentUID, nil); err != nil {
			return err
		}
	}
	return nil
}

// samePlaces refuses when another file took a source's place.
func (d *Driver) samePlaces(p runtime.PreparedSpec) error {
	for _, src := range d.places(p) {
		now, err := os.Lstat(src.Path)
		if err != nil || !os.SameFile(now, src.Info) {
			return nod.E(nod.Forbidden, "another file took a source's place", err)
		}
	}
	return plainTargets(p)
}

// plainTargets refuses a home in which an earlier run has planted a link on the
// way to a mount's target: the engine would follow it.
func plainTargets(p runtime.PreparedSpec) error {
	if p.Home().Info == nil {
		return nil
	}
	for _, m := range p.Mounts() {
		rest, ok := strings.CutPrefix(m.Target, runtime.HomePath+"/")
		if !ok {
			continue
		}
		at := p.Home().Path
		for _, part := range strings.Split(rest, "/") {
			at = filepath.Join(at, part)
			info, err := os.Lstat(at)
			if errors.Is(err, os.ErrNotExist) {
				break
			}
			if err != nil || info.Mode()&os.ModeSymlink != 0 {
				return nod.E(nod.Forbidden, "a link lies on the way to a mount's target", err)
			}
		}
	}
	return nil
}

// Logs is what the container's init has said: it speaks only when something is wrong.
func (e *engine) Logs(id string) string {
	ctx, cancel := context.WithTimeout(context.Background(), callPatience)
	defer cancel()
	text, err := e.send(ctx, "GET", "/containers/"+id+"/logs"+query("stderr", "1", "stdout", "1", "tail", "20"), "", nil)
	if err != nil {
		return "its log cannot be read: " + err.Error()
	}
	var b strings.Builder
	for len(text) >= 8 { // pieces under headers, as of an exec
		n := min(int(text[4])<<24|int(text[5])<<16|int(text[6])<<8|int(text[7]), len(text)-8)
		b.Write(text[8 : 8+n])
		text = text[8+n:]
	}
	return strings.TrimSpace(b.String()[:min(b.Len(), maxSaid)])
}

// HasEnded waits until the container has ended; false is that nobody knows.
func (e *engine) HasEnded(ctx context.Context, id string) bool {
	return e.call(ctx, "POST", "/containers/"+id+"/wait"+query("condition", "not-running"), nil, nil) == nil
}
