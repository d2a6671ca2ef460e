package image

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"path/filepath"
	goruntime "runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"

	"nod"
)

// Load unpacks the image in the file or directory at from, which must be
// absolute, and names it reference. It takes an OCI image layout, as a directory
// or a tar; an archive of docker save; and a tar of a root file system. Any tar may
// be compressed by gzip or zstd. Of several images that for this machine is taken.
func (s *Store) Load(ctx context.Context, from, reference string) (Image, error) {
	if !filepath.IsAbs(from) {
		return Image{}, nod.E(nod.Invalid, "the image's archive must be an absolute path", nil)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	info, err := os.Stat(from)
	if err != nil {
		return Image{}, nod.E(nod.Invalid, "the image's archive cannot be read", err)
	}
	if info.IsDir() {
		return s.layout(ctx, from, reference)
	}
	switch kind, err := kindOf(from); {
	case err != nil:
		return Image{}, nod.E(nod.Invalid, "the image's archive cannot be read", err)
	case kind == "oci-layout":
		return s.archive(ctx, from, reference)
	case kind == "manifest.json":
		return s.saved(ctx, from, reference)
	}
	return s.plain(ctx, from, reference)
}

// kindOf looks for the file that tells an image's archive from a root file system.
func kindOf(from string) (kind string, err error) {
	r, err := open(from)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return kind, nil
		}
		if err != nil {
			return "", err
		}
		switch name := path.Clean(h.Name); name {
		case "oci-layout":
			return name, nil
		case "manifest.json":
			kind = name // docker save writes both, and then the other says more
		}
	}
}

// opened is a file behind its decompression.
type opened struct {
	io.Reader
	close []func() error
}

func (o *opened) Close() error {
	var err error
	for _, f := range o.close {
		err = errors.Join(err, f())
	}
	return err
}

func open(from string) (io.ReadCloser, error) {
	f, err := os.Open(from)
	if err != nil {
		return nil, err
	}
	r, done, err := decompress(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &opened{r, []func() error{done, f.Close}}, nil
}

// decompress tells by the first bytes how r is compressed.
func decompress(r io.Reader) (_ io.Reader, done func() error, err error) {
	b := bufio.NewReaderSize(r, 64<<10)
	none := func() error { return nil }
	first, err := b.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, none, err
	}
	switch {
	case bytes.HasPrefix(first, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, none, err
		}
		return z, z.Close, nil
	case bytes.Equal(first, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return nil, none, err
		}
		return z, func() error { z.Close(); return nil }, nil
	}
	return b, none, nil
}

