package egress

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// tunnel is one admitted CONNECT, from the moment the policy allowed it.
type tunnel struct {
	target
	pin     netip.AddrPort
	serving context.Context // ends when everything is stopped
	ctx     context.Context // ends with the tunnel
	cancel  context.CancelFunc
	guest   net.Conn

	mu       sync.Mutex
	upstream net.Conn
	reason   Reason // why it ended, the first one given

	up, down atomic.Int64
	last     atomic.Int64 // when a byte last moved, Unix nanoseconds
}

func newTunnel(ctx context.Context, k target, pin netip.AddrPort, guest net.Conn) *tunnel {
	t := &tunnel{target: k, pin: pin, serving: ctx, guest: guest}
	t.ctx, t.cancel = context.WithCancel(ctx)
	return t
}

// end closes both sides for reason. Only the first reason counts. While the
// tunnel is not open yet the guest stays connected, to be told.
func (t *tunnel) end(reason Reason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settle(reason)
	t.cancel()
	if t.upstream != nil {
		closeQuietly(t.upstream)
		closeQuietly(t.guest)
	}
}

// attach gives t its upstream, unless it has ended meanwhile.
func (t *tunnel) attach(c net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.reason != "" || t.ctx.Err() != nil {
		return false
	}
	t.upstream = c
	return true
}

// reasonOr is why t was ended; when nothing ended it yet, it ends for why.
func (t *tunnel) reasonOr(why Reason) Reason {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settle(why)
	return t.reason
}

// settle gives t its reason. What breaks while everything stops was stopped.
func (t *tunnel) settle(reason Reason) {
	switch {
	case t.reason != "":
	case t.serving.Err() != nil:
		t.reason = Stopped
	default:
		t.reason = reason
	}
}

// run answers 200, checks the ClientHello and splices until both sides are done.
func (p *Proxy) run(t *tunnel, in *bufio.Reader) {
	defer closeQuietly(t.upstream)
	defer whenDone(t.ctx, func() { t.end(Stopped) })()
	if t.guest.SetDeadline(time.Now().Add(headTimeout)) != nil {
		return
	}
	if _, err := io.WriteString(t.guest, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		p.record(t.target, Denied, t.reasonOr(Broken), 0, 0)
		return
	}
	hello, sni, err := readHello(in)
	if why := helloReason(err, sni, t.host); why != "" {
		p.record(t.target, Denied, t.reasonOr(why), 0, 0)
		return
	}
	if t.guest.SetDeadline(time.Time{}) != nil {
		return
	}
	p.record(t.target, Allowed, "", 0, 0)
	p.splice(t, in, hello)
	p.record(t.target, Closed, t.reasonOr(Finished), t.up.Load(), t.down.Load())
}

func helloReason(err error, sni, host string) Reason {
	switch {
	case errors.Is(err, errNoSNI):
		return NoSNI
	case err != nil:
		return NotTLS
	case sni != host:
		return SNIMismatch
	}
	return ""
}

// splice copies both ways and passes half-closes on.
func (p *Proxy) splice(t *tunnel, in *bufio.Reader, hello []byte) {
	early, _ := in.Peek(in.Buffered()) // never reads, so it cannot fail
	first := append(hello, early...)
	if err := t.upstream.SetWriteDeadline(time.Now().Add(headTimeout)); err != nil {
		t.end(Broken)
		return
	}
	if _, err := t.upstream.Write(first); err != nil {
		t.end(Broken)
		return
	}
	t.up.Add(int64(len(first)))
	t.touch()
	var back sync.WaitGroup
	back.Go(func() { p.copy(t, t.guest, t.upstream, &t.down) })
	p.copy(t, t.upstream, t.guest, &t.up)
	back.Wait()
}

// chunk is how many bytes move before they are counted.
const chunk = 256 << 10

// copyBuffers serve where the kernel cannot splice.
var copyBuffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

// copy moves src to dst until src ends, and ends the tunnel when a cap is
// reached or a side breaks. A silent source alone is not idle: the last byte of
// either direction counts.
func (p *Proxy) copy(t *tunnel, dst, src net.Conn, count *atomic.Int64) {
	buf := copyBuffers.Get().(*[64 << 10]byte)
	defer copyBuffers.Put(buf)
	for {
		left := p.cfg.MaxBytes - t.up.Load() - t.down.Load()
		if left <= 0 {
			t.end(ByteCap)
			return
		}
		begin := time.Now()
		if src.SetReadDeadline(begin.Add(p.cfg.Idle/4)) != nil || dst.SetWriteDeadline(begin.Add(p.cfg.Idle)) != nil {
			t.end(Broken)
			return
		}
		// The limited reader keeps the splice in reach: net.TCPConn.ReadFrom knows it.
		limit := min(left, chunk)
		n, err := io.CopyBuffer(dst, &io.LimitedReader{R: src, N: limit}, buf[:])
		if n > 0 {
			count.Add(n)
			t.touch()
		}
		var ne net.Error
		switch {
		case err == nil && n == limit:
		case err == nil: // end of stream
			if closeWrite(dst) != nil {
				t.end(Broken)
			}
			return
		case !errors.As(err, &ne) || !ne.Timeout():
			t.end(Broken)
			return
		case time.Since(begin) >= p.cfg.Idle || t.quiet() >= p.cfg.Idle:
			// Before that only the read can have timed out, and a read loses nothing.
			t.end(Idle)
			return
		}
	}
}

// quiet is how long no byte moved.
func (t *tunnel) quiet() time.Duration { return time.Since(time.Unix(0, t.last.Load())) }

func (t *tunnel) touch() { t.last.Store(time.Now().UnixNano()) }

// closeWrite passes an end of stream on. TCP and Unix sockets can.
func closeWrite(c net.Conn) error {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return errors.ErrUnsupported
}

// linger lets the guest read a reply although it has sent more than was read: a
// close with unread bytes resets the connection and discards the reply.
func linger(c net.Conn) {
	if closeWrite(c) != nil {
		return
	}
	if _, err := io.Copy(io.Discard, io.LimitReader(c, 256<<10)); err != nil {
		return // the deadline, or the guest went
	}
}

// closeQuietly closes what is given up anyway; nobody could act on the error.
func closeQuietly(c io.Closer) { _ = c.Close() }

// whenDone calls f when ctx ends. The function it returns calls that off, or
// waits until f has returned.
func whenDone(ctx context.Context, f func()) (stop func()) {
	returned := make(chan struct{})
	off := context.AfterFunc(ctx, func() {
		defer close(returned)
		f()
	})
	return func() {
		if !off() {
			<-returned
		}
	}
}
