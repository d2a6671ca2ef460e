package egress

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// source sends bytes to whoever connects, once it has read a ClientHello from
// those that send one first.
func source(b *testing.B, hello int) (address string) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 256<<10)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer closeQuietly(c)
				if _, err := io.ReadFull(c, make([]byte, hello)); err != nil {
					return
				}
				for {
					if _, err := c.Write(buf); err != nil {
						return
					}
				}
			})
		}
	})
	b.Cleanup(func() {
		closeQuietly(l)
		wg.Wait()
	})
	return l.Addr().String()
}

// plainRelay is the least that a relay can do: two io.Copy, which the kernel
// splices.
func plainRelay(b *testing.B, to string) (address string) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer closeQuietly(c)
				up, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer closeQuietly(up)
				wg.Go(func() { _, _ = io.Copy(up, c); closeQuietly(up) })
				_, _ = io.Copy(c, up)
			})
		}
	})
	b.Cleanup(func() {
		closeQuietly(l)
		wg.Wait()
	})
	return l.Addr().String()
}

func benchProxy(b *testing.B, upstream string) string {
	b.Helper()
	p, err := New(Config{Policy: mustPolicy(b, Rule{Host: site, Upstream: upstream}), Environment: "e1", Audit: func(Event) {}, MaxBytes: 1 << 60, MaxTunnels: 1000})
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- p.Serve(context.Background(), l) }()
	b.Cleanup(func() {
		closeQuietly(p)
		if err := <-served; err != nil {
			b.Error(err)
		}
	})
	return l.Addr().String()
}

// start connects to address, with a CONNECT when asked, and sends hello.
func start(b *testing.B, address string, connect bool, hello []byte) net.Conn {
	b.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { closeQuietly(c) })
	if connect {
		if _, err := io.WriteString(c, "CONNECT api.example.com:443 HTTP/1.1\r\n\r\n"); err != nil {
			b.Fatal(err)
		}
		ok := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
		if _, err := io.ReadFull(c, ok); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := c.Write(hello); err != nil {
		b.Fatal(err)
	}
	return c
}

// BenchmarkThroughput moves 1 MiB per iteration in turn through a plain relay and
// through the proxy, and reports the proxy's speed as a share of the relay's.
func BenchmarkThroughput(b *testing.B) {
	hello := records(handshake(sniOf(site)), recordCap)
	to := source(b, len(hello))
	relay := start(b, plainRelay(b, to), false, hello)
	proxy := start(b, benchProxy(b, to), true, hello)
	const size = 1 << 20
	buf := make([]byte, size)
	var spent [2]time.Duration
	b.SetBytes(2 * size)
	for b.Loop() {
		for i, c := range []net.Conn{relay, proxy} {
			begin := time.Now()
			if _, err := io.ReadFull(c, buf); err != nil {
				b.Fatal(err)
			}
			spent[i] += time.Since(begin)
		}
	}
	b.ReportMetric(float64(spent[0])/float64(spent[1]), "of-relay")
}

// echoer sends back what it reads, once it has read a ClientHello.
func echoer(b testing.TB, hello int) (address string) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer closeQuietly(c)
				if _, err := io.ReadFull(c, make([]byte, hello)); err == nil {
					_, _ = io.Copy(c, c) // until either side has enough
				}
			})
		}
	})
	b.Cleanup(func() {
		closeQuietly(l)
		wg.Wait()
	})
	return l.Addr().String()
}

// BenchmarkLatency sends one byte there and back in turn through a plain relay and
// through the proxy, and reports what the proxy adds.
func BenchmarkLatency(b *testing.B) {
	hello := records(handshake(sniOf(site)), recordCap)
	to := echoer(b, len(hello))
	relay := start(b, plainRelay(b, to), false, hello)
	proxy := start(b, benchProxy(b, to), true, hello)
	one := make([]byte, 1)
	var spent [2]time.Duration
	for b.Loop() {
		for i, c := range []net.Conn{relay, proxy} {
			begin := time.Now()
			if _, err := c.Write(one); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(c, one); err != nil {
				b.Fatal(err)
			}
			spent[i] += time.Since(begin)
		}
	}
	b.ReportMetric(float64(spent[1])/float64(spent[0]), "of-relay")
	b.ReportMetric(float64(spent[1]-spent[0])/float64(b.N), "ns-added")
}

// BenchmarkThousandTunnels sends one byte there and back on each of 1,000 open
// tunnels, and on as many connections through a plain relay.
func BenchmarkThousandTunnels(b *testing.B) {
	hello := records(handshake(sniOf(site)), recordCap)
	to := echoer(b, len(hello))
	plain, through := plainRelay(b, to), benchProxy(b, to)
	var conns [2][]net.Conn
	for range 1000 {
		conns[0] = append(conns[0], start(b, plain, false, hello))
		conns[1] = append(conns[1], start(b, through, true, hello))
	}
	one := make([]byte, 1)
	var spent [2]time.Duration
	for b.Loop() {
		for i, set := range conns {
			begin := time.Now()
			for _, c := range set {
				if _, err := c.Write(one); err != nil {
					b.Fatal(err)
				}
			}
			for _, c := range set {
				if _, err := io.ReadFull(c, one); err != nil {
					b.Fatal(err)
				}
			}
			spent[i] += time.Since(begin)
		}
	}
	b.ReportMetric(float64(spent[1])/float64(spent[0]), "of-relay")
}

// BenchmarkConnect opens and closes a tunnel: head, policy, dial, ClientHello.
func BenchmarkConnect(b *testing.B) {
	hello := records(handshake(sniOf(site)), recordCap)
	to := source(b, len(hello))
	for name, c := range map[string]struct {
		address string
		connect bool
	}{
		"relay": {plainRelay(b, to), false},
		"proxy": {benchProxy(b, to), true},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				conn := start(b, c.address, c.connect, hello)
				if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
					b.Fatal(err)
				}
				closeQuietly(conn)
			}
		})
	}
}

// BenchmarkDeny is what a guest pays the host for asking in vain.
func BenchmarkDeny(b *testing.B) {
	address := benchProxy(b, "127.0.0.1:1")
	for b.Loop() {
		c, err := net.Dial("tcp", address)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.WriteString(c, "CONNECT evil.example:443 HTTP/1.1\r\n\r\n"); err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil {
			b.Fatal(err)
		}
		closeQuietly(c)
	}
}
