package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"strings"

	"nod"
)

// image returns the id of the configured image, after it was imported or pulled
// when the configuration says so. An image that wants volumes of its own is
// refused: the engine would make them, writable and without a bound.
func (d *Driver) image(ctx context.Context) (string, error) {
	id, err := d.lookUpImage(ctx)
	if !refused(err, 404) {
		return id, err
	}
	switch {
	case d.cfg.Archive != "":
		err = d.importImage(ctx)
	case d.cfg.Pull:
		_, err = d.engine.stream(ctx, "/images/create"+query("fromImage", d.cfg.Image), nil)
	default:
		return "", &nod.Error{Code: nod.NotFound, Msg: "the engine does not have the image, and the configuration does not let it be pulled",
			Hint: "pull or import it, or name an archive", Err: err}
	}
	if err != nil {
		return "", nod.E(nod.Unavailable, "the engine does not take the image", err)
	}
	return d.lookUpImage(ctx)
}

func (d *Driver) lookUpImage(ctx context.Context) (string, error) {
	var i struct {
		ID     string `json:"Id"`
		Config struct{ Volumes map[string]struct{} }
	}
	err := d.engine.call(ctx, "GET", "/images/"+escape(d.cfg.Image)+"/json", nil, &i)
	if err != nil {
		return "", nod.E(nod.Unavailable, "the engine does not describe the image", err)
	}
	if len(i.Config.Volumes) > 0 {
		return "", nod.E(nod.Unsupported, "the image declares volumes, which would be writable and without a bound", nil)
	}
	if i.ID == "" {
		return "", nod.E(nod.Internal, "the engine's image has no id", nil)
	}
	return i.ID, nil
}

// escape keeps the slashes of a reference: they are part of the API's path.
func escape(reference string) string {
	parts := strings.Split(reference, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

var imageID = regexp.MustCompile(`^(sha256:)?[0-9a-f]{64}$`)

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
	if !imageID.MatchString(id) {
		return fmt.Errorf("the import ended with %.100q", id)
	}
	return d.engine.call(ctx, "POST", "/images/"+id+"/tag"+query("repo", repo, "tag", tag), nil, nil)
}
