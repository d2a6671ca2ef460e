package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"nod"
)

// ends waits until c is closed by the proxy.
func ends(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the tunnel is still open")
	}
}

// works sends one byte around.
func works(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

func TestTighterPolicyClosesLiveTunnelsAndOnlyThose(t *testing.T) {
	const other = "other.example.com"
	w := newWorld(t, func(c *Config) { c.Policy = mustPolicy(t, Rule{Host: site}, Rule{Host: other}) })
	w.resolver.answers[other+"."] = [][]string{{"93.184.216.35"}}
	gone, kept := w.tunnel(site), w.tunnel(other)
	works(t, gone)
	works(t, kept)

	w.proxy.Update(mustPolicy(t, Rule{Host: other}))
	ends(t, gone)
	works(t, kept)
	w.refused("CONNECT api.example.com:443 HTTP/1.1\r\n\r\n", 403, NotAllowed)

	w.proxy.Update(mustPolicy(t, Rule{Host: other, Upstream: w.server.address})) // leads elsewhere now
	ends(t, kept)
	w.proxy.Update(nil)
	w.refused("CONNECT "+other+":443 HTTP/1.1\r\n\r\n", 403, NotAllowed)
	w.proxy.Update(mustPolicy(t, Rule{Host: site}))
	works(t, w.tunnel(site))
}

func TestPolicyChangeReachesATunnelInTheMaking(t *testing.T) {
	w := newWorld(t, nil)
	w.resolver.entered = make(chan struct{}) // the lookup then waits for its context
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.refused("CONNECT api.example.com:443 HTTP/1.1\r\n\r\n", 403, PolicyChanged)
	}()
	<-w.resolver.entered
	w.proxy.Update(nil)
	<-done
	if d := w.dials(); len(d) != 0 {
		t.Errorf("dialed %v", d)
	}
}

func TestClosedProxyServesNothing(t *testing.T) {
	w := newWorld(t, nil)
	c := w.tunnel(site)
	idle, err := net.Dial("tcp", w.address) // in its head
	if err != nil {
		t.Fatal(err)
	}
	defer closeQuietly(idle)
	for range 2 {
		if err := w.proxy.Close(); err != nil {
			t.Fatal(err)
		}
	}
	ends(t, c)
	ends(t, idle)
	if conn, err := net.Dial("tcp", w.address); err == nil {
		closeQuietly(conn)
		t.Error("the listener outlives the proxy")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.proxy.Serve(t.Context(), l); nod.CodeOf(err) != nod.Conflict {
		t.Errorf("Serve after Close: %v", err)
	}
	if conn, err := net.Dial("tcp", l.Addr().String()); err == nil {
		closeQuietly(conn)
		t.Error("a refused Serve leaves its listener open")
	}
	if got := w.audited(); !slices.Contains(got, "closed stopped api.example.com:443") {
		t.Errorf("audit %q lacks the stopped tunnel", got)
	}
}

func TestServeEndsWithItsContextAndWithItsListener(t *testing.T) {
	p, err := New(Config{Environment: "e1", Audit: func(Event) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer closeQuietly(p)
	for name, end := range map[string]func(context.CancelFunc, net.Listener) bool{
		"context":  func(cancel context.CancelFunc, _ net.Listener) bool { cancel(); return true },
		"listener": func(_ context.CancelFunc, l net.Listener) bool { closeQuietly(l); return false },
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- p.Serve(ctx, l) }()
		clean := end(cancel, l)
		if err := <-served; clean != (err == nil) {
			t.Errorf("%s: Serve returned %v", name, err)
		}
		cancel()
	}
}

// scarceListener fails a few times as a process without file descriptors does.
type scarceListener struct {
	net.Listener
	mu    sync.Mutex
	fails int
}

func (l *scarceListener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fails > 0 {
		l.fails--
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

func TestPassingAcceptErrorsArePassedOver(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Config{Environment: "e1", Audit: func(Event) {}})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- p.Serve(t.Context(), &scarceListener{Listener: inner, fails: 3}) }()
	w := &world{t: t, address: inner.Addr().String()}
	w.refused("CONNECT api.example.com:443 HTTP/1.1\r\n\r\n", 403, NotAllowed)
	closeQuietly(p)
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestTunnelsAreCapped(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxTunnels = 2 })
	first, second := w.tunnel(site), w.tunnel(site)
	works(t, first)
	w.refused("CONNECT api.example.com:443 HTTP/1.1\r\n\r\n", 503, TooMany)
	works(t, second)
	w.proxy.Update(nil) // ends both
	ends(t, first)
	ends(t, second)
	w.proxy.Update(mustPolicy(t, Rule{Host: site}))
	works(t, w.tunnel(site))
}

func TestBytesOfATunnelAreCapped(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.MaxBytes = 64 << 10 })
	c := w.tunnel(site)
	go func() {
		_, _ = c.Write(make([]byte, 1<<20)) // fails when the tunnel is cut
	}()
	ends(t, c)
	closeQuietly(w.proxy)
	if got := w.audited(); got[len(got)-1] != "closed byte_cap api.example.com:443" {
		t.Errorf("audit %q", got)
	}
	if e := w.events[len(w.events)-1]; e.Up+e.Down > 64<<10+chunk {
		t.Errorf("%d bytes went through", e.Up+e.Down)
	}
}

