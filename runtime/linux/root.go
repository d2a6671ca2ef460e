//go:build linux

package linux

import (
	"context"
	"debug/elf"
	"os"
	"path/filepath"

	"nod"
	"nod/runtime"
	"nod/runtime/image"
)

// root is what an environment has as its root: without Info the host's own files.
type root struct {
	runtime.Source
	digest string   // of the image, when it has one
	env    []string // what the image asks for
}

// rootOf finds the root of p, unpacking its image when that is not there.
func (d *Driver) rootOf(ctx context.Context, p runtime.PreparedSpec) (root, error) {
	name := p.Spec().Image
	if name == runtime.HostImage {
		name = d.cfg.Image
	}
	if name == "" {
		return root{}, nil
	}
	if err := d.staticGuest(); err != nil {
		return root{}, err
	}
	if filepath.IsAbs(name) {
		return root{Source: p.Image()}, nil
	}
	i, err := d.unpacked(ctx, name)
	if err != nil {
		return root{}, err
	}
	info, err := os.Lstat(i.Root)
	if err != nil || !info.IsDir() {
		return root{}, nod.E(nod.Internal, "the unpacked image is gone", err)
	}
	return root{Source: runtime.Source{Path: i.Root, Target: "/", Info: info}, digest: i.Digest, env: i.Env}, nil
}

func (d *Driver) unpacked(ctx context.Context, name string) (image.Image, error) {
	i, err := d.images.Find(name)
	switch {
	case nod.CodeOf(err) != nod.NotFound:
		return i, err
	case name == d.cfg.Image && d.cfg.Archive != "":
		return d.images.Load(ctx, d.cfg.Archive, name)
	case d.cfg.Pull:
		return d.images.Pull(ctx, name)
	}
	return i, &nod.Error{Code: nod.NotFound, Msg: "the image is not unpacked here, and the configuration does not let it be pulled",
		Hint: "name an archive, or set pull", Err: err}
}

// staticGuest refuses a guest that would need the host's libraries in an image
// that has its own.
func (d *Driver) staticGuest() error {
	f, err := elf.NewFile(d.self)
	if err != nil {
		return nod.E(nod.Internal, "the guest binary has another form", err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return &nod.Error{Code: nod.Unsupported, Msg: "the guest binary needs libraries that an image does not have",
				Hint: "build nod with CGO_ENABLED=0, or name a static nod-guest as runtime.guest"}
		}
	}
	return nil
}
