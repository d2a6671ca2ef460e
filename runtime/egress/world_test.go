package egress

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

const site = "api.example.com"

// world is a proxy on a real loopback listener, a resolver that counts, an
// internet that leads to real TLS servers on loopback, and the audit.
type world struct {
	t        testing.TB
	proxy    *Proxy
	address  string
	resolver *fakeResolver
	server   *tlsServer

	mu     sync.Mutex
	events []Event
	dialed []netip.AddrPort
	peer   string // when set, what dialed connections claim as their peer
}

// fakeResolver answers each lookup of a name with the next list of answers; the
// last is kept. It remembers every query.
type fakeResolver struct {
	mu      sync.Mutex
	answers map[string][][]string
	queries []string
	entered chan struct{} // when set, a lookup tells it and waits for its context
}

func (r *fakeResolver) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	r.mu.Lock()
	r.queries = append(r.queries, host)
	list := r.answers[host]
	if len(list) > 1 {
		r.answers[host] = list[1:]
	}
	entered := r.entered
	r.mu.Unlock()
	if entered != nil {
		entered <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if network != "ip" || len(list) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	out := make([]netip.Addr, len(list[0]))
	for i, s := range list[0] {
		out[i] = netip.MustParseAddr(s)
	}
	return out, nil
}

func (r *fakeResolver) asked() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.queries...)
}

// peerConn claims another peer, as if it had been reached over the internet.
type peerConn struct {
	*net.TCPConn
	peer net.Addr
}

func (c peerConn) RemoteAddr() net.Addr { return c.peer }

// newWorld allows site on 443, which resolves to a public address behind which
// an echo server answers. change may alter the configuration first.
func newWorld(t testing.TB, change func(*Config)) *world {
	t.Helper()
	w := &world{t: t, server: newTLSServer(t), resolver: &fakeResolver{answers: map[string][][]string{site + ".": {{"93.184.216.34"}}}}}
	c := Config{
		Policy: mustPolicy(t, Rule{Host: site}), Environment: "e1", Resolver: w.resolver,
		Audit: func(e Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, e)
		},
	}
	if change != nil {
		change(&c)
	}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	real := p.dial
	p.dial = func(ctx context.Context, to netip.AddrPort, check func(netip.AddrPort) bool) (net.Conn, error) {
		w.mu.Lock()
		w.dialed = append(w.dialed, to)
		peer := w.peer
		w.mu.Unlock()
		if to.Addr().IsLoopback() { // a pin
			return real(ctx, to, check)
		}
		if !check(to) {
			return nil, errNotPinned
		}
		conn, err := net.Dial("tcp", w.server.address)
		if err != nil {
			return nil, err
		}
		if peer == "" {
			peer = to.String()
		}
		return peerConn{conn.(*net.TCPConn), net.TCPAddrFromAddrPort(netip.MustParseAddrPort(peer))}, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.proxy, w.address = p, l.Addr().String()
	served := make(chan error, 1)
	go func() { served <- p.Serve(context.Background(), l) }()
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		w.server.close()
		// A peer's goroutine may still be on its way out of the call that ended it.
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			left := goroutines("egress.(*")
			if left == "" {
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("still running after Close:\n%s", left)
				break
			}
		}
	})
	return w
}

