package image

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"nod"
	"nod/runtime"
)

// Config is what a store needs.
type Config struct {
	// Dir is required: an absolute directory of this store alone, made with mode
	// 0700. One process at a time holds it.
	Dir string
	// MaxBytes is the most that the files of one image may hold together; 0 means 32 GiB.
	MaxBytes int64
	// MaxEntries is the most files, directories and links of one image; 0 means 2,000,000.
	MaxEntries int
	// Transport reaches registries; nil means one with time-outs of its own.
	Transport http.RoundTripper
	Log       *slog.Logger // nil discards
}

const (
	defaultBytes   = 32 << 30
	defaultEntries = 2_000_000
	maxLayers      = 256
)

// Image is one unpacked image.
type Image struct {
	// Digest is "sha256:" and the hex digest of what names the image: its manifest,
	// its configuration when it came as an archive of Docker's, the archive itself
	// when that is a root file system.
	Digest  string   `json:"digest"`
	Root    string   `json:"-"`             // absolute directory
	Env     []string `json:"env,omitempty"` // NAME=value, as the image asks for
	Bytes   int64    `json:"bytes"`         // of its files
	Entries int      `json:"entries"`
}

// Store keeps unpacked images. Its methods are safe for concurrent use. Make it
// with Open, end it with Close.
type Store struct {
	cfg  Config
	log  *slog.Logger
	lock *runtime.Held
	mu   sync.Mutex // one unpacking at a time
}

// Open opens the store and removes what a process that died had not finished. It
// returns Conflict when another process holds it.
func Open(c Config) (*Store, error) {
	if !filepath.IsAbs(c.Dir) {
		return nil, nod.E(nod.Invalid, "the image store's directory must be an absolute path", nil)
	}
	if c.MaxBytes < 0 || c.MaxEntries < 0 {
		return nil, nod.E(nod.Invalid, "a limit of images is negative", nil)
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = defaultBytes
	}
	if c.MaxEntries == 0 {
		c.MaxEntries = defaultEntries
	}
	if c.Transport == nil {
		c.Transport = newTransport()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{cfg: c, log: c.Log}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) open() error {
	for _, d := range []string{s.cfg.Dir, s.path("sha256"), s.path("refs")} {
		if err := errors.Join(os.MkdirAll(d, 0o700), os.Chmod(d, 0o700)); err != nil {
			return nod.E(nod.Internal, "the image store's directory cannot be made", err)
		}
	}
	var err error
	if s.lock, err = runtime.Hold(s.path("lock"), "the image store"); err != nil {
		return err
	}
	half, err := filepath.Glob(s.path("unpack-*"))
	if err != nil {
		return nod.E(nod.Internal, "the image store cannot be read", err)
	}
	for _, dir := range half {
		if err := os.RemoveAll(dir); err != nil {
			return nod.E(nod.Internal, "an image that was not finished cannot be removed", err)
		}
	}
	return nil
}

// Close lets the store go; the images stay.
func (s *Store) Close() error {
	return s.lock.Close()
}

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.cfg.Dir}, parts...)...)
}

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// Find returns the image that reference was pulled or loaded as, or NotFound.
func (s *Store) Find(reference string) (Image, error) {
	b, err := os.ReadFile(s.refFile(reference))
	if errors.Is(err, fs.ErrNotExist) {
		return Image{}, nod.E(nod.NotFound, "the image is not unpacked here", err)
	}
	if err != nil {
		return Image{}, nod.E(nod.Internal, "the image store cannot be read", err)
	}
	var r struct{ Reference, Digest string }
	if err := json.Unmarshal(b, &r); err != nil || r.Reference != reference {
		return Image{}, nod.E(nod.Internal, "the image store's entry has another form", err)
	}
	return s.load(r.Digest)
}

// load returns the complete image under digest, or NotFound.
func (s *Store) load(digest string) (Image, error) {
	if !digestForm.MatchString(digest) {
		return Image{}, nod.E(nod.Invalid, "this is no image digest", nil)
	}
	dir := s.path("sha256", strings.TrimPrefix(digest, "sha256:"))
	b, err := os.ReadFile(filepath.Join(dir, "image.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return Image{}, nod.E(nod.NotFound, "the image is not unpacked here", err)
	}
	if err != nil {
		return Image{}, nod.E(nod.Internal, "the image store cannot be read", err)
	}
	var i Image
	if err := json.Unmarshal(b, &i); err != nil || i.Digest != digest {
		return Image{}, nod.E(nod.Internal, "the image store's entry has another form", err)
	}
	i.Root = filepath.Join(dir, "root")
	return i, nil
}

func (s *Store) refFile(reference string) string {
	return s.path("refs", nod.Digest([]byte(reference)))
}

// name remembers what reference stands for.
func (s *Store) name(reference, digest string) error {
	b, err := json.Marshal(struct{ Reference, Digest string }{reference, digest})
	if err == nil {
		err = writeFile(s.refFile(reference), b)
	}
	if err != nil {
		return nod.E(nod.Internal, "the image's name cannot be kept", err)
	}
	return nil
}

// keep unpacks the image of digest by fill, unless it is there, and names it. The
// directory appears under its digest when all of it is on disk, or not at all.
func (s *Store) keep(ctx context.Context, reference, digest string, env []string, fill func(*unpacker) error) (Image, error) {
	i, err := s.load(digest)
	if nod.CodeOf(err) == nod.NotFound {
		i, err = s.unpack(ctx, digest, env, fill)
	}
	if err != nil {
		return Image{}, err
	}
	return i, s.name(reference, digest)
}

func (s *Store) unpack(ctx context.Context, digest string, env []string, fill func(*unpacker) error) (_ Image, err error) {
	dir, err := os.MkdirTemp(s.cfg.Dir, "unpack-")
	if err != nil {
		return Image{}, nod.E(nod.Internal, "no directory for the image", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	u, err := newUnpacker(ctx, filepath.Join(dir, "root"), s.cfg.MaxBytes, s.cfg.MaxEntries)
	if err != nil {
		return Image{}, err
	}
	if err := errors.Join(fill(u), u.close()); err != nil {
		return Image{}, err
	}
	i := Image{Digest: digest, Env: env, Bytes: u.bytes, Entries: u.entries}
	b, err := json.Marshal(i)
	if err != nil {
		return Image{}, nod.E(nod.Internal, "the image has no description", err)
	}
	to := s.path("sha256", strings.TrimPrefix(digest, "sha256:"))
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "image.json"), b, 0o600), settle(dir), os.Rename(dir, to), settle(filepath.Dir(to))); err != nil {
		return Image{}, nod.E(nod.Internal, "the image cannot be kept", err)
	}
	s.log.Info("image unpacked", "digest", digest, "bytes", i.Bytes, "entries", i.Entries)
	i.Root = filepath.Join(to, "root")
	return i, nil
}

// writeFile puts b at path, whole or not at all.
func writeFile(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