// archive takes a tar of an OCI image layout: the layout is unpacked first, under
// the same rules as a layer.
func (s *Store) archive(ctx context.Context, from, reference string) (_ Image, err error) {
	dir, err := os.MkdirTemp(s.cfg.Dir, "unpack-")
	if err != nil {
		return Image{}, nod.E(nod.Internal, "no directory for the image", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r, err := open(from)
	if err != nil {
		return Image{}, nod.E(nod.Invalid, "the image's archive cannot be read", err)
	}
	at := filepath.Join(dir, "layout")
	u, err := newUnpacker(ctx, at, s.cfg.MaxBytes, s.cfg.MaxEntries)
	if err != nil {
		return Image{}, errors.Join(err, r.Close())
	}
	if err := errors.Join(u.layer(r), u.close(), r.Close()); err != nil {
		return Image{}, err
	}
	return s.layout(ctx, at, reference)
}

func (s *Store) layout(ctx context.Context, dir, reference string) (Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return Image{}, nod.E(nod.Invalid, "the directory is no OCI image layout", err)
	}
	img, want, err := choose(index, 0)
	if err != nil {
		return Image{}, err
	}
	return s.oci(ctx, img, want, reference)
}

// choose finds the one image of an index that this machine can run.
func choose(index v1.ImageIndex, depth int) (v1.Image, v1.Hash, error) {
	none := nod.E(nod.Unsupported, "the index has no image, or more than one, for linux on "+goruntime.GOARCH, nil)
	m, err := index.IndexManifest()
	if err != nil || depth > 4 {
		return nil, v1.Hash{}, nod.E(nod.Invalid, "the image's index cannot be read", err)
	}
	var fit []v1.Descriptor
	for _, d := range m.Manifests {
		if p := d.Platform; (p == nil || p.OS == "linux" && p.Architecture == goruntime.GOARCH) && (d.MediaType.IsImage() || d.MediaType.IsIndex()) {
			fit = append(fit, d)
		}
	}
	if len(fit) != 1 {
		return nil, v1.Hash{}, none
	}
	if fit[0].MediaType.IsIndex() {
		sub, err := index.ImageIndex(fit[0].Digest)
		if err != nil {
			return nil, v1.Hash{}, nod.E(nod.Invalid, "the image's index cannot be read", err)
		}
		raw, err := sub.RawManifest()
		if err != nil || !matches(raw, fit[0].Digest) {
			return nil, v1.Hash{}, nod.E(nod.Forbidden, "the image's index is not what its digest says", err)
		}
		return choose(sub, depth+1)
	}
	img, err := index.Image(fit[0].Digest)
	if err != nil {
		return nil, v1.Hash{}, nod.E(nod.Invalid, "the image's manifest cannot be read", err)
	}
	return img, fit[0].Digest, nil
}

func matches(b []byte, want v1.Hash) bool {
	sum := sha256.Sum256(b)
	return want.Algorithm == "sha256" && want.Hex == hex.EncodeToString(sum[:])
}

// oci unpacks an image whose manifest must have the digest want.
func (s *Store) oci(ctx context.Context, img v1.Image, want v1.Hash, reference string) (Image, error) {
	raw, err := img.RawManifest()
	if err != nil {
		return Image{}, transportError("the image's manifest cannot be read", err)
	}
	if !matches(raw, want) {
		return Image{}, nod.E(nod.Forbidden, "the image's manifest is not what its digest says", nil)
	}
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return Image{}, nod.E(nod.Invalid, "the image's manifest has another form", err)
	}
	rawConfig, err := img.RawConfigFile()
	if err != nil {
		return Image{}, transportError("the image's configuration cannot be read", err)
	}
	if !matches(rawConfig, m.Config.Digest) {
		return Image{}, nod.E(nod.Forbidden, "the image's configuration is not what its digest says", nil)
	}
	c, err := config(rawConfig, len(m.Layers))
	if err != nil {
		return Image{}, err
	}
	return s.keep(ctx, reference, want.String(), envOf(c), func(u *unpacker) error {
		for n, d := range m.Layers {
			if !d.MediaType.IsLayer() || !d.MediaType.IsDistributable() {
				return nod.E(nod.Unsupported, fmt.Sprintf("layer %d of the image has the unknown type %.100q", n+1, d.MediaType), nil)
			}
			l, err := img.LayerByDigest(d.Digest)
			if err != nil {
				return transportError(fmt.Sprintf("layer %d of the image cannot be read", n+1), err)
			}
			r, err := l.Compressed()
			if err != nil {
				return transportError(fmt.Sprintf("layer %d of the image cannot be read", n+1), err)
			}
			if err := errors.Join(lay(u, r, &d, c.RootFS.DiffIDs[n]), r.Close()); err != nil {
				return fmt.Errorf("layer %d: %w", n+1, err)
			}
		}
		return nil
	})
}

// config reads an image's configuration, refuses one for another machine, and
// makes sure that each of n layers has a digest of its content.
func config(raw []byte, n int) (*v1.ConfigFile, error) {
	c, err := v1.ParseConfigFile(bytes.NewReader(raw))
	switch {
	case err != nil:
		return nil, nod.E(nod.Invalid, "the image's configuration has another form", err)
	case c.OS != "" && c.OS != "linux", c.Architecture != "" && c.Architecture != goruntime.GOARCH:
		return nil, nod.E(nod.Unsupported, fmt.Sprintf("the image is for %.50q on %.50q", c.OS, c.Architecture), nil)
	case n > maxLayers:
		return nil, nod.E(nod.TooLarge, fmt.Sprintf("the image has more than %d layers", maxLayers), nil)
	case len(c.RootFS.DiffIDs) != n:
		return nil, nod.E(nod.Invalid, "the image's configuration and manifest differ in their layers", nil)
	}
	return c, nil
}

