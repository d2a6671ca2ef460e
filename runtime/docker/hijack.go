package docker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// hijack sends a request that turns its connection into the streams of a process.
func (e *engine) hijack(ctx context.Context, path string, body any) (*streams, error) {
	blob, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	conn, err := e.dial(ctx)
	if err != nil {
		return nil, err
	}
	s := &streams{conn: conn}
	stop := context.AfterFunc(ctx, s.Cut)
	if err := s.open(e.api+path, blob); err != nil {
		stop()
		_ = conn.Close() // the error says more
		return nil, err
	}
	if !stop() {
		_ = conn.Close() // as above
		return nil, ctx.Err()
	}
	return s, nil
}

func (s *streams) open(path string, body []byte) error {
	req, err := http.NewRequest("POST", "http://engine"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", "tcp")
	if err := req.Write(s.conn); err != nil {
		return err
	}
	s.r = bufio.NewReaderSize(s.conn, 64<<10)
	resp, err := http.ReadResponse(s.r, req)
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols || resp.StatusCode == http.StatusOK {
		return nil // what follows is no longer HTTP
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return err
	}
	return refusalOf(resp.StatusCode, text)
}

// streams is a process's stdin and stdout over one connection. The engine sends
// stdout and stderr in turns, each piece under a header of eight bytes; stderr,
// where the guest only speaks when something is wrong, is kept, cut.
type streams struct {
	conn net.Conn
	r    *bufio.Reader
	left uint32 // of the current piece of stdout

	mu   sync.Mutex
	said []byte
}

const maxSaid = 4 << 10

func (s *streams) Write(b []byte) (int, error) { return s.conn.Write(b) }
func (s *streams) Close() error                { return s.conn.Close() }

// Cut makes every Read and Write fail.
func (s *streams) Cut() { _ = s.conn.SetDeadline(time.Unix(1, 0)) } // only a closed connection refuses

func (s *streams) Read(b []byte) (int, error) {
	for s.left == 0 {
		var h [8]byte
		if _, err := io.ReadFull(s.r, h[:]); err != nil {
			return 0, err
		}
		size := binary.BigEndian.Uint32(h[4:])
		switch h[0] {
		case 1:
			s.left = size
		case 2:
			if err := s.keep(int64(size)); err != nil {
				return 0, err
			}
		default:
			return 0, fmt.Errorf("the engine sent a piece of stream %d", h[0])
		}
	}
	n, err := s.r.Read(b[:min(len(b), int(s.left))])
	s.left -= uint32(n)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // in the middle of a piece
	}
	return n, err
}

func (s *streams) keep(size int64) error {
	piece := bytes.Buffer{}
	if _, err := io.CopyN(&piece, s.r, min(size, maxSaid)); err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, s.r, size-min(size, maxSaid)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if room := maxSaid - len(s.said); room > 0 {
		s.said = append(s.said, piece.Bytes()[:min(room, piece.Len())]...)
	}
	return nil
}

// Said is what has come of stderr so far.
func (s *streams) Said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.said)
}
