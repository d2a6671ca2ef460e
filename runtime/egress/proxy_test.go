package egress

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nod"
)

func TestAllowedHostIsReachedAndHalfCloseWorks(t *testing.T) {
	w := newWorld(t, nil)
	c := w.tunnel(site)
	sent := make([]byte, 3<<20)
	if _, err := rand.Read(sent); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := c.Write(sent); err != nil {
			t.Error(err)
		}
		if err := c.CloseWrite(); err != nil {
			t.Error(err)
		}
		if err := c.NetConn().(*net.TCPConn).CloseWrite(); err != nil {
			t.Error(err)
		}
	})
	got, err := io.ReadAll(c)
	wg.Wait()
	if err != nil || !bytes.Equal(got, append(sent, "bye"...)) {
		t.Fatalf("got %d bytes back, %v; want the %d sent and bye", len(got), err, len(sent))
	}
	if err := w.proxy.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{"allow  api.example.com:443", "closed finished api.example.com:443"}
	if diff := cmp.Diff(want, w.audited()); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
	if e := w.events[1]; e.Up < int64(len(sent)) || e.Down < int64(len(sent)) || e.Environment != "e1" || e.At.IsZero() {
		t.Errorf("closing event %+v", e)
	}
	if diff := cmp.Diff([]netip.AddrPort{netip.MustParseAddrPort("93.184.216.34:443")}, w.dials(), cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b })); diff != "" {
		t.Errorf("dialed (-want +got):\n%s", diff)
	}
}

func TestOrdinaryClientWorksThroughTheProxy(t *testing.T) {
	w := newWorld(t, nil)
	web := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if _, err := io.WriteString(rw, "hello "+r.Host); err != nil {
			t.Error(err)
		}
	})}
	w.server.serve(web)
	transport := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: w.address}), TLSClientConfig: w.server.client("")}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	resp, err := client.Get("https://" + site + "/")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	closeQuietly(resp.Body)
	if err != nil || string(body) != "hello "+site {
		t.Errorf("%q, %v", body, err)
	}
	if resp, err := client.Get("https://evil.example/"); err == nil || !strings.Contains(err.Error(), "Forbidden") {
		t.Errorf("an unlisted host: %v, %v", resp, err)
	}
	if resp, err := client.Get("http://" + site + "/"); err != nil || resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("plain http: %v, %v", resp, err)
	} else {
		closeQuietly(resp.Body)
	}
}

func TestDeniedRequestsGetAFixedReply(t *testing.T) {
	w := newWorld(t, nil)
	ask := func(authority string) string { return "CONNECT " + authority + " HTTP/1.1\r\n\r\n" }
	for _, c := range []struct {
		head   string
		status int
		why    Reason
	}{
		{ask("evil.example:443"), 403, NotAllowed},
		{ask("api.example.com.evil.example:443"), 403, NotAllowed},
		{ask("x.api.example.com:443"), 403, NotAllowed},
		{ask("api.example.com:80"), 403, NotAllowed},
		{ask("api.example.com:8443"), 403, NotAllowed},
		{ask("localhost:443"), 403, NotAllowed},
		{ask("api.example.com..:443"), 403, BadAuthority},
		{ask("api.example.com@evil.example:443"), 403, BadAuthority},
		{ask("api.example.com\x00.evil.example:443"), 403, BadAuthority},
		{ask("<script>:443"), 403, BadAuthority},
		{ask("127.0.0.1:443"), 403, IPLiteral},
		{ask("[::1]:443"), 403, IPLiteral},
		{ask("0x7f000001:443"), 403, IPLiteral},
		{ask("2130706433:443"), 403, IPLiteral},
		{ask("93.184.216.34:443"), 403, IPLiteral},
		{"GET http://api.example.com/ HTTP/1.1\r\nHost: api.example.com\r\n\r\n", 405, BadMethod},
		{"CONNECT api.example.com:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n", 400, HostMismatch},
		{"CONNECT api.example.com:443 HTTP/3\r\n\r\n", 400, BadRequest},
		{"CONNECT api.example.com:443 HTTP/1.1\r\nX: " + strings.Repeat("a", headCap) + "\r\n\r\n", 431, HeadTooLarge},
		{ask("evil.example:443") + ask("api.example.com:443"), 403, NotAllowed}, // the second is never read
	} {
		w.refused(c.head, c.status, c.why)
	}
	if asked := w.resolver.asked(); len(asked) != 0 {
		t.Errorf("refused names reached the resolver: %q", asked)
	}
	if dialed := w.dials(); len(dialed) != 0 {
		t.Errorf("refused names were dialed: %v", dialed)
	}
}