func mustPolicy(t testing.TB, rules ...Rule) *Policy {
	t.Helper()
	p, err := NewPolicy(rules)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// goroutines returns the stacks that mention what.
func goroutines(what string) string {
	buf := make([]byte, 1<<20)
	var found []string
	for stack := range strings.SplitSeq(string(buf[:goruntime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, what) && !strings.Contains(stack, "testing.(*") {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}

// connect sends a CONNECT head and returns the connection and the answer.
func (w *world) connect(authority string) (net.Conn, *bufio.Reader, *http.Response) {
	w.t.Helper()
	return w.send("CONNECT " + authority + " HTTP/1.1\r\nHost: " + authority + "\r\n\r\n")
}

func (w *world) send(head string) (net.Conn, *bufio.Reader, *http.Response) {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.address)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { closeQuietly(conn) })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		w.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, head); err != nil {
		w.t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		w.t.Fatalf("no answer to %q: %v", head, err)
	}
	return conn, r, resp
}

// tunnel opens an allowed tunnel with TLS inside.
func (w *world) tunnel(host string) *tls.Conn {
	w.t.Helper()
	conn, _, resp := w.connect(host + ":443")
	if resp.StatusCode != http.StatusOK {
		w.t.Fatalf("CONNECT %s: %s, %s", host, resp.Status, resp.Header.Get("X-Nod-Deny"))
	}
	c := tls.Client(conn, w.server.client(host))
	if err := c.Handshake(); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// refused checks the answer to head: status, reason and nothing of the guest.
func (w *world) refused(head string, status int, why Reason) {
	w.t.Helper()
	conn, r, resp := w.send(head)
	if resp.StatusCode != status || resp.Header.Get("X-Nod-Deny") != string(why) {
		w.t.Errorf("%q: %s, %q; want %d, %q", head, resp.Status, resp.Header.Get("X-Nod-Deny"), status, why)
	}
	body, err := io.ReadAll(r)
	if want := fmt.Sprintf("nod: egress denied: %s\n", why); err != nil || string(body) != want {
		w.t.Errorf("%q: body %q, %v; want %q", head, body, err, want)
	}
	closeQuietly(conn)
}

// audited returns the events so far as "verdict reason host:port" lines.
func (w *world) audited() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for _, e := range w.events {
		out = append(out, fmt.Sprintf("%s %s %s:%d", e.Verdict, e.Reason, e.Host, e.Port))
	}
	return out
}

func (w *world) dials() []netip.AddrPort {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]netip.AddrPort(nil), w.dialed...)
}

// tlsServer echoes what it is sent until end of stream, then says "bye" and closes.
type tlsServer struct {
	address string
	roots   *x509.CertPool
	l       net.Listener
	wg      sync.WaitGroup

	mu  sync.Mutex
	web *http.Server // when set, serves instead of the echo
}

func newTLSServer(t testing.TB) *tlsServer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{site, "other.example.com", "gateway"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	s := &tlsServer{roots: x509.NewCertPool()}
	s.roots.AddCert(cert)
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = inner.Addr().String()
	s.l = tls.NewListener(inner, &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	s.wg.Go(func() {
		for {
			c, err := s.l.Accept()
			if err != nil {
				return
			}
			s.wg.Go(func() {
				s.mu.Lock()
				web := s.web
				s.mu.Unlock()
				if web == nil {
					echo(c)
					return
				}
				_ = web.Serve(newOneConn(c)) // ends with net.ErrClosed when c does
			})
		}
	})
	return s
}

// serve lets web answer from now on.
func (s *tlsServer) serve(web *http.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.web = web
}

// oneConn is a listener with a single connection, which closes with it.
type oneConn struct {
	net.Conn
	first sync.Once
	once  sync.Once
	done  chan struct{}
}

func newOneConn(c net.Conn) *oneConn { return &oneConn{Conn: c, done: make(chan struct{})} }

func (c *oneConn) Accept() (conn net.Conn, err error) {
	c.first.Do(func() { conn = c })
	if conn != nil {
		return conn, nil
	}
	<-c.done
	return nil, net.ErrClosed
}

func (c *oneConn) Close() error {
	c.once.Do(func() { close(c.done) })
	return c.Conn.Close()
}

func (c *oneConn) Addr() net.Addr { return c.LocalAddr() }

func echo(c net.Conn) {
	defer closeQuietly(c)
	if _, err := io.Copy(c, c); err != nil {
		return
	}
	if _, err := io.WriteString(c, "bye"); err != nil && !errors.Is(err, net.ErrClosed) {
		return
	}
}

func (s *tlsServer) client(host string) *tls.Config {
	return &tls.Config{RootCAs: s.roots, ServerName: host}
}

func (s *tlsServer) close() {
	closeQuietly(s.l)
	s.wg.Wait()
}
