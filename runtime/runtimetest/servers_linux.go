package runtimetest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// resolver answers names as it is told, and counts who was asked for.
type resolver struct {
	mu      sync.Mutex
	answers map[string][]netip.Addr
	next    map[string][]netip.Addr // one a look-up, before answers count
	asked   map[string]int
}

// LookupNetIP answers like a real one: a name without answers is not found.
func (r *resolver) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	host = strings.TrimSuffix(host, ".")
	if r.asked == nil {
		r.asked = map[string]int{}
	}
	r.asked[host]++
	if n := r.next[host]; len(n) > 0 {
		r.next[host] = n[1:]
		return n[:1], nil
	}
	if a := r.answers[host]; len(a) > 0 {
		return a, nil
	}
	return nil, &net.DNSError{Err: "canary", Name: host, IsNotFound: true}
}

func (r *resolver) set(host string, addresses ...string) {
	var list []netip.Addr
	for _, a := range addresses {
		list = append(list, netip.MustParseAddr(a))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers = map[string][]netip.Addr{host: list}
}

// count is how often names were asked for, of host or, for "", of all.
func (r *resolver) count(host string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for h, k := range r.asked {
		if host == "" || h == host {
			n += k
		}
	}
	return n
}

// echoServer serves TLS on loopback: it echoes until the client has ended its
// direction, and then says how many bytes that were.
func echoServer(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{listed}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				n, err := io.Copy(c, c)
				if err == nil {
					_, _ = fmt.Fprintf(c, "of %d", n) // a client that is gone is judged by what it said
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // Accept tells
		serving.Wait()
	})
	return l.Addr().String()
}

// canary is servers on this host that would answer whoever reached them.
type canary struct {
	targets []string // "network|address"
	hits    atomic.Int64
}

// newCanary listens on TCP and UDP at each of the host's addresses, on a port for
// names where this user may, and shows that it answers from here.
func newCanary(t *testing.T, addresses ...string) *canary {
	t.Helper()
	c := &canary{}
	for _, a := range addresses {
		for _, port := range []string{"53", "0"} {
			l, err := net.Listen("tcp", net.JoinHostPort(a, port))
			if err != nil && port == "53" {
				continue // not this user's to take, or taken
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			u, err := net.ListenPacket("udp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = u.Close() })
			go c.answer(l)
			go c.answerPackets(u)
			c.targets = append(c.targets, "tcp|"+l.Addr().String(), "udp|"+u.LocalAddr().String())
		}
	}
	before := c.hits.Load()
	for _, target := range c.targets {
		network, address, _ := strings.Cut(target, "|")
		if err := exchange(network, address); err != nil {
			t.Fatalf("the canary at %s does not answer: %v", target, err)
		}
	}
	if got := int(c.hits.Load() - before); got < len(c.targets) {
		t.Fatalf("the canary counted %d of %d", got, len(c.targets))
	}
	return c
}

func (c *canary) answer(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		c.hits.Add(1)
		_, _ = conn.Write([]byte("x"))
		_ = conn.Close()
	}
}

func (c *canary) answerPackets(u net.PacketConn) {
	for buf := make([]byte, 512); ; {
		n, from, err := u.ReadFrom(buf)
		if err != nil {
			return
		}
		c.hits.Add(1)
		_, _ = u.WriteTo(buf[:n], from)
	}
}

// hostAddresses are loopback addresses of one's own and the host's others, of
// both families where it has them.
func hostAddresses(t *testing.T) (loopback, others []string) {
	t.Helper()
	pid := os.Getpid()
	loopback = []string{fmt.Sprintf("127.%d.%d.53", 1+pid>>8%250, pid%250), "127.0.0.1"}
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil {
		loopback = append(loopback, "::1")
		_ = l.Close()
	}
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			others = append(others, n.IP.String())
		}
	}
	return loopback, others
}