// TestRefusedNameNeverReachesDNS: a name that carries data must not leave the
// host in a query.
func TestRefusedNameNeverReachesDNS(t *testing.T) {
	for name, policy := range map[string]*Policy{"nil policy": nil, "empty policy": mustPolicy(t), "other rules": mustPolicy(t, Rule{Host: "example.org"})} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *Config) { c.Policy = policy })
			for _, host := range []string{"c2VjcmV0.evil.example", "secret." + site, site} {
				w.refused("CONNECT "+host+":443 HTTP/1.1\r\n\r\n", 403, NotAllowed)
			}
			if asked := w.resolver.asked(); len(asked) != 0 {
				t.Errorf("refused names reached the resolver: %q", asked)
			}
		})
	}
}

func TestOneNonPublicAnswerRefusesTheHost(t *testing.T) {
	for name, answers := range map[string][]string{
		"private":        {"10.0.0.1"},
		"public, then":   {"93.184.216.34", "192.168.1.1"},
		"private, then":  {"127.0.0.1", "93.184.216.34"},
		"mapped":         {"::ffff:127.0.0.1"},
		"nat64":          {"64:ff9b::a9fe:a9fe"},
		"carrier nat":    {"100.64.0.1"},
		"metadata":       {"169.254.169.254"},
		"six, then four": {"2606:4700::1111", "0.0.0.0"},
		"zone":           {"fe80::1%eth0"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.resolver.answers[site+"."] = [][]string{answers}
			w.refused("CONNECT api.example.com:443 HTTP/1.1\r\n\r\n", 403, NotPublic)
			if d := w.dials(); len(d) != 0 {
				t.Errorf("dialed %v", d)
			}
		})
	}
}

func TestOwnPublicAddressOfTheHostIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	w.proxy.own = func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil }
	w.refused("CONNECT api.example.com:443 HTTP/1.1\r\n\r\n", 403, NotPublic)
	w.proxy.own = func() ([]netip.Addr, error) { return nil, io.ErrUnexpectedEOF }
	w.refused("CONNECT api.example.com:443 HTTP/1.1\r\n\r\n", 403, NotPublic)
}

// TestRebindingResolverIsAskedOnce: the address that was checked is the address
// that is connected to.
func TestRebindingResolverIsAskedOnce(t *testing.T) {
	w := newWorld(t, nil)
	w.resolver.answers[site+"."] = [][]string{{"::ffff:93.184.216.34"}, {"127.0.0.1"}}
	closeQuietly(w.tunnel(site))
	if diff := cmp.Diff([]string{site + "."}, w.resolver.asked()); diff != "" {
		t.Errorf("lookups (-want +got):\n%s", diff)
	}
	for _, to := range w.dials() {
		if to.String() != "93.184.216.34:443" {
			t.Errorf("dialed %v", to)
		}
	}
	w.refused("CONNECT api.example.com:443 HTTP/1.1\r\n\r\n", 403, NotPublic)
}

func TestPeerMustBeTheCheckedAddress(t *testing.T) {
	w := newWorld(t, nil)
	for _, peer := range []string{"127.0.0.1:443", "93.184.216.34:80", "93.184.216.35:443"} {
		w.mu.Lock()
		w.peer = peer
		w.mu.Unlock()
		w.refused("CONNECT api.example.com:443 HTTP/1.1\r\n\r\n", 502, DialFailed)
	}
}

// TestDialerChecksBelowItself: the real dialer refuses an address that the check
// does not know, before it connects.
func TestDialerChecksBelowItself(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer closeQuietly(l)
	to := netip.MustParseAddrPort(l.Addr().String())
	if c, err := dial(t.Context(), to, func(netip.AddrPort) bool { return false }); err == nil {
		closeQuietly(c)
		t.Error("connected to an address that the check refuses")
	}
	c, err := dial(t.Context(), to, func(a netip.AddrPort) bool { return a == to })
	if err != nil {
		t.Fatal(err)
	}
	closeQuietly(c)
}

func TestFailedLookupAndDialAreTold(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Policy = mustPolicy(t, Rule{Host: site}, Rule{Host: "gone.example.com"}) })
	w.refused("CONNECT gone.example.com:443 HTTP/1.1\r\n\r\n", 502, ResolveFailed)
	w.server.close()
	w.refused("CONNECT api.example.com:443 HTTP/1.1\r\n\r\n", 502, DialFailed)
}

