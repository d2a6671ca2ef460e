package answer

import (
	"net"
	"net/netip"
	"net/url"
	"strings"

	"nod"
)

// site is where the page lives. All of it comes from the configured public URL
// and none of it from a request, so that no header can move an answer elsewhere.
type site struct {
	origin string // as browsers serialise it: scheme, host, port unless default
	rpID   string // the host
	secure bool   // https
}

func parseSite(publicURL string) (site, error) {
	u, err := url.Parse(publicURL)
	if err != nil {
		return site{}, nod.E(nod.Invalid, "the public URL cannot be read", err)
	}
	host := strings.ToLower(u.Hostname())
	bad := ""
	switch _, ipErr := netip.ParseAddr(host); {
	case u.Scheme != "https" && u.Scheme != "http":
		bad = "must start with https://"
	case host == "":
		bad = "has no host"
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Path != "" && u.Path != "/":
		bad = "must be nothing but scheme, host and port"
	case ipErr == nil:
		bad = "must name a host, not an address: passkeys are bound to names"
	case u.Scheme == "http" && host != "localhost":
		bad = "must use https, since browsers offer passkeys there and on http://localhost only"
	case strings.ContainsFunc(host, func(r rune) bool { return r > 0x7e || r <= 0x20 }):
		bad = "must have its host in ASCII"
	}
	if bad != "" {
		return site{}, nod.E(nod.Invalid, "the public URL "+bad, nil)
	}
	s := site{origin: u.Scheme + "://" + host, rpID: host, secure: u.Scheme == "https"}
	if p := u.Port(); p != "" && !(s.secure && p == "443") && !(!s.secure && p == "80") {
		s.origin = u.Scheme + "://" + net.JoinHostPort(host, p)
	}
	return s, nil
}

// cookie is the name of the session cookie. The __Host- prefix makes browsers
// insist on Secure, on Path=/ and on no Domain.
func (s site) cookie() string {
	if s.secure {
		return "__Host-nod"
	}
	return "nod"
}
