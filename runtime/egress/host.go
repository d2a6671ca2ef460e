package egress

import (
	"net/netip"
	"strings"
)

// parseAuthority reads "host:port" strictly: ASCII letters, digits and hyphens
// in labels of 1 to 63 bytes, at most 253 in all, one colon, a decimal port. One
// trailing dot is dropped and case is folded. The reason is empty on success.
func parseAuthority(s string) (host string, port uint16, why Reason) {
	name, digits, ok := strings.Cut(s, ":")
	if !ok || strings.Contains(digits, ":") {
		return "", 0, literalOr(s, BadAuthority)
	}
	if host, why = parseHost(name); why != "" {
		return "", 0, why
	}
	if port, ok = parsePort(digits); !ok {
		return "", 0, BadAuthority
	}
	return host, port, ""
}

// parseHost is the host part of parseAuthority. An IP address in any spelling
// that a resolver or a URL parser accepts is refused: dotted, decimal, hex,
// octal, short, bracketed, with a zone. They all end in a numeric label or hold
// a byte that is no letter, digit, hyphen or dot.
func parseHost(s string) (string, Reason) {
	h := strings.TrimSuffix(s, ".")
	if h == "" || len(h) > 253 {
		return "", BadAuthority
	}
	h = lower(h)
	last := ""
	for label := range strings.SplitSeq(h, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return "", BadAuthority
		}
		for i := range len(label) {
			if c := label[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
				return "", literalOr(s, BadAuthority)
			}
		}
		last = label
	}
	if strings.HasPrefix(last, "0x") || strings.Trim(last, "0123456789") == "" {
		return "", IPLiteral
	}
	return h, ""
}

// parsePort takes 1 to 65535 in decimal without sign or leading zero.
func parsePort(s string) (uint16, bool) {
	if len(s) == 0 || len(s) > 5 || s[0] == '0' {
		return 0, false
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return uint16(n), n <= 65535
}

// literalOr is IPLiteral when s is an IPv6 address with or without brackets,
// port and zone, else why. Both refuse; it only names the refusal better.
func literalOr(s string, why Reason) Reason {
	if strings.HasPrefix(s, "[") {
		return IPLiteral
	}
	if _, err := netip.ParseAddr(s); err == nil {
		return IPLiteral
	}
	return why
}

// lower folds ASCII only: Unicode folding would turn the Kelvin sign into a k.
func lower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}
