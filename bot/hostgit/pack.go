package hostgit

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"io"

	"nod"
)

// scanPack reads a whole pack and adds up what it would inflate to, so that a pack
// that is cut short, malformed or a bomb is refused before git sees it. Contents
// are not judged here. size is that of the whole bundle. The format is git's
// gitformat-pack(5).
func scanPack(ctx context.Context, r *bufio.Reader, size int64, l Limits) error {
	var head [12]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return readError(err)
	}
	if !bytes.Equal(head[:8], []byte("PACK\x00\x00\x00\x02")) {
		return refuse("it holds no version 2 pack", nil)
	}
	objects := int64(binary.BigEndian.Uint32(head[8:]))
	if objects > l.AddedEntries+2*int64(l.Commits) {
		return tooBig("it holds more objects than its limits can need")
	}
	s := packScan{r: r, left: l.AddedBytes, blob: l.BlobBytes, data: max(ratioFrom, size*maxRatio)}
	for range objects {
		if err := ctx.Err(); err != nil {
			return nod.E(nod.Unavailable, "checking the bundle took too long", err)
		}
		if err := s.object(); err != nil {
			return err
		}
	}
	var sum [20]byte
	if _, err := io.ReadFull(r, sum[:]); err != nil {
		return readError(err)
	}
	if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
		return refuse("something follows its pack", err)
	}
	return nil
}

type packScan struct {
	r    *bufio.Reader
	z    io.ReadCloser
	left int64 // bytes of objects that may still come
	data int64 // bytes that may still be inflated to see them
	blob int64
}

// Deflate can make a thousand bytes of one. Real work of any size is far below a
// hundred, and a quarter of a GiB is scanned in no time.
const (
	ratioFrom = 256 << 20
	maxRatio  = 100
)

const (
	ofsDelta = 6
	refDelta = 7
)

// object reads one object: type and size, what a delta builds on, data.
func (s *packScan) object() error {
	c, err := s.r.ReadByte()
	if err != nil {
		return readError(err)
	}
	kind, size, shift := c>>4&7, int64(c&15), 4
	for c&0x80 != 0 {
		if c, err = s.r.ReadByte(); err != nil {
			return readError(err)
		}
		if shift > 50 {
			return refuse("an object's size is malformed", nil)
		}
		size |= int64(c&0x7f) << shift
		shift += 7
	}
	switch kind {
	case 1, 2, 3, 4:
	case ofsDelta:
		for c = 0x80; c&0x80 != 0; {
			if c, err = s.r.ReadByte(); err != nil {
				return readError(err)
			}
		}
	case refDelta:
		if _, err := s.r.Discard(20); err != nil {
			return readError(err)
		}
	default:
		return refuse("an object is of no known type", nil)
	}
	if err := s.spend(size); err != nil {
		return err
	}
	if s.data -= size; s.data < 0 {
		return tooBig("it would inflate more than a hundredfold")
	}
	if s.z == nil {
		s.z, err = zlib.NewReader(s.r)
	} else {
		err = s.z.(zlib.Resetter).Reset(s.r, nil)
	}
	if err != nil {
		return readError(err)
	}
	if kind == ofsDelta || kind == refDelta {
		return s.delta(size)
	}
	return s.skip(size)
}

// delta reads how large the object is that the delta makes, then the rest of it.
func (s *packScan) delta(size int64) error {
	lead := make([]byte, min(size, 20))
	if _, err := io.ReadFull(s.z, lead); err != nil {
		return readError(err)
	}
	_, n := binary.Uvarint(lead)
	if n <= 0 {
		return refuse("a delta is malformed", nil)
	}
	made, n := binary.Uvarint(lead[n:])
	if n <= 0 {
		return refuse("a delta is malformed", nil)
	}
	if err := s.spend(int64(min(made, 1<<62))); err != nil {
		return err
	}
	return s.skip(size - int64(len(lead)))
}

func (s *packScan) spend(n int64) error {
	if n > s.blob {
		return tooBig("one of its objects is over the size that one file may have")
	}
	if s.left -= n; s.left < 0 {
		return tooBig("it would inflate beyond what new commits may add")
	}
	return nil
}

// skip inflates exactly n more bytes and expects the end of the object's data.
func (s *packScan) skip(n int64) error {
	got, err := io.Copy(io.Discard, io.LimitReader(s.z, n+1))
	if err != nil {
		return readError(err)
	}
	if got != n {
		return refuse("an object is not of the size it says", nil)
	}
	return nil
}

// readError tells a bundle that ends too early from one that is broken.
func readError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return refuse("it is cut short", err)
	}
	return refuse("its pack is corrupt", err)
}
