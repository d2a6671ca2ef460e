package egress

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// extension is one TLS extension of a handmade ClientHello.
type extension struct {
	kind uint16
	data []byte
}

func sniOf(host string) extension {
	name := append([]byte{0}, vec(2, []byte(host))...)
	return extension{0, vec(2, name)}
}

func vec(size int, b []byte) []byte {
	n := make([]byte, 8)
	binary.BigEndian.PutUint64(n, uint64(len(b)))
	return append(n[8-size:], b...)
}

// handshake is a ClientHello message without record headers.
func handshake(exts ...extension) []byte {
	var all []byte
	for _, e := range exts {
		all = binary.BigEndian.AppendUint16(all, e.kind)
		all = append(all, vec(2, e.data)...)
	}
	body := append([]byte{3, 3}, bytes.Repeat([]byte{7}, 32)...)
	body = append(body, vec(1, bytes.Repeat([]byte{9}, 32))...)
	body = append(body, vec(2, []byte{0x13, 0x01})...)
	body = append(body, vec(1, []byte{0})...)
	body = append(body, vec(2, all)...)
	return append([]byte{1}, vec(3, body)...)
}

// records cuts msg into TLS records of at most size bytes.
func records(msg []byte, size int) []byte {
	var out []byte
	for len(msg) > 0 {
		n := min(size, len(msg))
		out = append(out, 22, 3, 1)
		out = append(out, vec(2, msg[:n])...)
		msg = msg[n:]
	}
	return out
}

func TestServerNameIsFoundWhereverItIs(t *testing.T) {
	name := sniOf("api.example.com")
	shares := extension{51, make([]byte, 1300)} // as large as a post-quantum key share
	for what, raw := range map[string][]byte{
		"plain":             records(handshake(name), recordCap),
		"past byte 1024":    records(handshake(shares, name), recordCap),
		"one byte a record": records(handshake(name), 1),
		"split in the name": records(handshake(name), 90),
		"large and split":   records(handshake(extension{21, make([]byte, 20000)}, name), 1000),
		"upper case":        records(handshake(sniOf("API.Example.com")), recordCap),
	} {
		got, sni, err := readHello(bytes.NewReader(append(raw, "next"...)))
		if err != nil || sni != "api.example.com" || !bytes.Equal(got, raw) {
			t.Errorf("%s: %q, %v, same bytes %v", what, sni, err, bytes.Equal(got, raw))
		}
	}
}

func TestWhatIsNoClientHelloIsRefused(t *testing.T) {
	name := sniOf("api.example.com")
	server := handshake(name)
	server[0] = 2
	long := handshake(name)
	long[1] = 1 // claims 64 KiB more
	trailing := append(handshake(name), 1, 0, 0, 0)
	bare := handshake()
	bare = append([]byte{1}, vec(3, bare[4:len(bare)-2])...) // no extension block
	other := extension{0, vec(2, append([]byte{1}, vec(2, []byte("api.example.com"))...))}
	pair := append([]byte{0}, vec(2, []byte("api.example.com"))...)
	pair = append(append(pair, 0), vec(2, []byte("evil.example"))...)
	for what, c := range map[string]struct {
		raw  []byte
		want error
	}{
		"http":                {[]byte("GET / HTTP/1.1\r\n\r\n"), errNotTLS},
		"second connect":      {[]byte("CONNECT api.example.com:443 HTTP/1.1\r\n\r\n"), errNotTLS},
		"ssh":                 {[]byte("SSH-2.0-OpenSSH_9\r\n"), errNotTLS},
		"ssl 2 hello":         {[]byte{0x80, 0x2e, 1, 3, 1, 0, 0x15, 0, 0, 0, 0x10}, errNotTLS},
		"alert":               {[]byte{21, 3, 1, 0, 2, 1, 0}, errNotTLS},
		"empty record":        {[]byte{22, 3, 1, 0, 0}, errNotTLS},
		"record over 16 KiB":  {[]byte{22, 3, 1, 0x40, 1}, errNotTLS},
		"server hello":        {records(server, recordCap), errNotTLS},
		"over 32 KiB":         {records(long, recordCap), errHelloSize},
		"many small records":  {records(handshake(extension{21, make([]byte, 8000)}, name), 1), errHelloSize},
		"second message":      {records(trailing, recordCap), errNotTLS},
		"no extensions":       {records(bare, recordCap), errNoSNI},
		"no name":             {records(handshake(extension{43, []byte{2, 3, 4}}), recordCap), errNoSNI},
		"empty name":          {records(handshake(sniOf("")), recordCap), errNoSNI},
		"two name extensions": {records(handshake(name, sniOf("evil.example")), recordCap), errNotTLS},
		"two names":           {records(handshake(extension{0, vec(2, pair)}), recordCap), errNotTLS},
		"other name type":     {records(handshake(other), recordCap), errNotTLS},
		"name list cut":       {records(handshake(extension{0, []byte{0, 9, 0}}), recordCap), errNotTLS},
		"cut":                 {records(handshake(name), recordCap)[:60], io.ErrUnexpectedEOF},
		"nothing":             {nil, io.EOF},
	} {
		if _, sni, err := readHello(bytes.NewReader(c.raw)); !errors.Is(err, c.want) || sni != "" {
			t.Errorf("%s: %q, %v; want %v", what, sni, err, c.want)
		}
	}
}

