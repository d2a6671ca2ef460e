package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/time/rate"

	"nod"
)

// Config is what a proxy needs.
type Config struct {
	Policy      *Policy     // nil denies everything
	Environment string      // required; the listener is its identity
	Audit       func(Event) // required; called from many goroutines, must return soon
	Resolver    Resolver    // nil means net.DefaultResolver
	Now         func() time.Time
	Log         *slog.Logger // nil discards
	// Local serves plain HTTP that the guest sends to the proxy itself, as the
	// model gateway does. It is given each such connection from its first byte, and
	// returns when it is done with it or ctx ends. nil refuses them all.
	Local func(ctx context.Context, environment string, c net.Conn)

	MaxTunnels int           // at once; 0 means 256
	MaxBytes   int64         // both ways of one tunnel, give or take 256 KiB; 0 means 8 GiB
	Idle       time.Duration // without a byte either way, to a quarter; 0 means 10 minutes
}

const (
	headTimeout    = 10 * time.Second // for the whole head, and again for the ClientHello
	resolveTimeout = 10 * time.Second
	dialTimeout    = 15 * time.Second // over all addresses of a name
	attemptTimeout = 5 * time.Second  // for one of them
	replyTimeout   = 2 * time.Second
	maxAttempts    = 6  // addresses of one name that are tried
	waiting        = 64 // connections beyond MaxTunnels that may be in their head
)

// Proxy serves one environment's way out. Make it with New.
type Proxy struct {
	cfg   Config
	audit *audit
	dial  func(ctx context.Context, to netip.AddrPort, check func(netip.AddrPort) bool) (net.Conn, error)
	own   func() ([]netip.Addr, error)

	ctx   context.Context // ends with Close
	stop  context.CancelFunc
	serve sync.WaitGroup

	mu      sync.Mutex
	policy  *Policy
	tunnels map[*tunnel]struct{}
	running int // what runs behind it
	closed  bool
}

// New makes a proxy that serves nothing yet. Errors are Invalid.
func New(c Config) (*Proxy, error) {
	switch {
	case c.Environment == "":
		return nil, nod.E(nod.Invalid, "an egress proxy needs the name of its environment", nil)
	case c.Audit == nil:
		return nil, nod.E(nod.Invalid, "an egress proxy needs an audit", nil)
	case c.MaxTunnels < 0 || c.MaxBytes < 0 || c.Idle < 0:
		return nil, nod.E(nod.Invalid, "an egress cap is negative", nil)
	}
	if c.Resolver == nil {
		c.Resolver = net.DefaultResolver
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.MaxTunnels == 0 {
		c.MaxTunnels = 256
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = 8 << 30
	}
	if c.Idle == 0 {
		c.Idle = 10 * time.Minute
	}
	p := &Proxy{
		cfg:     c,
		audit:   &audit{emit: c.Audit, limit: rate.NewLimiter(rate.Every(time.Second), 20)},
		dial:    dial,
		own:     hostAddresses,
		policy:  c.Policy,
		tunnels: make(map[*tunnel]struct{}),
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p, nil
}

// Serve accepts connections on l until ctx ends or the proxy is closed, and then
// returns nil, after every connection it accepted has ended. It closes l in any
// case: a proxy that cannot serve leaves no listener behind.
func (p *Proxy) Serve(ctx context.Context, l net.Listener) error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return errors.Join(nod.E(nod.Conflict, "the egress proxy is closed", nil), l.Close())
	}
	p.serve.Add(1)
	p.mu.Unlock()
	defer p.serve.Done()

	ctx, cancel := context.WithCancel(ctx)
	defer whenDone(p.ctx, cancel)()
	defer whenDone(ctx, func() { closeQuietly(l) })()
	var conns sync.WaitGroup
	defer conns.Wait()
	defer closeQuietly(l)
	defer cancel()

	slots := make(chan struct{}, p.cfg.MaxTunnels+waiting)
	for backoff := time.Duration(0); ; {
		select {
		case slots <- struct{}{}: // more wait in the kernel's queue
		case <-ctx.Done():
			return nil
		}
		conn, err := l.Accept()
		if err != nil {
			<-slots
			if ctx.Err() != nil {
				return nil
			}
			if !passing(err) {
				return fmt.Errorf("accept for environment %s: %w", p.cfg.Environment, err)
			}
			backoff = min(max(5*time.Millisecond, 2*backoff), time.Second)
			p.cfg.Log.Warn("egress accept failed", "environment", p.cfg.Environment, "err", err)
			select {
			case <-time.After(backoff):
			case <-ctx.Done():
			}
			continue
		}
		backoff = 0
		conns.Go(func() {
			defer func() { <-slots }()
			p.handle(ctx, conn)
		})
	}
}

