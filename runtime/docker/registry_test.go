//go:build linux

package docker

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"nod"
	"nod/runtime"
)

// registryAddress is where the engine's own loopback interface has a registry. Docker
// takes every such one without TLS; Podman is told to.
const registryAddress = "127.0.0.1:5000"

const registriesConf = "[[registry]]\nlocation = \"" + registryAddress + "\"\ninsecure = true\n"

// swapped is the digest under which the registry has another image.
const swapped = "sha256:0000000000000000000000000000000000000000000000000000000000000001"

// serveRegistry serves one image, whose digest it writes to a file.
func serveRegistry(run string) error {
	real := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	l, err := net.Listen("tcp", registryAddress)
	if err != nil {
		return err
	}
	img, err := pulledImage()
	if err != nil {
		return err
	}
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = strings.ReplaceAll(r.URL.Path, swapped, digest.String())
		real.ServeHTTP(w, r)
	})}
	go func() { _ = server.Serve(l) }() // until this process ends
	ref, err := name.ParseReference(registryAddress+"/nod/pulled:1", name.Insecure)
	if err != nil {
		return err
	}
	return errors.Join(remote.Write(ref, img), os.WriteFile(filepath.Join(run, "digest"), []byte(digest.String()), 0o600))
}

// pulledImage has nothing but the directories that an environment mounts over.
func pulledImage() (v1.Image, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, d := range []string{"etc", "home", "nod", "proc", "dev", "run", "sys", "tmp", "usr", "workspace"} {
		mode := int64(0o755)
		if d == "tmp" {
			mode = 0o1777
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d + "/", Mode: mode}); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	c, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	c = c.DeepCopy()
	c.OS, c.Architecture = "linux", goruntime.GOARCH
	return mutate.ConfigFile(img, c)
}

// pulledReference has the engine pull an image by its digest, and refuse another in
// its place.
func pulledReference(t *testing.T, e *testEngine, _ string) {
	digest, err := os.ReadFile(filepath.Join(filepath.Dir(e.socket), "digest"))
	if err != nil {
		t.Fatal(err)
	}
	c := e.config(t, "")
	c.Image = registryAddress + "/nod/pulled@" + string(digest)
	c.StateDir = t.TempDir()
	d := open(t, c)
	if _, err := d.image(t.Context(), runtime.HostImage); nod.CodeOf(err) != nod.NotFound {
		t.Errorf("an image that may not be pulled: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	c.Pull = true
	d, _ = env(t, c, nil)
	mustStart(t, d)
	if s, err := d.Inspect(t.Context(), "e1"); err != nil || !s.Running || s.Image == "" {
		t.Errorf("inspected %+v, %v", s, err)
	}
	for what, reference := range map[string]string{"another image": "/nod/pulled@" + swapped, "an image that is not there": "/nod/none:1"} {
		if i, err := d.image(t.Context(), registryAddress+reference); nod.CodeOf(err) != nod.Unavailable {
			t.Errorf("%s is taken as %q, %v", what, i.ID, err)
		}
	}
}