// TestStreamMustBeTLSForTheAllowedHost covers what an allowed CONNECT is misused
// for: another name at a shared network, no name, no TLS, a second CONNECT.
func TestStreamMustBeTLSForTheAllowedHost(t *testing.T) {
	shares := extension{51, make([]byte, 1300)}
	for name, c := range map[string]struct {
		send []byte
		why  Reason
	}{
		"other name":     {records(handshake(sniOf("other.example.com")), recordCap), SNIMismatch},
		"sub name":       {records(handshake(sniOf("x."+site)), recordCap), SNIMismatch},
		"name with dot":  {records(handshake(sniOf(site+".")), recordCap), SNIMismatch},
		"other, late":    {records(handshake(shares, sniOf("other.example.com")), 100), SNIMismatch},
		"no name":        {records(handshake(shares), recordCap), NoSNI},
		"plain http":     {[]byte("GET / HTTP/1.1\r\nHost: api.example.com\r\n\r\n"), NotTLS},
		"second connect": {[]byte("CONNECT evil.example:443 HTTP/1.1\r\n\r\n"), NotTLS},
		"two names":      {records(handshake(sniOf(site), sniOf("other.example.com")), recordCap), NotTLS},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			conn, r, resp := w.connect(site + ":443")
			if resp.StatusCode != http.StatusOK {
				t.Fatal(resp.Status)
			}
			if _, err := conn.Write(c.send); err != nil {
				t.Fatal(err)
			}
			if n, err := io.Copy(io.Discard, r); n != 0 {
				t.Errorf("got %d bytes, %v; want a closed connection", n, err)
			}
			if err := w.proxy.Close(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"deny " + string(c.why) + " api.example.com:443"}, w.audited()); diff != "" {
				t.Errorf("audit (-want +got):\n%s", diff)
			}
		})
	}
}

// splitConn writes one byte a TLS record: it re-frames the first flight.
type splitConn struct {
	net.Conn
	once sync.Once
}

func (c *splitConn) Write(b []byte) (n int, err error) {
	wrote := false
	c.once.Do(func() {
		wrote = true
		for b := b; len(b) > 5 && err == nil; {
			size := int(b[3])<<8 | int(b[4])
			_, err = c.Conn.Write(records(b[5:5+size], 50))
			b = b[5+size:]
		}
	})
	if wrote {
		return len(b), err
	}
	return c.Conn.Write(b)
}

func TestLateAndSplitServerNameIsAccepted(t *testing.T) {
	w := newWorld(t, nil)
	conn, _, resp := w.connect(site + ":443")
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	config := w.server.client(site)
	config.CurvePreferences = []tls.CurveID{tls.X25519MLKEM768}
	c := tls.Client(&splitConn{Conn: conn}, config)
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

func TestClientHelloMayComeWithTheHead(t *testing.T) {
	w := newWorld(t, nil)
	hello := sentHello(t, w.server.client(site))
	conn, r, resp := w.send("CONNECT api.example.com:443 HTTP/1.1\r\n\r\n" + string(hello))
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	if b, err := r.ReadByte(); err != nil || b != 22 {
		t.Errorf("the server answered %d, %v; want a handshake record", b, err)
	}
	closeQuietly(conn)
}

func TestPinnedUpstreamNeedsNoDNSButTheName(t *testing.T) {
	w := newWorld(t, nil)
	w.proxy.Update(mustPolicy(t, Rule{Host: "gateway", Upstream: w.server.address}))
	closeQuietly(w.tunnel("gateway"))
	if asked := w.resolver.asked(); len(asked) != 0 {
		t.Errorf("a pinned host reached the resolver: %q", asked)
	}
	conn, r, resp := w.connect("gateway:443")
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	if _, err := conn.Write(records(handshake(sniOf(site)), recordCap)); err != nil {
		t.Fatal(err)
	}
	if n, _ := io.Copy(io.Discard, r); n != 0 {
		t.Errorf("another name got %d bytes through the pin", n)
	}
}

func TestProxyNeedsAnEnvironmentAndAnAudit(t *testing.T) {
	for name, c := range map[string]Config{
		"nothing":        {},
		"no audit":       {Environment: "e1"},
		"no environment": {Audit: func(Event) {}},
		"negative cap":   {Environment: "e1", Audit: func(Event) {}, MaxBytes: -1},
	} {
		if p, err := New(c); err == nil || p != nil || nod.CodeOf(err) != nod.Invalid {
			t.Errorf("%s: %v, %v; want an Invalid error", name, p, err)
		}
	}
}
