package agent

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// LineCap is how many bytes one line of an agent may have. A 3 MB file written in
// one call is a 3 MB line; what is longer cannot be told from a lost permission
// request.
const LineCap = 16 << 20

// ErrLineTooLong says that a line has more than LineCap bytes.
var ErrLineTooLong = errors.New("a line is over 16 MiB")

// Lines reads newline-ended lines of at most LineCap bytes.
type Lines struct {
	r   *bufio.Reader
	buf []byte
}

// NewLines reads from r.
func NewLines(r io.Reader) *Lines { return &Lines{r: bufio.NewReaderSize(r, 64<<10)} }

// Next returns the next line without its end, io.EOF after the last one, or
// ErrLineTooLong. The slice is valid until the next call.
func (l *Lines) Next() ([]byte, error) {
	if cap(l.buf) > 1<<20 {
		l.buf = nil // one large line must not be paid for until the end
	}
	l.buf = l.buf[:0]
	for {
		part, err := l.r.ReadSlice('\n')
		if err == nil && len(l.buf) == 0 {
			return bytes.TrimRight(part, "\r\n"), nil
		}
		if len(l.buf)+len(part) > LineCap {
			return nil, ErrLineTooLong
		}
		l.buf = append(l.buf, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err == nil, errors.Is(err, io.EOF) && len(l.buf) > 0:
			return bytes.TrimRight(l.buf, "\r\n"), nil
		default:
			return nil, err
		}
	}
}
