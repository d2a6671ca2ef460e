package egress

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/netip"
	"regexp"
	"strings"
	"testing"
)

func TestOnlyAPlainConnectIsRead(t *testing.T) {
	good := target{"api.example.com", 443}
	const ok = "CONNECT api.example.com:443 HTTP/1.1\r\n"
	for _, c := range []struct {
		name string
		head string
		want target
		why  Reason
	}{
		{"bare", ok + "\r\n", good, ""},
		{"http 1.0", "CONNECT api.example.com:443 HTTP/1.0\r\n\r\n", good, ""},
		{"usual headers", ok + "Host: api.example.com:443\r\nUser-Agent: curl/8\r\nProxy-Connection: Keep-Alive\r\n\r\n", good, ""},
		{"host without port", ok + "host: API.example.com\r\n\r\n", good, ""},
		{"host with dot", ok + "Host: api.example.com.:443\r\n\r\n", good, ""},
		{"content length zero", ok + "Content-Length: 0\r\n\r\n", good, ""},

		{"get", "GET http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n", target{}, BadMethod},
		{"get origin form", "GET / HTTP/1.1\r\n\r\n", target{}, BadMethod},
		{"post", "POST api.example.com:443 HTTP/1.1\r\n\r\n", target{}, BadMethod},
		{"lower case", "connect api.example.com:443 HTTP/1.1\r\n\r\n", target{}, BadMethod},
		{"http 2 preface", "PRI * HTTP/2.0\r\n\r\n", target{}, BadMethod},
		{"http 0.9", "CONNECT api.example.com:443\r\n\r\n", target{}, BadRequest},
		{"http 2", "CONNECT api.example.com:443 HTTP/2\r\n\r\n", target{}, BadRequest},
		{"http 1.2", "CONNECT api.example.com:443 HTTP/1.2\r\n\r\n", target{}, BadRequest},
		{"two spaces", "CONNECT  api.example.com:443 HTTP/1.1\r\n\r\n", target{}, BadRequest},
		{"trailing space", "CONNECT api.example.com:443 HTTP/1.1 \r\n\r\n", target{}, BadRequest},
		{"tab", "CONNECT\tapi.example.com:443\tHTTP/1.1\r\n\r\n", target{}, BadRequest},
		{"space in authority", "CONNECT api.example.com:443 evil.example:443 HTTP/1.1\r\n\r\n", target{}, BadRequest},
		{"bare newlines", "CONNECT api.example.com:443 HTTP/1.1\n\n", target{}, BadRequest},
		{"one bare newline", ok + "X: y\nHost: evil.example:443\r\n\r\n", target{}, BadRequest},
		{"bare carriage return", ok + "X: y\rHost: evil.example:443\r\n\r\n", target{}, BadRequest},
		{"folded line", ok + "Host: api.example.com\r\n :443\r\n\r\n", target{}, BadRequest},
		{"space before colon", ok + "Host : api.example.com:443\r\n\r\n", target{}, BadRequest},
		{"no colon", ok + "nonsense\r\n\r\n", target{}, BadRequest},
		{"empty name", ok + ": x\r\n\r\n", target{}, BadRequest},
		{"nul in value", ok + "X: \x00\r\n\r\n", target{}, BadRequest},
		{"transfer encoding", ok + "Transfer-Encoding: chunked\r\n\r\n", target{}, BadRequest},
		{"content length", ok + "Content-Length: 5\r\n\r\n", target{}, BadRequest},
		{"empty", "\r\n", target{}, BadRequest},
		{"empty line first", "\r\n\r\n", target{}, BadRequest},
		{"no authority", "CONNECT  HTTP/1.1\r\n\r\n", target{}, BadAuthority},
		{"host differs", ok + "Host: evil.example:443\r\n\r\n", target{}, HostMismatch},
		{"host differs in port", ok + "Host: api.example.com:80\r\n\r\n", target{}, HostMismatch},
		{"host is garbage", ok + "Host: @\r\n\r\n", target{}, HostMismatch},
		{"empty host", ok + "Host:\r\n\r\n", target{}, HostMismatch},
		{"two hosts", ok + "Host: api.example.com:443\r\nHost: api.example.com:443\r\n\r\n", target{}, HostMismatch},
		{"address", "CONNECT 127.0.0.1:443 HTTP/1.1\r\n\r\n", target{}, IPLiteral},
		{"address and host", "CONNECT 127.0.0.1:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n", target{}, IPLiteral},
		{"absolute form", "CONNECT https://api.example.com:443 HTTP/1.1\r\n\r\n", target{}, BadAuthority},
	} {
		head, err := readHead(bufio.NewReaderSize(strings.NewReader(c.head), headCap))
		if err != nil {
			t.Errorf("%s: read head: %v", c.name, err)
			continue
		}
		if got, why := parseHead(head); got != c.want || why != c.why {
			t.Errorf("%s: parseHead = %v, %q; want %v, %q", c.name, got, why, c.want, c.why)
		}
	}
}

