package image

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"

	"nod"
)

var small = []e{{name: "usr/bin/"}, {name: "usr/bin/tool", text: "#!", mode: 0o755}}

var smallTree = map[string]string{"usr": "drwxr-xr-x", "usr/bin": "drwxr-xr-x", "usr/bin/tool": "-rwxr-xr-x #!", "etc": "drwxr-xr-x", "etc/x": "-rw-r--r-- y"}

func smallImage(t testing.TB) v1.Image {
	return imageOf(t, tarOf(t, small...), tarOf(t, e{name: "etc/x", text: "y"}))
}

func layoutOf(t testing.TB, index v1.ImageIndex) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	if _, err := layout.Write(dir, index); err != nil {
		t.Fatal(err)
	}
	return dir
}

func indexOf(t testing.TB, images map[string]v1.Image) v1.ImageIndex {
	t.Helper()
	index := v1.ImageIndex(empty.Index)
	for arch, img := range images {
		a := mutate.IndexAddendum{Add: img}
		if arch != "" {
			a.Platform = &v1.Platform{OS: "linux", Architecture: arch}
		}
		index = mutate.AppendManifests(index, a)
	}
	return index
}

// packed is a directory as a tar.
func packed(t testing.TB, dir string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return write(t, "oci.tar", b.Bytes())
}

