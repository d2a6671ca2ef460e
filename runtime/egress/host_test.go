package egress

import (
	"strings"
	"testing"
)

// TestOnlyOneSpellingOfANameIsTaken is the grammar that bypasses were built on:
// suffixes, dots, user info, NUL, escapes, other scripts.
func TestOnlyOneSpellingOfANameIsTaken(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, c := range []struct {
		in   string
		host string
		port uint16
		why  Reason
	}{
		{"api.example.com:443", "api.example.com", 443, ""},
		{"API.Example.COM:443", "api.example.com", 443, ""},
		{"api.example.com.:443", "api.example.com", 443, ""},
		{"a-b.example.com:1", "a-b.example.com", 1, ""},
		{"xn--bcher-kva.example:65535", "xn--bcher-kva.example", 65535, ""},
		{"1.example.com:443", "1.example.com", 443, ""},
		{"localhost:443", "localhost", 443, ""},
		{long + ".example:443", long + ".example", 443, ""},

		{"api.example.com..:443", "", 0, BadAuthority},
		{".api.example.com:443", "", 0, BadAuthority},
		{"api..example.com:443", "", 0, BadAuthority},
		{".:443", "", 0, BadAuthority},
		{":443", "", 0, BadAuthority},
		{"", "", 0, BadAuthority},
		{"api.example.com", "", 0, BadAuthority},
		{"api.example.com:", "", 0, BadAuthority},
		{"api.example.com:0", "", 0, BadAuthority},
		{"api.example.com:0443", "", 0, BadAuthority},
		{"api.example.com:65536", "", 0, BadAuthority},
		{"api.example.com:443443443443", "", 0, BadAuthority},
		{"api.example.com:+443", "", 0, BadAuthority},
		{"api.example.com:443 ", "", 0, BadAuthority},
		{"api.example.com:4\x0043", "", 0, BadAuthority},
		{"api.example.com:443:443", "", 0, BadAuthority},
		{"api.example.com:https", "", 0, BadAuthority},
		{"user@api.example.com:443", "", 0, BadAuthority},
		{"api.example.com@evil.example:443", "", 0, BadAuthority},
		{"api.example.com:443@evil.example:443", "", 0, BadAuthority},
		{"api.example.com/x:443", "", 0, BadAuthority},
		{"api.example.com%2eevil.example:443", "", 0, BadAuthority},
		{"api.example.com\x00.evil.example:443", "", 0, BadAuthority},
		{"api.example.com .evil.example:443", "", 0, BadAuthority},
		{"api_x.example.com:443", "", 0, BadAuthority},
		{"-api.example.com:443", "", 0, BadAuthority},
		{"api-.example.com:443", "", 0, BadAuthority},
		{"*.example.com:443", "", 0, BadAuthority},
		{"bücher.example:443", "", 0, BadAuthority},
		{"api.example\u3002com:443", "", 0, BadAuthority},
		{"\u212aelvin.example:443", "", 0, BadAuthority},
		{"\u24d0pi.example.com:443", "", 0, BadAuthority},
		{"a" + long + ".example:443", "", 0, BadAuthority},
		{strings.Repeat("a.", 127) + "example:443", "", 0, BadAuthority},

		{"127.0.0.1:443", "", 0, IPLiteral},
		{"127.0.0.1.:443", "", 0, IPLiteral},
		{"127.1:443", "", 0, IPLiteral},
		{"2130706433:443", "", 0, IPLiteral},
		{"0x7f000001:443", "", 0, IPLiteral},
		{"0X7F.0.0.0x1:443", "", 0, IPLiteral},
		{"0x:443", "", 0, IPLiteral},
		{"0177.0.0.1:443", "", 0, IPLiteral},
		{"017700000001:443", "", 0, IPLiteral},
		{"169.254.169.254:443", "", 0, IPLiteral},
		{"93.184.216.34:443", "", 0, IPLiteral},
		{"example.com.1:443", "", 0, IPLiteral},
		{"[::1]:443", "", 0, IPLiteral},
		{"[::ffff:127.0.0.1]:443", "", 0, IPLiteral},
		{"[fe80::1%25eth0]:443", "", 0, IPLiteral},
		{"[fe80::1%eth0]:443", "", 0, IPLiteral},
		{"[v1.x]:443", "", 0, IPLiteral},
		{"::1", "", 0, IPLiteral},
		{"fd00:ec2::254", "", 0, IPLiteral},
		{"2606:4700::1111", "", 0, IPLiteral},
	} {
		host, port, why := parseAuthority(c.in)
		if host != c.host || port != c.port || why != c.why {
			t.Errorf("parseAuthority(%q) = %q, %d, %q; want %q, %d, %q", c.in, host, port, why, c.host, c.port, c.why)
		}
	}
}
