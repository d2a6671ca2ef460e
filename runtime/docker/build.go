package docker

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"

	"nod"
)

// buildImage has the engine build the configured image. What it runs on the way
// has no network, and of this machine's files it is sent those of the directory: a
// link in there is sent as a link.
func (d *Driver) buildImage(ctx context.Context) (err error) {
	root, err := os.OpenRoot(d.cfg.Build)
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
	_, err = d.engine.stream(ctx, "/build"+query("t", d.cfg.Image, "dockerfile", file, "networkmode", "none", "rm", "1", "forcerm", "1", "q", "1"), r)
	_ = r.Close() // an engine may answer before it has read everything
	if perr := <-packed; perr != nil && !errors.Is(perr, io.ErrClosedPipe) {
		err = errors.Join(err, perr)
	}
	return err
}
