package docker

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"nod"
)

// Build has the engine build an image. What it runs on the way has no network, and
// of this machine's files it is sent those of the directory: a link in there is sent
// as a link. The digest is the image's id.
func (d *Driver) Build(ctx context.Context, dir, reference string) (string, error) {
	switch {
	case !filepath.IsAbs(dir):
		return "", nod.E(nod.Invalid, "the directory to build an image from must be an absolute path", nil)
	case !validReference(reference):
		return "", nod.E(nod.Invalid, "an image is built under a reference", nil)
	}
	if err := d.buildImage(ctx, dir, reference); err != nil {
		return "", nod.E(nod.Unavailable, "the engine does not build the image", err)
	}
	i, err := d.lookUpImage(ctx, reference)
	return i.ID, err
}

func (d *Driver) buildImage(ctx context.Context, dir, reference string) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nod.E(nod.Invalid, "the directory to build the image from cannot be opened", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	file := "Containerfile"
	if _, err := root.Lstat(file); err != nil {
		file = "Dockerfile"
	}
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		t := tar.NewWriter(w)
		err := errors.Join(t.AddFS(root.FS()), t.Close())
		packed <- err
		_ = w.CloseWithError(err) // never fails
	}()
	_, err = d.engine.stream(ctx, "/build"+query("t", reference, "dockerfile", file, "networkmode", "none", "rm", "1", "forcerm", "1", "q", "1"), r)
	_ = r.Close() // an engine may answer before it has read everything
	if perr := <-packed; perr != nil && !errors.Is(perr, io.ErrClosedPipe) {
		err = errors.Join(err, perr)
	}
	return err
}
