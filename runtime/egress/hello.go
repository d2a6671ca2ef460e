package egress

import (
	"encoding/binary"
	"errors"
	"io"
)

const (
	// helloCap is how many bytes may come before a ClientHello is complete, record
	// headers included.
	helloCap = 32 << 10
	// recordCap is the longest plaintext fragment (RFC 8446, section 5.1).
	recordCap = 16 << 10
)

var (
	errNotTLS    = errors.New("stream does not begin with a TLS ClientHello")
	errHelloSize = errors.New("clienthello is over 32 KiB")
	errNoSNI     = errors.New("clienthello names no server")
)

// readHello reads one ClientHello, over as many records as it takes, and returns
// the bytes as they came and the server name in lower case.
func readHello(r io.Reader) (raw []byte, sni string, err error) {
	var msg []byte
	for need := 4; len(msg) < need; {
		var header [5]byte
		if _, err := io.ReadFull(r, header[:]); err != nil {
			return nil, "", err
		}
		size := int(binary.BigEndian.Uint16(header[3:]))
		if header[0] != 22 || header[1] != 3 || size == 0 || size > recordCap {
			return nil, "", errNotTLS
		}
		if len(raw)+len(header)+size > helloCap {
			return nil, "", errHelloSize
		}
		raw = append(raw, header[:]...)
		at := len(raw)
		raw = append(raw, make([]byte, size)...)
		if _, err := io.ReadFull(r, raw[at:]); err != nil {
			return nil, "", err
		}
		msg = append(msg, raw[at:]...)
		if msg[0] != 1 {
			return nil, "", errNotTLS
		}
		if len(msg) >= 4 {
			need = 4 + int(msg[1])<<16 + int(msg[2])<<8 + int(msg[3])
		}
		if need > helloCap {
			return nil, "", errHelloSize
		}
		if len(msg) > need {
			return nil, "", errNotTLS // a second message before the server spoke
		}
	}
	sni, err = serverName(msg[4:])
	return raw, sni, err
}

// serverName finds the one host_name of a ClientHello body (RFC 8446, section
// 4.1.2; RFC 6066, section 3).
func serverName(body []byte) (string, error) {
	b := fields{rest: body}
	b.skip(2 + 32) // legacy_version, random
	b.vector(1)    // legacy_session_id
	b.vector(2)    // cipher_suites
	b.vector(1)    // legacy_compression_methods
	if b.ok() && len(b.rest) == 0 {
		return "", errNoSNI // no extensions at all, as before TLS 1.2
	}
	extensions := fields{rest: b.vector(2)}
	if !b.ok() || len(b.rest) != 0 {
		return "", errNotTLS
	}
	name, seen := "", false
	for len(extensions.rest) > 0 {
		kind := extensions.number(2)
		data := extensions.vector(2)
		if !extensions.ok() {
			return "", errNotTLS
		}
		if kind != 0 {
			continue
		}
		if seen {
			return "", errNotTLS
		}
		seen = true
		outer := fields{rest: data}
		list := fields{rest: outer.vector(2)}
		kindOfName := list.number(1)
		host := list.vector(2)
		if !outer.ok() || !list.ok() || len(outer.rest) != 0 || len(list.rest) != 0 || kindOfName != 0 {
			return "", errNotTLS
		}
		name = lower(string(host))
	}
	if name == "" {
		return "", errNoSNI
	}
	return name, nil
}

// fields reads length-prefixed fields. After the first short read everything is
// empty and ok is false.
type fields struct {
	rest  []byte
	short bool
}

func (f *fields) ok() bool { return !f.short }

func (f *fields) skip(n int) []byte {
	if f.short || n > len(f.rest) {
		f.short, f.rest = true, nil
		return nil
	}
	head := f.rest[:n]
	f.rest = f.rest[n:]
	return head
}

// number reads a big-endian number of size bytes, at most 3.
func (f *fields) number(size int) int {
	n := 0
	for _, c := range f.skip(size) {
		n = n<<8 | int(c)
	}
	return n
}

// vector reads a length of size bytes and that many bytes.
func (f *fields) vector(size int) []byte { return f.skip(f.number(size)) }
