//go:build linux

package linux_test

import (
	"archive/tar"
	"bytes"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
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
	"nod/runtime/linux"
)

// staticVariable names a static guest that was built already, for a test that runs
// as a user who cannot build one.
const staticVariable = "NOD_TEST_STATIC_GUEST"

var buildGuest = sync.OnceValues(func() ([]byte, error) {
	if p := os.Getenv(staticVariable); p != "" {
		return os.ReadFile(p)
	}
	dir, err := os.MkdirTemp("", "nod-guest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("go", "build", "-o", filepath.Join(dir, "nod-guest"), "nod/cmd/nod-guest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return out, err
	}
	return os.ReadFile(filepath.Join(dir, "nod-guest"))
})

func staticGuest(t testing.TB) string {
	t.Helper()
	b, err := buildGuest()
	if err != nil {
		t.Fatalf("build the guest: %v\n%s", err, b)
	}
	p := filepath.Join(t.TempDir(), "nod-guest")
	if err := os.WriteFile(p, b, 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

// guestImage holds nothing but the guest, where only the image's PATH finds it.
func guestImage(t *testing.T) v1.Image {
	t.Helper()
	program, err := os.ReadFile(staticGuest(t))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range []tar.Header{{Name: "opt/tool/bin/", Typeflag: tar.TypeDir, Mode: 0o755}, {Name: "opt/tool/bin/nod-guest", Typeflag: tar.TypeReg, Mode: 0o4755, Size: int64(len(program))}} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Write(program); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		t.Fatal(err)
	}
	if img, err = mutate.Config(img, v1.Config{Env: []string{"PATH=/opt/tool/bin", "TOOL=1", "HTTPS_PROXY=http://192.0.2.1:1"}}); err != nil {
		t.Fatal(err)
	}
	return img
}

// TestEnvironmentsShareAnUnpackedImage has two environments of one image, from an
// archive and from a registry, whose only program is in it.
func TestEnvironmentsShareAnUnpackedImage(t *testing.T) {
	img := guestImage(t)
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	saved := filepath.Join(t.TempDir(), "tools.tar")
	tag, err := name.NewTag("acme/tools:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(saved, tag, img); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(srv.Close)
	pulled := strings.TrimPrefix(srv.URL, "http://") + "/acme/tools:1"
	ref, err := name.ParseReference(pulled)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	d := open(t, linux.Config{StateDir: t.TempDir(), Guest: staticGuest(t), Image: "acme/tools:1", Archive: saved, Pull: true})
	closing(t, d)
	needEnvironments(t, d)
	start(t, d, "e1", nil)
	start(t, d, "e2", func(s *runtime.Spec) { s.Image = pulled })
	start(t, d, "e3", func(s *runtime.Spec) { s.Image = pulled })
	for _, id := range []string{"e1", "e2", "e3"} {
		if out, status := run(t, d, id, "nod-guest", "probe"); status.Code != 0 || !strings.Contains(out, `"root_read_only":true`) {
			t.Errorf("%s: the image's own program said %q, %+v", id, out, status)
		}
		if _, err := d.Exec(t.Context(), id, nod.Command{Argv: []string{"/bin/sh"}}); nod.CodeOf(err) != nod.NotFound {
			t.Errorf("%s: the host's shell in an image without one: %v", id, err)
		}
		s, err := d.Inspect(t.Context(), id)
		if err != nil || !s.Running || s.Owner != "test" || s.Image == "" || s.Digest == "" {
			t.Errorf("%s: inspected %+v, %v", id, s, err)
		}
		if id != "e1" && s.Image != digest.String() {
			t.Errorf("%s: its image is %s, not %s", id, s.Image, digest)
		}
	}
	if _, err := d.Inspect(t.Context(), "e9"); nod.CodeOf(err) != nod.NotFound {
		t.Errorf("what is not there: %v", err)
	}
	// Only what may be fetched is.
	p, err := runtime.Prepare(runtime.Spec{ID: "e4", Owner: "test", Image: "acme/other:1", Workspace: t.TempDir()}, runtime.Roots{Allowed: []string{os.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	other := open(t, linux.Config{StateDir: t.TempDir(), Guest: staticGuest(t)})
	closing(t, other)
	if err := other.Provision(t.Context(), p); nod.CodeOf(err) != nod.NotFound {
		t.Errorf("an image that is not there, without a pull: %v", err)
	}
}

func TestAnImageNeedsAStaticGuest(t *testing.T) {
	dynamic, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	d := open(t, linux.Config{StateDir: t.TempDir(), Guest: dynamic, Image: "acme/tools:1"})
	closing(t, d)
	p, err := runtime.Prepare(runtime.Spec{ID: "e1", Owner: "test", Image: runtime.HostImage, Workspace: t.TempDir()}, runtime.Roots{Allowed: []string{os.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Provision(t.Context(), p); nod.CodeOf(err) != nod.Unsupported {
		t.Errorf("got %v", err)
	}
}