func envOf(c *v1.ConfigFile) []string {
	var out []string
	for _, e := range c.Config.Env {
		if k, v, ok := strings.Cut(e, "="); ok && k != "" && !strings.ContainsRune(k+v, 0) {
			out = append(out, e)
		}
	}
	return out
}

// counted hashes what is read of it.
type counted struct {
	r   io.Reader
	sum hash.Hash
	n   int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	c.sum.Write(b[:n])
	return n, err
}

func (c *counted) is(h v1.Hash) bool {
	return h.Algorithm == "sha256" && h.Hex == hex.EncodeToString(c.sum.Sum(nil))
}

// lay lays one layer, and only then knows whether it was the right one: the
// caller throws everything away on an error. packed, when not nil, describes r as
// it comes; diff is the digest of the tar in it.
func lay(u *unpacker, r io.Reader, packed *v1.Descriptor, diff v1.Hash) error {
	outer := &counted{r: r, sum: sha256.New()}
	if packed != nil {
		outer.r = io.LimitReader(r, packed.Size+1)
	}
	plain, done, err := decompress(outer)
	if err != nil {
		return errors.Join(nod.E(nod.Invalid, "it cannot be decompressed", err), done())
	}
	inner := &counted{r: plain, sum: sha256.New()}
	if err := errors.Join(u.layer(inner), done()); err != nil {
		return err
	}
	if !inner.is(diff) {
		return nod.E(nod.Forbidden, "its content is not what its digest says", nil)
	}
	if packed == nil {
		return nil
	}
	if _, err := io.Copy(io.Discard, outer); err != nil {
		return transportError("it cannot be read to its end", err)
	}
	if outer.n != packed.Size || !outer.is(packed.Digest) {
		return nod.E(nod.Forbidden, "it is not what its digest says", nil)
	}
	return nil
}

// saved takes an archive of docker save that is no OCI layout. It is named by its
// configuration, which holds the digest of each layer's content.
func (s *Store) saved(ctx context.Context, from, reference string) (Image, error) {
	img, err := tarball.Image(func() (io.ReadCloser, error) { return open(from) }, nil)
	if err != nil {
		return Image{}, nod.E(nod.Invalid, "the archive holds no image, or more than one", err)
	}
	raw, err := img.RawConfigFile()
	if err != nil {
		return Image{}, nod.E(nod.Invalid, "the image's configuration cannot be read", err)
	}
	var first struct {
		RootFS struct {
			DiffIDs []v1.Hash `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(raw, &first); err != nil {
		return Image{}, nod.E(nod.Invalid, "the image's configuration has another form", err)
	}
	layers, err := img.Layers()
	if err != nil {
		return Image{}, nod.E(nod.Invalid, "the image's layers cannot be read", err)
	}
	c, err := config(raw, len(layers))
	if err != nil {
		return Image{}, err
	}
	sum := sha256.Sum256(raw)
	return s.keep(ctx, reference, "sha256:"+hex.EncodeToString(sum[:]), envOf(c), func(u *unpacker) error {
		for n, l := range layers {
			r, err := l.Uncompressed()
			if err != nil {
				return nod.E(nod.Invalid, fmt.Sprintf("layer %d of the image cannot be read", n+1), err)
			}
			if err := errors.Join(lay(u, r, nil, c.RootFS.DiffIDs[n]), r.Close()); err != nil {
				return fmt.Errorf("layer %d: %w", n+1, err)
			}
		}
		return nil
	})
}

// plain takes a tar of a root file system, named by its own digest.
func (s *Store) plain(ctx context.Context, from, reference string) (Image, error) {
	r, err := open(from)
	if err != nil {
		return Image{}, nod.E(nod.Invalid, "the image's archive cannot be read", err)
	}
	sum := sha256.New()
	_, err = io.Copy(sum, r)
	if err = errors.Join(err, r.Close()); err != nil {
		return Image{}, nod.E(nod.Invalid, "the image's archive cannot be read", err)
	}
	digest := v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}
	return s.keep(ctx, reference, digest.String(), nil, func(u *unpacker) (err error) {
		r, err := open(from)
		if err != nil {
			return nod.E(nod.Invalid, "the image's archive cannot be read", err)
		}
		defer func() { err = errors.Join(err, r.Close()) }()
		return lay(u, r, nil, digest) // it may have changed since
	})
}