// sentHello is what crypto/tls sends first.
func sentHello(t testing.TB, c *tls.Config) []byte {
	t.Helper()
	a, b := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tls.Client(a, c).Handshake() // fails once b is closed
	}()
	raw, _, err := readHello(b)
	if err != nil {
		t.Fatal(err)
	}
	closeQuietly(b)
	<-done
	return raw
}

func TestRealClientHelloIsRead(t *testing.T) {
	for _, c := range []*tls.Config{
		{ServerName: "api.example.com"},
		{ServerName: "api.example.com", CurvePreferences: []tls.CurveID{tls.X25519MLKEM768}, NextProtos: []string{"h2", "http/1.1"}},
		{ServerName: "api.example.com", MaxVersion: tls.VersionTLS12},
	} {
		if _, sni, err := readHello(bytes.NewReader(sentHello(t, c))); err != nil || sni != "api.example.com" {
			t.Errorf("%q, %v", sni, err)
		}
	}
}

// seenBy is the server name that crypto/tls reads from raw, if it reads it at all.
func seenBy(t *testing.T, raw []byte) (name string, ok bool) {
	synctest.Test(t, func(t *testing.T) {
		a, b := net.Pipe()
		go func() {
			_, _ = a.Write(raw)
			_, _ = io.Copy(io.Discard, a)
		}()
		stop := errors.New("seen")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_ = tls.Server(b, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			name, ok = h.ServerName, true
			return nil, stop
		}}).HandshakeContext(ctx)
		closeQuietly(a)
		closeQuietly(b)
	})
	return name, ok
}

// FuzzHello: what is accepted is a prefix of the input, reads the same again, and
// a real TLS server that understands it sees the same name.
func FuzzHello(f *testing.F) {
	f.Add(records(handshake(sniOf("api.example.com")), recordCap))
	f.Add(records(handshake(extension{51, make([]byte, 1300)}, sniOf("API.example.com")), 100))
	f.Add(records(handshake(), 7))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add(sentHello(f, &tls.Config{ServerName: "api.example.com", NextProtos: []string{"h2"}}))
	f.Fuzz(func(t *testing.T, in []byte) {
		raw, sni, err := readHello(bytes.NewReader(in))
		if err != nil {
			if sni != "" {
				t.Fatalf("refused with a name %q", sni)
			}
			return
		}
		if !bytes.HasPrefix(in, raw) || len(raw) > helloCap || sni == "" {
			t.Fatalf("accepted %d bytes, name %q", len(raw), sni)
		}
		if _, again, err := readHello(bytes.NewReader(raw)); err != nil || again != sni {
			t.Fatalf("second reading: %q, %v", again, err)
		}
		if seen, ok := seenBy(t, raw); ok && !strings.EqualFold(seen, sni) {
			t.Fatalf("crypto/tls reads %q where the proxy reads %q", seen, sni)
		}
	})
}
