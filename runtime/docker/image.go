package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"nod"
	"nod/runtime"
)

// engineImage is one as the engine describes it.
type engineImage struct {
	ID     string `json:"Id"`
	Config struct {
		Volumes map[string]struct{}
		Env     []string
	}
}

// image returns the image of name, the configured one for runtime.HostImage, after
// it was imported or pulled when the configuration says so. One that wants volumes
// of its own is refused: the engine would make them, writable and without a bound.
func (d *Driver) image(ctx context.Context, name string) (engineImage, error) {
	if name == runtime.HostImage {
		name = d.cfg.Image
	}
	i, err := d.lookUpImage(ctx, name)
	if !refused(err, 404) {
		return i, err
	}
	switch {
	case name == d.cfg.Image && d.cfg.Archive != "":
		err = d.importImage(ctx)
	case name == d.cfg.Image && d.cfg.Build != "":
		err = d.buildImage(ctx, d.cfg.Build, name)
	case d.cfg.Pull:
		_, err = d.engine.stream(ctx, "/images/create"+query("fromImage", withTag(name)), nil)
	default:
		return engineImage{}, &nod.Error{Code: nod.NotFound, Msg: "the engine does not have the image, and the configuration does not let it be pulled",
			Hint: "pull or import it, or name an archive or a directory to build", Err: err}
	}
	if err != nil {
		return engineImage{}, nod.E(nod.Unavailable, "the engine does not take the image", err)
	}
	return d.lookUpImage(ctx, name)
}

// withTag says the tag that is meant: without one an engine pulls them all.
func withTag(name string) string {
	if strings.Contains(name, "@") || strings.LastIndexByte(name, ':') > strings.LastIndexByte(name, '/') {
		return name
	}
	return name + ":latest"
}

func (d *Driver) lookUpImage(ctx context.Context, name string) (engineImage, error) {
	var i engineImage
	err := d.engine.call(ctx, "GET", "/images/"+escape(name)+"/json", nil, &i)
	if err != nil {
		return engineImage{}, nod.E(nod.Unavailable, "the engine does not describe the image", err)
	}
	if len(i.Config.Volumes) > 0 {
		return engineImage{}, nod.E(nod.Unsupported, "the image declares volumes, which would be writable and without a bound", nil)
	}
	if i.ID == "" {
		return engineImage{}, nod.E(nod.Internal, "the engine's image has no id", nil)
	}
	return i, nil
}

// escape keeps the slashes of a reference: they are part of the API's path.
func escape(reference string) string {
	parts := strings.Split(reference, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

// importImage makes the image of the archive.
func (d *Driver) importImage(ctx context.Context) (err error) {
	f, err := os.Open(d.cfg.Archive)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	repo, tag := d.cfg.Image, "latest"
	if i := strings.LastIndexByte(repo, ':'); i > strings.LastIndexByte(repo, '/') {
		repo, tag = repo[:i], repo[i+1:]
	}
	// The client closes what it is given. Podman 4.3 does not take the name here.
	id, err := d.engine.stream(ctx, "/images/create"+query("fromSrc", "-"), io.NopCloser(f))
	if err != nil {
		return err
	}
	if !fullID(strings.TrimPrefix(id, "sha256:")) {
		return fmt.Errorf("the import ended with %.100q", id)
	}
	return d.engine.call(ctx, "POST", "/images/"+id+"/tag"+query("repo", repo, "tag", tag), nil, nil)
}
