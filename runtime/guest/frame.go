package guest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"nod"
)

// Type is what a frame carries. Unknown types are an error of the peer.
type Type byte

const (
	// Between the driver and PID 1, one frame per packet.
	FrameBoot     Type = 1 // host: Boot as JSON
	FrameListener Type = 2 // guest: with the egress listener attached
	FrameGo       Type = 3 // host: limits are in place and the egress proxy serves; harden, look and serve
	FrameReady    Type = 4 // guest: Ready as JSON; serving execs
	FrameFailed   Type = 5 // guest: Failure as JSON
	FrameExec     Type = 6 // host: an exec's number, with the runner's socket attached
	FrameSweep    Type = 7 // host: kill that exec, its runner included, and what dead runners left
	FrameSwept    Type = 8 // guest: done, Swept as JSON

	// Between the driver and one runner, a stream.
	FrameCommand Type = 16 // host: Command as JSON, once, first
	FrameStarted Type = 17 // guest
	FrameStdin   Type = 18 // host: bytes, at most what credit allows
	FrameEOF     Type = 19 // host: end of stdin
	FrameCredit  Type = 20 // guest: four bytes, how much stdin was taken
	FrameStdout  Type = 21 // guest
	FrameStderr  Type = 22 // guest
	FrameKill    Type = 23 // host: end everything
	FrameExit    Type = 24 // guest: Exit as JSON, once, last
	FrameResize  Type = 25 // host: size of the terminal, rows and columns, two bytes each
)

const (
	frameVersion = 1
	headerSize   = 8
	// MaxData is the most that one frame of stdin, stdout or stderr carries.
	MaxData = 32 << 10
	// MaxReady is the most that a Ready takes, with what PID 1 saw in it.
	MaxReady = 12 << 10
	// MaxPayload is the most that any frame carries: a Command with its environment.
	MaxPayload = 2 << 20
	// Window is how much stdin may be on its way before credit comes back.
	Window = 256 << 10
)

var (
	errFrameVersion = errors.New("frame has another version or is garbage")
	errFrameLength  = errors.New("frame is longer than its type allows")
)

// limit is the longest payload of each type; types that are not here are refused.
func limit(t Type) (int, bool) {
	switch t {
	case FrameBoot, FrameCommand:
		return MaxPayload, true
	case FrameStdin, FrameStdout, FrameStderr:
		return MaxData, true
	case FrameReady:
		return MaxReady, true
	case FrameFailed, FrameSwept, FrameStarted, FrameExit:
		return 4096, true
	case FrameCredit, FrameResize:
		return 4, true
	case FrameExec, FrameSweep:
		return 8, true
	case FrameListener, FrameGo, FrameEOF, FrameKill:
		return 0, true
	}
	return 0, false
}

// AppendFrame appends one frame to b: 'n', version, type, a zero byte, four bytes
// of length (big-endian), payload.
func AppendFrame(b []byte, t Type, payload []byte) ([]byte, error) {
	n, ok := limit(t)
	if !ok {
		return b, fmt.Errorf("frame type %d is unknown", t)
	}
	if len(payload) > n {
		return b, errFrameLength
	}
	b = append(b, 'n', frameVersion, byte(t), 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	return append(b, payload...), nil
}

// AppendWindow appends the payload of a FrameResize.
func AppendWindow(b []byte, w nod.Window) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, w.Rows), w.Columns)
}

// WriteFrame writes one frame with one call of Write.
func WriteFrame(w io.Writer, t Type, payload []byte) error {
	b, err := AppendFrame(make([]byte, 0, headerSize+len(payload)), t, payload)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// ReadFrame reads one frame. io.EOF means that the stream ended between frames;
// every other error leaves the stream unusable.
func ReadFrame(r io.Reader) (Type, []byte, error) {
	var h [headerSize]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, nil, err
	}
	t, n, err := parseHeader(h)
	if err != nil {
		return 0, nil, err
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return t, payload, nil
}

// ParsePacket reads a packet that is exactly one frame.
func ParsePacket(p []byte) (Type, []byte, error) {
	if len(p) < headerSize {
		return 0, nil, errFrameVersion
	}
	t, n, err := parseHeader([headerSize]byte(p))
	if err != nil {
		return 0, nil, err
	}
	if len(p) != headerSize+n {
		return 0, nil, errFrameLength
	}
	return t, p[headerSize:], nil
}

func parseHeader(h [headerSize]byte) (Type, int, error) {
	if h[0] != 'n' || h[1] != frameVersion || h[3] != 0 {
		return 0, 0, errFrameVersion
	}
	t, size := Type(h[2]), binary.BigEndian.Uint32(h[4:])
	n, ok := limit(t)
	if !ok {
		return 0, 0, fmt.Errorf("frame type %d is unknown", t)
	}
	if uint64(size) > uint64(n) {
		return 0, 0, errFrameLength
	}
	return t, int(size), nil
}
