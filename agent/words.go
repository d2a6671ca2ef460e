package agent

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"
)

// Clean is the start of s, at most n bytes, with nothing that moves a cursor.
func Clean(s string, n int) string {
	out := []rune{}
	for i, r := range s {
		if i >= n {
			break
		}
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			r = ' '
		}
		out = append(out, r)
	}
	return string(out)
}

// IsUUID reports whether s has the form of a UUID, so that as a session id it
// cannot be anything else on a command line or in a path.
func IsUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i, r := range s {
		switch {
		case i == 8 || i == 13 || i == 18 || i == 23:
			if r != '-' {
				return false
			}
		case !strings.ContainsRune("0123456789abcdefABCDEF", r):
			return false
		}
	}
	return true
}

// IsVersion reports whether s begins with three numbers, as in "2.1.332-suffix".
func IsVersion(s string) bool {
	_, ok := version(s)
	return ok
}

// AtLeast reports whether have is a version not older than floor.
func AtLeast(have, floor string) bool {
	h, ok := version(have)
	f, ok2 := version(floor)
	return ok && ok2 && slices.Compare(h[:], f[:]) >= 0
}

func version(s string) ([3]int, bool) {
	var v [3]int
	core, _, _ := strings.Cut(s, "-")
	core, _, _ = strings.Cut(core, " ")
	parts := strings.Split(core, ".")
	if len(parts) != 3 {
		return v, false
	}
	for i, p := range parts {
		if len(p) == 0 || len(p) > 6 {
			return v, false
		}
		for _, r := range p {
			if r < '0' || r > '9' {
				return v, false
			}
			v[i] = v[i]*10 + int(r-'0')
		}
	}
	return v, true
}

// tail keeps the last max bytes written to it.
type tail struct {
	mu  sync.Mutex
	max int
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.max; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}

// lastLine is the last line of what the program wrote to stderr, for the log.
func lastLine(said string) error {
	if said == "" {
		return nil
	}
	return errors.New(Clean(said[strings.LastIndexByte(said, '\n')+1:], 200))
}
