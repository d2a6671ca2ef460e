package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"syscall"
)

// open connects t to its upstream, or says why not.
func (p *Proxy) open(t *tunnel) Reason {
	addrs, why := p.addresses(t)
	if why != "" {
		return t.reasonOr(why)
	}
	ctx, cancel := context.WithTimeout(t.ctx, dialTimeout)
	defer cancel()
	for _, to := range addrs[:min(len(addrs), maxAttempts)] {
		conn, err := p.attempt(ctx, t, to)
		if err != nil {
			p.cfg.Log.Debug("egress dial failed", "environment", p.cfg.Environment, "host", t.host, "err", err)
			continue
		}
		if !t.attach(conn) {
			closeQuietly(conn)
			return t.reasonOr(Stopped)
		}
		return ""
	}
	return t.reasonOr(DialFailed)
}

// addresses returns where t may be connected to: the operator's pin, or the
// answers of one lookup, all of which must be public.
func (p *Proxy) addresses(t *tunnel) ([]netip.AddrPort, Reason) {
	if t.pin.IsValid() {
		return []netip.AddrPort{t.pin}, ""
	}
	ctx, cancel := context.WithTimeout(t.ctx, resolveTimeout)
	defer cancel()
	// The dot keeps the resolver's search list out of it.
	answers, err := p.cfg.Resolver.LookupNetIP(ctx, "ip", t.host+".")
	if err != nil || len(answers) == 0 {
		p.cfg.Log.Debug("egress lookup failed", "environment", p.cfg.Environment, "host", t.host, "err", err)
		return nil, ResolveFailed
	}
	own, err := p.own()
	if err != nil {
		p.cfg.Log.Error("cannot read the addresses of this host", "err", err)
		return nil, NotPublic
	}
	out := make([]netip.AddrPort, len(answers))
	for i, a := range answers {
		a = a.Unmap()
		if !public(a) || slices.Contains(own, a) {
			return nil, NotPublic
		}
		out[i] = netip.AddrPortFrom(a, t.port)
	}
	return out, ""
}

var errNotPinned = errors.New("connected address is not the one that was checked")

// attempt connects to exactly to: it is compared again below the dialer, when
// the socket is about to connect, and once more with the peer that was reached.
func (p *Proxy) attempt(ctx context.Context, t *tunnel, to netip.AddrPort) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	right := func(a netip.AddrPort) bool {
		a = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
		want := netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
		return a == want && (t.pin.IsValid() || public(a.Addr()))
	}
	conn, err := p.dial(ctx, to, right)
	if err != nil {
		return nil, err
	}
	peer, err := netip.ParseAddrPort(conn.RemoteAddr().String())
	if err != nil || !right(peer) {
		closeQuietly(conn)
		return nil, errNotPinned
	}
	return conn, nil
}

// dial connects over TCP. It takes an address, never a name.
func dial(ctx context.Context, to netip.AddrPort, check func(netip.AddrPort) bool) (net.Conn, error) {
	d := net.Dialer{ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
		if a, err := netip.ParseAddrPort(address); err != nil || !check(a) {
			return errNotPinned
		}
		return nil
	}}
	return d.DialContext(ctx, "tcp", to.String())
}