func TestAnImageComesFromEveryKindOfArchive(t *testing.T) {
	img := smallImage(t)
	other := imageOf(t, tarOf(t, e{name: "wrong"}))
	elsewhere := "arm64"
	if goruntime.GOARCH == elsewhere {
		elsewhere = "amd64"
	}
	dir := layoutOf(t, indexOf(t, map[string]v1.Image{"": img}))
	saved := filepath.Join(t.TempDir(), "saved.tar")
	tag, err := name.NewTag("x:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(saved, tag, img); err != nil {
		t.Fatal(err)
	}
	plain := tarOf(t, append(small, e{name: "etc/x", text: "y"})...)
	var z bytes.Buffer
	zw, err := zstd.NewWriter(&z)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := zw.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	for kind, from := range map[string]string{
		"layout":              dir,
		"layout as a tar":     packed(t, dir),
		"layout for machines": layoutOf(t, indexOf(t, map[string]v1.Image{goruntime.GOARCH: img, elsewhere: other})),
		"docker save":         saved,
		"root file system":    write(t, "root.tar", plain),
		"gzip":                write(t, "root.tar.gz", gzipped(t, plain)),
		"zstd":                write(t, "root.tar.zst", z.Bytes()),
	} {
		t.Run(kind, func(t *testing.T) {
			s := store(t, Config{})
			if _, err := s.Find("x:1"); nod.CodeOf(err) != nod.NotFound {
				t.Fatalf("before: %v", err)
			}
			i, err := s.Load(t.Context(), from, "x:1")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(smallTree, tree(t, i.Root)); diff != "" {
				t.Error(diff)
			}
			if found, err := s.Find("x:1"); err != nil || !cmp.Equal(found, i) {
				t.Errorf("found %+v, %v; loaded %+v", found, err, i)
			}
			again, err := s.Load(t.Context(), from, "y:2")
			if err != nil || again.Root != i.Root {
				t.Errorf("a second name has %q, %v", again.Root, err)
			}
			if strings.HasPrefix(kind, "layout") {
				want, err := img.Digest()
				if err != nil || i.Digest != want.String() {
					t.Errorf("its digest is %s, not %s (%v)", i.Digest, want, err)
				}
				if diff := cmp.Diff([]string{"PATH=/opt/tool/bin:/usr/bin", "LANG=C"}, i.Env); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
	t.Run("other machines only", func(t *testing.T) {
		s := store(t, Config{})
		_, err := s.Load(t.Context(), layoutOf(t, indexOf(t, map[string]v1.Image{elsewhere: img})), "x:1")
		if nod.CodeOf(err) != nod.Unsupported {
			t.Errorf("got %v", err)
		}
		nothingLeft(t, s)
	})
	t.Run("a changed blob", func(t *testing.T) {
		dir := layoutOf(t, indexOf(t, map[string]v1.Image{"": img}))
		blobs, err := filepath.Glob(filepath.Join(dir, "blobs/sha256/*"))
		if err != nil || len(blobs) != 4 {
			t.Fatal(blobs, err)
		}
		for _, b := range blobs {
			old, err := os.ReadFile(b)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range []int{0, len(old) / 2, len(old) - 1} {
				changed := bytes.Clone(old)
				changed[at] ^= 1
				if err := os.WriteFile(b, changed, 0o600); err != nil {
					t.Fatal(err)
				}
				s := store(t, Config{})
				if _, err := s.Load(t.Context(), dir, "x:1"); err == nil {
					t.Errorf("byte %d of %s may change", at, filepath.Base(b))
				}
				nothingLeft(t, s)
			}
			if err := os.WriteFile(b, old, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := store(t, Config{}).Load(t.Context(), dir, "x:1"); err != nil {
			t.Errorf("put right again: %v", err)
		}
	})
}

// serve is a registry on loopback; meddle may change its answers.
func serve(t *testing.T, meddle func(r *http.Request, body []byte) []byte) (address string) {
	t.Helper()
	real := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || meddle == nil {
			real.ServeHTTP(w, r)
			return
		}
		rec := httptest.NewRecorder()
		real.ServeHTTP(rec, r)
		body := meddle(r, rec.Body.Bytes())
		for k, v := range rec.Header() {
			if k != "Content-Length" {
				w.Header()[k] = v
			}
		}
		w.WriteHeader(rec.Code)
		if _, err := w.Write(body); err != nil {
			t.Log(err) // a client that has read enough
		}
	}))
	t.Cleanup(srv.Close)
	return strings.TrimPrefix(srv.URL, "http://")
}

func push(t *testing.T, reference string, what remote.Taggable) {
	t.Helper()
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	if img, ok := what.(v1.Image); ok {
		err = remote.Write(ref, img)
	} else {
		err = remote.WriteIndex(ref, what.(v1.ImageIndex))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnImageIsPulledFromARegistry(t *testing.T) {
	img := smallImage(t)
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	at := serve(t, nil)
	push(t, at+"/acme/tools:1", img)
	push(t, at+"/acme/tools:many", indexOf(t, map[string]v1.Image{goruntime.GOARCH: img, "s390x": imageOf(t, tarOf(t, e{name: "wrong"}))}))
	s := store(t, Config{})
	for _, ref := range []string{at + "/acme/tools:1", at + "/acme/tools:many", at + "/acme/tools@" + digest.String()} {
		i, err := s.Pull(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if i.Digest != digest.String() {
			t.Errorf("%s has digest %s", ref, i.Digest)
		}
		if diff := cmp.Diff(smallTree, tree(t, i.Root)); diff != "" {
			t.Error(diff)
		}
		if found, err := s.Find(ref); err != nil || found.Root != i.Root {
			t.Errorf("%s: found %q, %v", ref, found.Root, err)
		}
	}
	if _, err := s.Pull(t.Context(), at+"/acme/other:1"); nod.CodeOf(err) != nod.NotFound {
		t.Errorf("what is not there: %v", err)
	}
	if _, err := s.Pull(t.Context(), "not a reference"); nod.CodeOf(err) != nod.Invalid {
		t.Errorf("no reference: %v", err)
	}
	if _, err := s.Pull(t.Context(), "10.0.0.1/acme/tools:1"); nod.CodeOf(err) != nod.Forbidden {
		t.Errorf("in clear text over a network: %v", err)
	}
}

func TestARegistryThatLiesIsNotBelieved(t *testing.T) {
	for name, path := range map[string]string{"a blob": "/blobs/", "a manifest by digest": "/manifests/sha256:"} {
		t.Run(name, func(t *testing.T) {
			img := smallImage(t)
			digest, err := img.Digest()
			if err != nil {
				t.Fatal(err)
			}
			lie := false
			at := serve(t, func(r *http.Request, body []byte) []byte {
				if lie && strings.Contains(r.URL.Path, path) && len(body) > 0 {
					body = bytes.Clone(body)
					body[len(body)/2] ^= 1
				}
				return body
			})
			push(t, at+"/acme/tools:1", img)
			lie = true
			s := store(t, Config{})
			if _, err := s.Pull(t.Context(), at+"/acme/tools@"+digest.String()); err == nil {
				t.Error("it was taken")
			}
			nothingLeft(t, s)
		})
	}
}

const childRole = "NOD_TEST_IMAGE_CHILD"

func TestMain(m *testing.M) {
	if args := os.Getenv(childRole); args != "" {
		child(strings.Split(args, "|"))
	}
	os.Exit(m.Run())
}

// child unpacks an image from a pipe that never ends.
func child(args []string) {
	s, err := Open(Config{Dir: args[0]})
	if err != nil {
		log.Fatal(err)
	}
	_, err = s.keep(context.Background(), "x:1", args[1], nil, func(u *unpacker) error { return u.layer(os.Stdin) })
	log.Fatal(err)
}

// TestAKilledUnpackingLeavesNothing kills the process in the middle of a layer.
func TestAKilledUnpackingLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "images")
	digest := "sha256:" + nod.Digest([]byte("x"))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childRole+"="+dir+"|"+digest)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	layer := tarOf(t, e{name: "a", text: "x"}, e{name: "b", text: strings.Repeat("x", 100_000)})
	if _, err := in.Write(layer[:len(layer)-50_000]); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool {
		list, err := filepath.Glob(filepath.Join(dir, "unpack-*", "root", "b"))
		return err == nil && len(list) == 1
	})
	if _, err := Open(Config{Dir: dir}); nod.CodeOf(err) != nod.Conflict {
		t.Errorf("while another holds it: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	s := store(t, Config{Dir: dir})
	nothingLeft(t, s)
	if _, err := s.Find("x:1"); nod.CodeOf(err) != nod.NotFound {
		t.Errorf("half an image is found: %v", err)
	}
	if _, err := s.Load(t.Context(), write(t, "x.tar", layer), "x:1"); err != nil {
		t.Error(err)
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("it does not come")
		}
		<-time.After(5 * time.Millisecond)
	}
}