func TestIdleTunnelIsClosed(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Idle = 100 * time.Millisecond })
	conn, _, resp := w.connect(site + ":443")
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	if _, err := conn.Write(sentHello(t, w.server.client(site))); err != nil { // and then nothing, however slow this is
		t.Fatal(err)
	}
	ends(t, conn)
	closeQuietly(w.proxy)
	if got := w.audited(); got[len(got)-1] != "closed idle api.example.com:443" {
		t.Errorf("audit %q", got)
	}
}

// pipeListener hands out net.Pipe ends, so that a bubble's clock rules them.
type pipeListener struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (l *pipeListener) dial() net.Conn {
	a, b := net.Pipe()
	l.conns <- a
	return b
}

// inBubble runs f against a proxy on pipes with a fake clock.
func inBubble(t *testing.T, f func(t *testing.T, p *Proxy, l *pipeListener, events *[]Event)) {
	synctest.Test(t, func(t *testing.T) {
		var events []Event
		var mu sync.Mutex
		p, err := New(Config{Policy: mustPolicy(t, Rule{Host: site}), Environment: "e1", Resolver: &fakeResolver{answers: map[string][][]string{site + ".": {{"93.184.216.34"}}}}, Audit: func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e)
		}})
		if err != nil {
			t.Fatal(err)
		}
		l := newPipeListener()
		served := make(chan error, 1)
		go func() { served <- p.Serve(context.Background(), l) }()
		f(t, p, l, &events)
		closeQuietly(p)
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}

func TestSlowHeadIsCutAfterTenSeconds(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *Proxy, l *pipeListener, events *[]Event) {
		c := l.dial()
		start := time.Now()
		var guest sync.WaitGroup
		guest.Go(func() {
			for _, b := range []byte("CONNECT api.example.com:443 HTTP/1.1\r\nX: " + strings.Repeat("a", 4000)) {
				if _, err := c.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(500 * time.Millisecond)
			}
		})
		answer, err := io.ReadAll(c)
		if took := time.Since(start); took < headTimeout || took > headTimeout+replyTimeout+time.Second {
			t.Errorf("cut after %v", took)
		}
		if !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") || err != nil {
			t.Errorf("%q, %v", answer, err)
		}
		closeQuietly(c)
		guest.Wait()
		synctest.Wait()
		if len(*events) != 1 || (*events)[0].Reason != HeadTimeout {
			t.Errorf("audit %+v", *events)
		}
	})
}

func TestSilentGuestIsCutAfterTheConnect(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Proxy, l *pipeListener, events *[]Event) {
		p.dial = func(_ context.Context, to netip.AddrPort, _ func(netip.AddrPort) bool) (net.Conn, error) {
			a, b := net.Pipe()
			closeQuietly(b)
			return pipePeer{a, net.TCPAddrFromAddrPort(to)}, nil
		}
		c := l.dial()
		start := time.Now()
		if _, err := io.WriteString(c, "CONNECT api.example.com:443 HTTP/1.1\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(c) // 200 and then the end
		if took := time.Since(start); took != headTimeout {
			t.Errorf("cut after %v", took)
		}
		if !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") {
			t.Errorf("%q", answer)
		}
		synctest.Wait()
		if len(*events) != 1 || (*events)[0].Reason != NotTLS || (*events)[0].Verdict != Denied {
			t.Errorf("audit %+v", *events)
		}
	})
}

type pipePeer struct {
	net.Conn
	peer net.Addr
}

