package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"nod"
)

// e is one entry of a layer; zero values are sensible.
type e struct {
	name, to, text string
	kind           byte // default a file, or a directory for a name with a slash at its end
	mode           int64
	xattr          map[string]string
}

func tarOf(t testing.TB, entries ...e) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, x := range entries {
		h := &tar.Header{Name: x.name, Linkname: x.to, Typeflag: x.kind, Mode: x.mode, Size: int64(len(x.text)), PAXRecords: x.xattr}
		if x.xattr != nil {
			h.Format = tar.FormatPAX
		}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
			if strings.HasSuffix(x.name, "/") {
				h.Typeflag = tar.TypeDir
			}
		}
		if h.Mode == 0 {
			h.Mode = 0o644
			if h.Typeflag == tar.TypeDir {
				h.Mode = 0o755
			}
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, x.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func layerOf(t testing.TB, b []byte) v1.Layer {
	t.Helper()
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// imageOf is an image with these layers.
func imageOf(t testing.TB, layers ...[]byte) v1.Image {
	t.Helper()
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, b := range layers {
		var err error
		if img, err = mutate.AppendLayers(img, layerOf(t, b)); err != nil {
			t.Fatal(err)
		}
	}
	img, err := mutate.Config(img, v1.Config{Env: []string{"PATH=/opt/tool/bin:/usr/bin", "LANG=C", "broken"}})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func store(t testing.TB, c Config) *Store {
	t.Helper()
	if c.Dir == "" {
		c.Dir = filepath.Join(t.TempDir(), "images")
	}
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// tree lists a root: path → mode and content or target.
func tree(t testing.TB, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		switch {
		case info.Mode().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			out[rel] = info.Mode().String() + " " + string(b)
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(p)
			if err != nil {
				return err
			}
			out[rel] = "→ " + to
		default:
			out[rel] = info.Mode().String()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func write(t testing.TB, name string, b []byte) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(p, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return p
}

// unpackInto lays layers over each other and returns the tree.
func unpackInto(t testing.TB, layers ...[]byte) (map[string]string, error) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	u, err := newUnpacker(context.Background(), root, 1<<20, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range layers {
		if err = u.layer(bytes.NewReader(b)); err != nil {
			break
		}
	}
	return tree(t, root), errors.Join(err, u.close())
}

func TestLayersLieOverEachOther(t *testing.T) {
	got, err := unpackInto(t,
		tarOf(t, e{name: "./"}, e{name: "usr/"}, e{name: "usr/bin/"}, e{name: "bin", to: "usr/bin", kind: tar.TypeSymlink}, e{name: "lib", to: "/usr/lib", kind: tar.TypeSymlink},
			e{name: "usr/bin/a", text: "1", mode: 0o755}, e{name: "etc/keep", text: "k"}, e{name: "etc/gone", text: "g"}, e{name: "etc/d/x", text: "x"},
			e{name: "opq/old", text: "o"}, e{name: "opq/sub/old", text: "o"}, e{name: "was-dir/x", text: "x"}, e{name: "was-file", text: "f"}, e{name: "tmp/", mode: 0o1777}),
		tarOf(t, e{name: "etc/.wh.gone"}, e{name: "etc/.wh.d"}, e{name: "bin/b", text: "2"}, e{name: "lib/c", text: "3"}, e{name: "usr/bin/a2", to: "usr/bin/a", kind: tar.TypeLink},
			e{name: "opq/sub/new", text: "n"}, e{name: "opq/.wh..wh..opq"}, e{name: "opq/new", text: "n"}, e{name: ".wh..wh.plnk"},
			e{name: "was-dir", text: "f"}, e{name: "was-file/"}, e{name: "was-file/x", text: "x"}),
	)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"usr": "drwxr-xr-x", "usr/bin": "drwxr-xr-x", "bin": "→ usr/bin", "lib": "→ /usr/lib", "usr/lib": "drwxr-xr-x", "usr/lib/c": "-rw-r--r-- 3",
		"usr/bin/a": "-rwxr-xr-x 1", "usr/bin/a2": "-rwxr-xr-x 1", "usr/bin/b": "-rw-r--r-- 2", "etc": "drwxr-xr-x", "etc/keep": "-rw-r--r-- k",
		"opq": "drwxr-xr-x", "opq/sub": "drwxr-xr-x", "opq/sub/new": "-rw-r--r-- n", "opq/new": "-rw-r--r-- n",
		"was-dir": "-rw-r--r-- f", "was-file": "drwxr-xr-x", "was-file/x": "-rw-r--r-- x", "tmp": "dtrwxrwxrwx",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSetIDBitsAndCapabilitiesAreNotTaken(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	u, err := newUnpacker(t.Context(), root, 1<<20, 1000)
	if err != nil {
		t.Fatal(err)
	}
	err = u.layer(bytes.NewReader(tarOf(t, e{name: "su", text: "x", mode: 0o6755}, e{name: "d/", mode: 0o2775},
		e{name: "ping", text: "x", mode: 0o755, xattr: map[string]string{"SCHILY.xattr.security.capability": "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"}})))
	if err := errors.Join(err, u.close()); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"su": "-rwxr-xr-x x", "ping": "-rwxr-xr-x x", "d": "drwxrwxr-x"}
	if diff := cmp.Diff(want, tree(t, root)); diff != "" {
		t.Error(diff)
	}
	if n := xattrs(t, filepath.Join(root, "ping")); n != 0 {
		t.Errorf("the file has %d bytes of extended attributes", n)
	}
}

func TestWhatWouldLeaveTheImageIsRefused(t *testing.T) {
	outside := write(t, "canary", []byte("safe"))
	up := strings.Repeat("../", 30) + strings.TrimPrefix(outside, "/")
	link := func(name, to string) e { return e{name: name, to: to, kind: tar.TypeSymlink} }
	for name, entries := range map[string][]e{
		"absolute path":                   {{name: outside, text: "x"}},
		"parent":                          {{name: "a/../../x", text: "x"}},
		"parent alone":                    {{name: "..", text: "x"}},
		"root replaced":                   {{name: "./", to: "/etc", kind: tar.TypeSymlink}},
		"link above the root":             {link("a/b", "../../etc/passwd")},
		"link far above":                  {link("x", up)},
		"absolute link above":             {link("x", "/../../etc")},
		"link with a detour":              {link("x", "a/../../../etc")},
		"empty link":                      {link("x", "")},
		"hard link above":                 {{name: "x", to: up, kind: tar.TypeLink}},
		"absolute hard link":              {{name: "x", to: outside, kind: tar.TypeLink}},
		"hard link to a directory":        {{name: "d/"}, {name: "x", to: "d", kind: tar.TypeLink}},
		"hard link to nothing":            {{name: "x", to: "y", kind: tar.TypeLink}},
		"hard link to the root":           {{name: "x", to: ".", kind: tar.TypeLink}},
		"character device":                {{name: "null", kind: tar.TypeChar}},
		"block device":                    {{name: "etc/sda", kind: tar.TypeBlock}},
		"pipe":                            {{name: "pipe", kind: tar.TypeFifo}},
		"whiteout of the parent":          {{name: "d/.wh..."}},
		"whiteout of the parent outright": {{name: "d/.wh..", text: ""}},
		"unknown type":                    {{name: "x", kind: 'Z'}},
		"links in a circle":               {link("a", "b"), link("b", "a"), {name: "a/x", text: "x"}},
		"file on the way":                 {{name: "a", text: "x"}, {name: "a/b", text: "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := unpackInto(t, tarOf(t, entries...)); err == nil {
				t.Error("it was unpacked")
			} else if c := nod.CodeOf(err); c != nod.Forbidden && c != nod.Invalid {
				t.Errorf("refused as %s: %v", c, err)
			}
		})
	}
	if b, err := os.ReadFile(outside); err != nil || string(b) != "safe" {
		t.Errorf("a file outside now holds %q, %v", b, err)
	}
}

// TestLinksLeadNowhereElse has a link into the host's tree, which inside the image is
// its own, and then writes through it.
func TestLinksLeadNowhereElse(t *testing.T) {
	host := t.TempDir()
	got, err := unpackInto(t, tarOf(t, e{name: "way", to: host, kind: tar.TypeSymlink}, e{name: "way/f", text: "x"}, e{name: "way/.wh.g"}, e{name: "h", to: "way/f", kind: tar.TypeLink}))
	if err != nil {
		t.Fatal(err)
	}
	if list, err := os.ReadDir(host); err != nil || len(list) != 0 {
		t.Errorf("on the host: %v, %v", list, err)
	}
	if in := got[strings.TrimPrefix(host, "/")+"/f"]; in != "-rw-r--r-- x" || got["h"] != in {
		t.Errorf("in the image: %v", got)
	}
}

func TestDevicesThatEnvironmentsHaveThemselvesAreLeftOut(t *testing.T) {
	got, err := unpackInto(t, tarOf(t, e{name: "dev/"}, e{name: "dev/null", kind: tar.TypeChar}, e{name: "run/initctl", kind: tar.TypeFifo}))
	if diff := cmp.Diff(map[string]string{"dev": "drwxr-xr-x"}, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

func TestAnImageHasABoundedSize(t *testing.T) {
	var many []e
	for i := range 40 {
		many = append(many, e{name: strings.Repeat("d/", i) + "f"})
	}
	for name, b := range map[string][]byte{
		"one file":    tarOf(t, e{name: "a", text: strings.Repeat("x", 5000)}),
		"two files":   tarOf(t, e{name: "a", text: strings.Repeat("x", 3000)}, e{name: "b", text: strings.Repeat("x", 3000)}),
		"entries":     tarOf(t, many...),
		"the padding": append(tarOf(t, e{name: "a"}), make([]byte, 1<<20)...),
	} {
		t.Run(name, func(t *testing.T) {
			s := store(t, Config{MaxBytes: 4096, MaxEntries: 60})
			_, err := s.Load(t.Context(), write(t, "x.tar.gz", gzipped(t, b)), "x:1")
			if nod.CodeOf(err) != nod.TooLarge {
				t.Errorf("got %v", err)
			}
			nothingLeft(t, s)
		})
	}
}

// nothingLeft fails when the store holds anything of an image.
func nothingLeft(t *testing.T, s *Store) {
	t.Helper()
	for _, pattern := range []string{"unpack-*", "sha256/*", "refs/*"} {
		if list, err := filepath.Glob(s.path(pattern)); err != nil || len(list) != 0 {
			t.Errorf("left behind: %v, %v", list, err)
		}
	}
}

func TestAFileThatIsHardLinkedIsOneFile(t *testing.T) {
	s := store(t, Config{})
	i, err := s.Load(t.Context(), write(t, "x.tar", tarOf(t, e{name: "a", text: "x"}, e{name: "b", to: "a", kind: tar.TypeLink})), "x:1")
	if err != nil {
		t.Fatal(err)
	}
	a, err := os.Stat(filepath.Join(i.Root, "a"))
	b, err2 := os.Stat(filepath.Join(i.Root, "b"))
	if err != nil || err2 != nil || !os.SameFile(a, b) {
		t.Error("two files", err, err2)
	}
}

// lying is a layer that says another's digest, or comes short.
func lying(t *testing.T, what string) v1.Image {
	t.Helper()
	img := imageOf(t, tarOf(t, e{name: "a", text: "right"}))
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := layers[0].Digest()
	if err != nil {
		t.Fatal(err)
	}
	return lies{img, what, digest, t}
}

type lies struct {
	v1.Image
	what  string
	layer v1.Hash
	t     *testing.T
}

func (l lies) LayerByDigest(h v1.Hash) (v1.Layer, error) {
	right, err := l.Image.LayerByDigest(h)
	if err != nil || h != l.layer {
		return right, err
	}
	r, err := right.Compressed()
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	switch l.what {
	case "other content":
		b = gzipped(l.t, tarOf(l.t, e{name: "a", text: "wrong"}))
	case "short":
		b = b[:len(b)-1]
	case "long":
		b = append(b, 0)
	case "other compression":
		b = tarOf(l.t, e{name: "a", text: "right"})
	}
	return static.NewLayer(b, types.OCILayer), nil
}

func (l lies) RawConfigFile() ([]byte, error) {
	b, err := l.Image.RawConfigFile()
	if l.what == "configuration" {
		b = append(slices.Clone(b), ' ')
	}
	return b, err
}

func (l lies) RawManifest() ([]byte, error) {
	b, err := l.Image.RawManifest()
	if l.what == "manifest" {
		b = append(slices.Clone(b), ' ')
	}
	return b, err
}

func TestEveryByteIsHeldAgainstItsDigest(t *testing.T) {
	for _, what := range []string{"", "other content", "short", "long", "other compression", "configuration", "manifest"} {
		t.Run("lies about "+what, func(t *testing.T) {
			s := store(t, Config{})
			img := lying(t, what)
			want, err := img.Digest()
			if err != nil {
				t.Fatal(err)
			}
			_, err = s.oci(t.Context(), img, want, "x:1")
			switch {
			case what == "" && err != nil:
				t.Error("the truth is refused:", err)
			case what != "" && err == nil:
				t.Error("it was taken")
			case what != "":
				nothingLeft(t, s)
			}
		})
	}
}

func FuzzLayer(f *testing.F) {
	f.Add(tarOf(f, e{name: "a/", mode: 0o700}, e{name: "a/b", to: "../c", kind: tar.TypeSymlink}, e{name: "a/b/.wh.x"}, e{name: "l", to: "a/b", kind: tar.TypeLink}))
	f.Add(tarOf(f, e{name: "../x", text: "x"}))
	f.Add(tarOf(f, e{name: "x", to: "/tmp", kind: tar.TypeSymlink}, e{name: "x/y", text: "z"}, e{name: "x/.wh..wh..opq"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		top := t.TempDir()
		if err := os.WriteFile(filepath.Join(top, "canary"), []byte("safe"), 0o600); err != nil {
			t.Fatal(err)
		}
		u, err := newUnpacker(t.Context(), filepath.Join(top, "root"), 1<<16, 100)
		if err != nil {
			t.Fatal(err)
		}
		_ = u.layer(bytes.NewReader(b)) // an error is as good
		if err := u.close(); err != nil {
			t.Fatal(err)
		}
		list, err := os.ReadDir(top)
		if err != nil || len(list) != 2 {
			t.Fatalf("beside the root: %v, %v", list, err)
		}
		if b, err := os.ReadFile(filepath.Join(top, "canary")); err != nil || string(b) != "safe" {
			t.Fatalf("outside: %q, %v", b, err)
		}
		err = filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.Type()&^(fs.ModeDir|fs.ModeSymlink) != 0 {
				t.Errorf("%s is %v", p, d.Type())
			}
			if info, ierr := d.Info(); ierr == nil && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
				t.Errorf("%s is %v", p, info.Mode())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