// passing reports whether an accept error can go away by itself.
func passing(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Begin says that something runs behind the proxy, until end is called. Meanwhile
// Update can only take away: what runs was started under what a person knew.
func (p *Proxy) Begin() (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running++
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.running--
	})
}

// Update puts policy in force at once: tunnels that it does not allow, or leads
// elsewhere, are closed before Update returns. nil denies everything. While
// something runs, a policy that allows anything new is a Conflict.
func (p *Proxy) Update(policy *Policy) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running > 0 && !policy.within(p.policy) {
		return nod.E(nod.Conflict, "what runs in the environment keeps its hosts: more are let through once it has ended", nil)
	}
	p.policy = policy
	for t := range p.tunnels {
		if pin, ok := policy.permits(t.target); !ok || pin != t.pin {
			t.end(PolicyChanged)
			delete(p.tunnels, t)
		}
	}
	return nil
}

// Close ends every tunnel and every Serve and waits for them. It may be called twice.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop()
	p.serve.Wait()
	p.audit.flush()
	return nil
}

// admit makes a tunnel when the policy in force allows k. The check and the
// registration are one step, so that no Update falls between them.
func (p *Proxy) admit(ctx context.Context, k target, guest net.Conn) (*tunnel, Reason) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pin, ok := p.policy.permits(k)
	if !ok {
		return nil, NotAllowed
	}
	if len(p.tunnels) >= p.cfg.MaxTunnels {
		return nil, TooMany
	}
	t := newTunnel(ctx, k, pin, guest)
	p.tunnels[t] = struct{}{}
	return t, ""
}

func (p *Proxy) release(t *tunnel) {
	t.cancel()
	p.mu.Lock()
	delete(p.tunnels, t)
	p.mu.Unlock()
}

// replayed is a connection whose beginning was read already.
type replayed struct {
	net.Conn
	all io.Reader
}

func (r *replayed) Read(b []byte) (int, error) { return r.all.Read(b) }

// handle serves one connection: exactly one CONNECT, or plain HTTP for Local.
func (p *Proxy) handle(ctx context.Context, guest net.Conn) {
	defer closeQuietly(guest)
	defer whenDone(ctx, func() { closeQuietly(guest) })()
	if guest.SetDeadline(time.Now().Add(headTimeout)) != nil {
		return
	}
	in := bufio.NewReaderSize(guest, headCap)
	head, err := readHead(in)
	if err != nil {
		if why := headReason(err); why != "" && ctx.Err() == nil {
			p.refuse(guest, target{}, why)
		}
		return
	}
	if p.cfg.Local != nil && toItself(head) {
		if guest.SetDeadline(time.Time{}) == nil {
			p.cfg.Local(ctx, p.cfg.Environment, &replayed{guest, io.MultiReader(strings.NewReader(head), in)})
		}
		return
	}
	k, why := parseHead(head)
	if why != "" {
		p.refuse(guest, target{}, why)
		return
	}
	t, why := p.admit(ctx, k, guest)
	if why != "" {
		p.refuse(guest, k, why)
		return
	}
	defer p.release(t)
	if why := p.open(t); why != "" {
		p.refuse(guest, k, why)
		return
	}
	p.run(t, in)
}

// headReason is what to answer to a head that did not come; nothing when the
// guest has gone.
func headReason(err error) Reason {
	var ne net.Error
	switch {
	case errors.Is(err, errHeadTooLarge):
		return HeadTooLarge
	case errors.As(err, &ne) && ne.Timeout():
		return HeadTimeout
	}
	return ""
}

// refuse answers with a fixed text and records the denial.
func (p *Proxy) refuse(guest net.Conn, k target, why Reason) {
	p.record(k, Denied, why, 0, 0)
	text := "nod: egress denied: " + string(why) + "\n"
	reply := fmt.Sprintf("HTTP/1.1 %d %s\r\nX-Nod-Deny: %s\r\nContent-Type: text/plain; charset=utf-8\r\n"+
		"Content-Length: %d\r\nConnection: close\r\n\r\n%s",
		why.status(), http.StatusText(why.status()), why, len(text), text)
	if guest.SetDeadline(time.Now().Add(replyTimeout)) != nil {
		return
	}
	if _, err := guest.Write([]byte(reply)); err == nil {
		linger(guest)
	}
}

func (p *Proxy) record(k target, v Verdict, why Reason, up, down int64) {
	p.audit.record(Event{
		At: p.cfg.Now(), Environment: p.cfg.Environment, Host: k.host, Port: int(k.port),
		Verdict: v, Reason: why, Up: up, Down: down,
	})
}