func (c pipePeer) RemoteAddr() net.Addr { return c.peer }

// TestFloodOfDenialsIsCounted: a guest cannot fill the audit, and what was kept
// back is told.
func TestFloodOfDenialsIsCounted(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w := newWorld(t, func(c *Config) { c.Now = func() time.Time { return now } })
	for i := range 50 {
		w.refused(fmt.Sprintf("CONNECT h%d.example:443 HTTP/1.1\r\n\r\n", i), 403, NotAllowed)
	}
	if n := w.countAudited("deny"); n != 20 {
		t.Errorf("%d denials in the audit before the flush; want 20", n)
	}
	works(t, w.tunnel(site)) // what is allowed is never kept back
	closeQuietly(w.proxy)
	var total int64
	for _, e := range w.events {
		if e.Verdict == Denied {
			total += 1 + e.Suppressed
		}
	}
	if total != 50 {
		t.Errorf("the audit tells of %d denials; want 50", total)
	}
	if n := w.countAudited("allow"); n != 1 {
		t.Errorf("%d allowed tunnels in the audit", n)
	}
	if last := w.events[len(w.events)-1]; last.Host != "h49.example" {
		t.Errorf("the flush names %q", last.Host)
	}
}

func TestManyTunnelsAtOnce(t *testing.T) {
	w := newWorld(t, nil)
	var wg sync.WaitGroup
	errs := make(chan error, 32)
	for range 32 {
		wg.Go(func() {
			conn, err := net.Dial("tcp", w.address)
			if err != nil {
				errs <- err
				return
			}
			defer closeQuietly(conn)
			if _, err := io.WriteString(conn, "CONNECT api.example.com:443 HTTP/1.1\r\n\r\n"); err != nil {
				errs <- err
				return
			}
			ok := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
			if _, err := io.ReadFull(conn, ok); err != nil {
				errs <- err
				return
			}
			c := tls.Client(conn, w.server.client(site))
			if _, err := io.WriteString(c, "ping"); err != nil {
				errs <- err
				return
			}
			if _, err := io.ReadFull(c, make([]byte, 4)); err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	closeQuietly(w.proxy)
	if diff := cmp.Diff([2]int{32, 32}, [2]int{w.countAudited("allow"), w.countAudited("closed")}); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
}

func (w *world) countAudited(verdict string) int {
	n := 0
	for _, line := range w.audited() {
		if strings.HasPrefix(line, verdict+" ") {
			n++
		}
	}
	return n
}

func TestReplyNamesAKnownStatus(t *testing.T) {
	for _, r := range []Reason{BadRequest, BadMethod, HeadTooLarge, HeadTimeout, BadAuthority, IPLiteral, HostMismatch, NotAllowed, TooMany, ResolveFailed, NotPublic, DialFailed, PolicyChanged, Stopped} {
		if http.StatusText(r.status()) == "" || r.status() < 400 {
			t.Errorf("%s answers %d", r, r.status())
		}
	}
}

// TestAThousandTunnelsAreOpenAtOnce holds all of them open before any says a word.
func TestAThousandTunnelsAreOpenAtOnce(t *testing.T) {
	const many = 1000
	hello := records(handshake(sniOf(site)), recordCap)
	w := newWorld(t, func(c *Config) {
		c.Policy, c.MaxTunnels = mustPolicy(t, Rule{Host: site, Upstream: echoer(t, len(hello))}), many
	})
	const connect, granted = "CONNECT api.example.com:443 HTTP/1.1\r\n\r\n", "HTTP/1.1 200 Connection established\r\n\r\n"
	conns := make([]net.Conn, many)
	for i := range conns {
		c, err := net.Dial("tcp", w.address)
		if err != nil {
			t.Fatal(err)
		}
		defer closeQuietly(c)
		if _, err := io.WriteString(c, connect); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, len(granted))); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write(hello); err != nil {
			t.Fatal(err)
		}
		conns[i] = c
	}
	w.refused(connect, 503, TooMany)
	for i, c := range conns {
		if _, err := c.Write([]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range conns {
		got := make([]byte, 1)
		if _, err := io.ReadFull(c, got); err != nil || got[0] != byte(i) {
			t.Fatalf("tunnel %d: %v, %v", i, got, err)
		}
		closeQuietly(c)
	}
	closeQuietly(w.proxy)
	if diff := cmp.Diff([2]int{many, many}, [2]int{w.countAudited("allow"), w.countAudited("closed")}); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
}
