package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"nod"
)

// API is the dialect of a model's API.
type API string

const (
	Anthropic API = "anthropic" // POST /v1/messages
	OpenAI    API = "openai"    // POST /v1/responses
)

// Path is what follows the proxy's address in the base URL that an agent is given.
func (a API) Path() string {
	if a == OpenAI {
		return "/v1"
	}
	return ""
}

// URL is where the public API of a is.
func (a API) URL() string {
	if a == OpenAI {
		return "https://api.openai.com/v1"
	}
	return "https://api.anthropic.com"
}

// tokenPrefix begins every token, so that one that got somewhere is recognised.
const tokenPrefix = "nod-run-"

const (
	headTime   = 10 * time.Second // for the head of a request from inside
	idleTime   = 2 * time.Minute  // of a connection from inside between requests
	answerTime = 15 * time.Minute // until the model's API begins its answer
	dialTime   = 30 * time.Second
	headerCap  = 32 << 10
	bodyCap    = 64 << 20 // of a request; both APIs take less
	perRun     = 32       // requests of one run at once
)

// Upstream is a model's API and the key for it.
type Upstream struct {
	api  API
	base *url.URL
	key  nod.Secret
	via  http.RoundTripper

	login bool // the key is a login's token
}

// Login is u with a key that is the token of a person's login to a subscription,
// which Anthropic's API takes as a bearer.
func (u Upstream) Login() *Upstream {
	u.login = true
	return &u
}

// NewUpstream checks an upstream. base is the API's address as a program's own
// configuration has it (with /v1 for OpenAI's), https or http on loopback; the
// public API when empty. caPEM are the authorities to trust; the system's when
// empty. Errors are Invalid.
func NewUpstream(api API, base string, key nod.Secret, caPEM []byte) (*Upstream, error) {
	if api != Anthropic && api != OpenAI {
		return nil, nod.E(nod.Invalid, "the model's API is of no kind that nod knows", nil)
	}
	if key.Empty() || strings.ContainsFunc(key.Reveal(), func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, nod.E(nod.Invalid, "the model's key holds nothing, or a character that no key has", nil)
	}
	if base == "" {
		base = api.URL()
	}
	u, err := url.Parse(strings.TrimSuffix(base, "/"))
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, nod.E(nod.Invalid, "the model's address is not an https address", err)
	case u.Scheme == "http" && !net.ParseIP(u.Hostname()).IsLoopback():
		return nil, nod.E(nod.Invalid, "the model's address would send the key without TLS", nil)
	}
	t := &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: dialTime}).DialContext, TLSHandshakeTimeout: dialTime,
		ForceAttemptHTTP2: true, DisableCompression: true, ResponseHeaderTimeout: answerTime, IdleConnTimeout: idleTime,
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if len(caPEM) > 0 {
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(caPEM) {
			return nil, nod.E(nod.Invalid, "the authorities of the model's address are no PEM certificates", nil)
		}
	}
	return &Upstream{api: api, base: u, key: key, via: t}, nil
}

// API is the dialect of u.
func (u *Upstream) API() API { return u.api }

// Gateway serves the ways of any number of runs. Make it with New, Close it.
type Gateway struct {
	log    *slog.Logger
	now    func() time.Time
	server *http.Server
	conns  chan net.Conn
	ctx    context.Context // ends with Close
	stop   context.CancelFunc
	done   sync.WaitGroup

	mu     sync.Mutex
	routes map[[sha256.Size]byte]*route
}

// New makes a gateway that lets nobody through yet. log may be nil.
func New(now func() time.Time, log *slog.Logger) *Gateway {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{log: log, now: now, conns: make(chan net.Conn), routes: map[[sha256.Size]byte]*route{}}
	g.ctx, g.stop = context.WithCancel(context.Background())
	g.server = &http.Server{Handler: g, ReadHeaderTimeout: headTime, IdleTimeout: idleTime, MaxHeaderBytes: headerCap,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, environmentKey{}, c.(*guestConn).environment)
		}}
	g.done.Go(func() { _ = g.server.Serve((*feed)(g)) }) // always the end of the feed, from Close
	return g
}

// Close ends every call and every connection and waits for them.
func (g *Gateway) Close() error {
	g.stop()
	err := g.server.Close()
	g.done.Wait()
	return err
}

// Serve speaks HTTP over one connection from inside an environment until it ends,
// ctx does or the gateway is closed. It is an egress proxy's Local.
func (g *Gateway) Serve(ctx context.Context, environment string, c net.Conn) {
	conn := &guestConn{Conn: c, environment: environment, closed: make(chan struct{})}
	select {
	case g.conns <- conn:
	case <-ctx.Done():
		_ = c.Close() // nobody reads it any more
		return
	case <-g.ctx.Done():
		_ = c.Close()
		return
	}
	select {
	case <-conn.closed:
	case <-ctx.Done():
		_ = conn.Close() // the environment's way out ends
	}
}

// environmentKey is where a request's context has the environment it came from.
type environmentKey struct{}

// guestConn is a connection that knows where it came from.
type guestConn struct {
	net.Conn
	environment string
	once        sync.Once
	closed      chan struct{}
}

func (c *guestConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// feed is a listener for the connections that Serve is given.
type feed Gateway

func (f *feed) Accept() (net.Conn, error) {
	select {
	case c := <-f.conns:
		return c, nil
	case <-f.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (f *feed) Close() error   { return nil }
func (f *feed) Addr() net.Addr { return &net.UnixAddr{Name: "egress", Net: "unix"} }

// newToken makes a token of 26 random characters.
func newToken() nod.Secret { return nod.NewSecret(tokenPrefix + rand.Text()) }