func TestHeadIsCappedAndNotReadPast(t *testing.T) {
	start := "CONNECT api.example.com:443 HTTP/1.1\r\nX: "
	fill := strings.Repeat("a", headCap-len(start)-len("\r\n\r\n"))
	r := bufio.NewReaderSize(strings.NewReader(start+fill+"\r\n\r\nrest"), headCap)
	if head, err := readHead(r); err != nil || len(head) != headCap {
		t.Errorf("a head of exactly the cap: %d bytes, %v", len(head), err)
	}
	if rest, err := io.ReadAll(r); err != nil || string(rest) != "rest" {
		t.Errorf("behind the head came %q, %v", rest, err)
	}
	for name, head := range map[string]string{
		"one byte over":  start + fill + "a\r\n\r\n",
		"one long line":  strings.Repeat("a", 3*headCap),
		"many lines":     strings.Repeat("X: y\r\n", headCap),
		"many CR":        strings.Repeat("\r", 2*headCap),
		"many newlines?": start + strings.Repeat("\r\nX: y", headCap),
	} {
		if _, err := readHead(bufio.NewReaderSize(strings.NewReader(head), headCap)); !errors.Is(err, errHeadTooLarge) {
			t.Errorf("%s: %v; want errHeadTooLarge", name, err)
		}
	}
	if _, err := readHead(bufio.NewReaderSize(strings.NewReader("CONNECT"), headCap)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a cut head: %v", err)
	}
}

var canonical = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// FuzzHead: whatever is accepted is a canonical name, no address in any
// spelling, and is written out in the head.
func FuzzHead(f *testing.F) {
	f.Add("CONNECT api.example.com:443 HTTP/1.1\r\nHost: api.example.com:443\r\n\r\n")
	f.Add("CONNECT [::1]:443 HTTP/1.1\r\n\r\n")
	f.Add("CONNECT 0x7f.1:443 HTTP/1.0\r\nHost: x\r\n y\r\n\r\n")
	f.Add("GET http://a/ HTTP/1.1\r\n\r\nCONNECT a.b:1 HTTP/1.1\r\n\r\n")
	f.Fuzz(func(t *testing.T, in string) {
		head, err := readHead(bufio.NewReaderSize(strings.NewReader(in), headCap))
		if err != nil {
			return
		}
		if len(head) > headCap || !strings.HasPrefix(in, head) {
			t.Fatalf("read %d bytes that are no prefix", len(head))
		}
		k, why := parseHead(head)
		if why != "" {
			if k != (target{}) {
				t.Fatalf("refused with a target %v", k)
			}
			return
		}
		if !canonical.MatchString(k.host) || len(k.host) > 253 || k.port == 0 {
			t.Fatalf("accepted %v", k)
		}
		if net.ParseIP(k.host) != nil {
			t.Fatalf("accepted address %q", k.host)
		}
		if _, err := netip.ParseAddr(k.host); err == nil {
			t.Fatalf("accepted address %q", k.host)
		}
		if !strings.HasPrefix(lower(head), "connect "+k.host) {
			t.Fatalf("%q does not ask for %q", head, k.host)
		}
	})
}
