package guest

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"pgregory.net/rapid"
)

var everyType = []Type{
	FrameBoot, FrameListener, FrameGo, FrameReady, FrameFailed, FrameExec, FrameSweep, FrameSwept, FrameCommand, FrameStarted,
	FrameStdin, FrameEOF, FrameCredit, FrameStdout, FrameStderr, FrameKill, FrameExit,
}

func TestFramesReadBackAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream bytes.Buffer
		type frame struct {
			t Type
			p []byte
		}
		var sent []frame
		for range rapid.IntRange(1, 8).Draw(t, "count") {
			typ := rapid.SampledFrom(everyType).Draw(t, "type")
			max, _ := limit(typ)
			p := rapid.SliceOfN(rapid.Byte(), 0, min(max, 300)).Draw(t, "payload")
			if err := WriteFrame(&stream, typ, p); err != nil {
				t.Fatal(err)
			}
			sent = append(sent, frame{typ, p})
		}
		for _, f := range sent {
			typ, p, err := ReadFrame(&stream)
			if err != nil || typ != f.t || !bytes.Equal(p, f.p) {
				t.Fatalf("got %d %x %v, sent %d %x", typ, p, err, f.t, f.p)
			}
		}
		if _, _, err := ReadFrame(&stream); err != io.EOF {
			t.Fatalf("after the last frame: %v", err)
		}
	})
}

func TestFramesAreCapped(t *testing.T) {
	for _, typ := range everyType {
		max, ok := limit(typ)
		if !ok {
			t.Fatalf("type %d has no limit", typ)
		}
		if _, err := AppendFrame(nil, typ, make([]byte, max+1)); !errors.Is(err, errFrameLength) {
			t.Errorf("type %d with %d bytes: %v", typ, max+1, err)
		}
		if _, err := AppendFrame(nil, typ, make([]byte, max)); err != nil {
			t.Errorf("type %d with %d bytes: %v", typ, max, err)
		}
	}
	if _, err := AppendFrame(nil, 99, nil); err == nil {
		t.Error("an unknown type is written")
	}
	// The cap holds before anything is allocated.
	huge := []byte{'n', frameVersion, byte(FrameStdin), 0, 0xff, 0xff, 0xff, 0xff}
	if _, _, err := ReadFrame(bytes.NewReader(huge)); !errors.Is(err, errFrameLength) {
		t.Errorf("a frame of 4 GiB: %v", err)
	}
}

func FuzzReadFrame(f *testing.F) {
	for _, typ := range everyType {
		if b, err := AppendFrame(nil, typ, nil); err == nil {
			f.Add(b)
		}
	}
	f.Add([]byte("GET / HTTP/1.1\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		typ, p, err := ReadFrame(bytes.NewReader(b))
		ptyp, pp, perr := ParsePacket(b)
		if perr == nil && (err != nil || ptyp != typ || !bytes.Equal(pp, p)) {
			t.Fatalf("the packet is %d %x, the stream %d %x %v", ptyp, pp, typ, p, err)
		}
		if err != nil {
			return
		}
		again, err := AppendFrame(nil, typ, p)
		if err != nil || !bytes.HasPrefix(b, again) {
			t.Fatalf("%x reads as %d %x, which writes as %x, %v", b, typ, p, again, err)
		}
	})
}

func TestOnlyItsOwnRolesAreDispatched(t *testing.T) {
	for _, args := range [][]string{nil, {"nod-guest"}, {"nod", "init"}, {"/nod/guest", "scripted"}, {"nod-guest", "Init"}, {"nod-guest", ""}} {
		if Dispatch(args) {
			t.Errorf("%q was dispatched", args)
		}
	}
}
