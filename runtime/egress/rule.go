package egress

import (
	"fmt"
	"net/netip"
	"strings"

	"nod"
)

// Rule lets one exact host and port through.
type Rule struct {
	Host string
	Port int // 0 means 443
	// Upstream is an optional "ip:port" that the operator chose for this host, such
	// as a model gateway on loopback or a corporate proxy. The name is then not
	// resolved and the address need not be public. The stream must still be TLS
	// with Host as its SNI.
	Upstream string
}

// String is the form that ParseRule reads.
func (r Rule) String() string {
	s := r.Host
	if r.Port != 0 {
		s = fmt.Sprintf("%s:%d", r.Host, r.Port)
	}
	if r.Upstream != "" {
		if r.Port == 0 {
			s += ":443"
		}
		s += "=" + r.Upstream
	}
	return s
}

// ParseRule reads "host", "host:port" or "host:port=ip:port". Its errors are Invalid.
func ParseRule(s string) (Rule, error) {
	authority, upstream, pinned := strings.Cut(s, "=")
	r := Rule{Host: authority, Port: 443, Upstream: upstream}
	if name, digits, ok := strings.Cut(authority, ":"); ok {
		port, valid := parsePort(digits)
		if !valid {
			return Rule{}, invalid(s, "has no port from 1 to 65535 behind the colon", "")
		}
		r.Host, r.Port = name, int(port)
	} else if pinned {
		return Rule{}, invalid(s, "pins an upstream without a port", "write host:port=ip:port")
	}
	if pinned && upstream == "" {
		return Rule{}, invalid(s, "has no upstream behind the equals sign", "write host:port=ip:port")
	}
	k, err := compile(r)
	if err != nil {
		return Rule{}, err
	}
	r.Host = k.host
	return r, nil
}

// Policy is a compiled allowlist. It never changes; swap it with Proxy.Update.
// Both nil and the zero value deny everything.
type Policy struct {
	allowed map[target]netip.AddrPort // the zero AddrPort means: resolve
}

// target is what a guest may ask for.
type target struct {
	host string
	port uint16
}

// NewPolicy compiles rules; one bad rule refuses them all. No rules deny
// everything. Errors are Invalid.
func NewPolicy(rules []Rule) (*Policy, error) {
	p := &Policy{allowed: make(map[target]netip.AddrPort, len(rules))}
	for _, r := range rules {
		k, err := compile(r)
		if err != nil {
			return nil, err
		}
		var pin netip.AddrPort
		if r.Upstream != "" {
			pin = netip.MustParseAddrPort(r.Upstream) // compile parsed it
		}
		if old, ok := p.allowed[k]; ok && old != pin {
			return nil, invalid(r.String(), "is listed twice with different upstreams", "")
		}
		p.allowed[k] = pin
	}
	return p, nil
}

// compile checks a rule and returns its canonical target.
func compile(r Rule) (target, error) {
	host, why := parseHost(r.Host)
	switch {
	case why == IPLiteral:
		return target{}, invalid(r.String(), "is an address, not a host name", "allow a name, or pin one to the address: host:port=ip:port")
	case strings.Contains(r.Host, "*"):
		return target{}, invalid(r.String(), "has a wildcard", "list each exact host")
	case why != "":
		return target{}, invalid(r.String(), "is not a host name", "use ASCII letters, digits and hyphens; write other scripts in xn-- form")
	case r.Port < 0 || r.Port > 65535:
		return target{}, invalid(r.String(), "has no port from 1 to 65535", "")
	case r.Upstream == "" && !strings.Contains(host, "."):
		return target{}, invalid(r.String(), "is not a full domain name", "pin a local service to its address: host:port=ip:port")
	}
	if r.Upstream != "" {
		pin, err := netip.ParseAddrPort(r.Upstream)
		if err != nil || pin.Port() == 0 || pin.Addr().Zone() != "" || pin.Addr().IsUnspecified() {
			return target{}, invalid(r.String(), "has an upstream that is no ip:port", "write host:port=ip:port, with an IPv6 address in brackets")
		}
	}
	port := r.Port
	if port == 0 {
		port = 443
	}
	return target{host, uint16(port)}, nil
}

// permits returns where k leads and whether it is allowed at all.
func (p *Policy) permits(k target) (pin netip.AddrPort, ok bool) {
	if p == nil {
		return netip.AddrPort{}, false
	}
	pin, ok = p.allowed[k]
	return pin, ok
}

// within reports whether q lets everything through that p does, to the same place.
func (p *Policy) within(q *Policy) bool {
	if p == nil {
		return true
	}
	for k, pin := range p.allowed {
		if old, ok := q.permits(k); !ok || old != pin {
			return false
		}
	}
	return true
}

func invalid(rule, what, hint string) error {
	return &nod.Error{Code: nod.Invalid, Msg: fmt.Sprintf("egress rule %q %s", rule, what), Hint: hint}
}
