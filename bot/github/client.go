package github

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	gh "github.com/google/go-github/v66/github"

	"nod"
)

const (
	// callTimeout bounds one request to GitHub with its answer.
	callTimeout = 60 * time.Second
	// maxAnswer is how many bytes of one answer are read; more is an error.
	maxAnswer = 32 << 20
)

// Config says which GitHub, as which App.
type Config struct {
	APIURL       string     // REST root; empty: https://api.github.com/. GHES: https://HOST/api/v3/
	Host         string     // as actors and repositories name it; empty: github.com
	WebURL       string     // root of clone URLs; empty: https:// and Host
	AppID        int64      // required
	PrivateKey   nod.Secret // required: the App's RSA key, PEM
	Owners       []int64    // numeric ids of the accounts that own this nod
	TriggerLabel string     // label whose setter Issue reports; empty: none is reported
	// PushWorkflows lets Remote ask for the permission to push workflow files, which
	// the App must have been granted.
	PushWorkflows bool
	TierLife      time.Duration     // how long a tier that GitHub told counts; 0: 30 s, negative: not at all
	HTTP          http.RoundTripper // nil: a transport of its own
	Log           *slog.Logger      // nil: nothing is logged
	Now           func() time.Time  // nil: the system clock
}

// Client speaks to one GitHub as one App. Its methods may be called from several
// goroutines.
type Client struct {
	api, web  *url.URL
	host      string
	appID     int64
	key       *rsa.PrivateKey
	owners    []int64
	trigger   string
	workflows bool
	base      http.RoundTripper
	plain     http.RoundTripper // for what is fetched elsewhere, with nothing that authenticates
	log       *slog.Logger
	now       func() time.Time
	app       *gh.Client   // as the App itself
	skew      atomic.Int64 // how far this machine's clock was ahead of GitHub's in the last answer, as a time.Duration

	tierLife time.Duration

	mu       sync.Mutex // guards what follows
	tiers    map[string]*tierKnown
	reaches  map[reach]*access
	live     map[string]time.Time // every token that may still be alive, and until when
	moved    map[int64]int64      // installation id to the one that replaced it
	identity Identity             // zero until it was read
}

// New checks c and makes a Client. It talks to nobody yet.
func New(c Config) (*Client, error) {
	cl := &Client{host: orElse(c.Host, "github.com"), appID: c.AppID, owners: c.Owners, trigger: c.TriggerLabel, log: c.Log, now: c.Now,
		tierLife: tierLife, reaches: map[reach]*access{}, live: map[string]time.Time{}, moved: map[int64]int64{}, workflows: c.PushWorkflows}
	var err error
	if cl.api, err = root(orElse(c.APIURL, "https://api.github.com/")); err != nil {
		return nil, err
	}
	if cl.web, err = root(orElse(c.WebURL, "https://"+cl.host)); err != nil {
		return nil, err
	}
	if cl.appID <= 0 {
		return nil, nod.E(nod.Invalid, "the GitHub App's id is missing", nil)
	}
	if cl.key, err = parseKey(c.PrivateKey); err != nil {
		return nil, err
	}
	if cl.log == nil {
		cl.log = slog.New(slog.DiscardHandler)
	}
	if cl.now == nil {
		cl.now = time.Now
	}
	if c.TierLife != 0 {
		cl.tierLife = c.TierLife
	}
	inner := c.HTTP
	if inner == nil {
		inner = &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 8,
			IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: 30 * time.Second,
			DialContext: (&net.Dialer{Timeout: 10 * time.Second}).DialContext}
	}
	cl.plain = inner
	cl.base = &guard{measure: cl.measure, scheme: cl.api.Scheme, host: cl.api.Host, next: inner}
	cl.app = cl.speak(ghinstallation.NewAppsTransportFromPrivateKey(cl.base, cl.appID, cl.key))
	return cl, nil
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// root parses a base URL, with a slash at the end. Plain http is for loopback.
func root(raw string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(raw, "/") + "/")
	if err != nil || u.Host == "" || u.User != nil {
		return nil, nod.E(nod.Invalid, "the GitHub URL is not a URL", err)
	}
	ip := net.ParseIP(u.Hostname())
	loopback := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	if u.Scheme != "https" && !(u.Scheme == "http" && loopback) {
		return nil, nod.E(nod.Invalid, "the GitHub URL must be https", nil)
	}
	return u, nil
}

func parseKey(secret nod.Secret) (*rsa.PrivateKey, error) {
	bad := &nod.Error{Code: nod.Invalid, Msg: "the GitHub App's private key is not an RSA key in PEM form",
		Hint: "download it from the App's settings page"}
	block, _ := pem.Decode([]byte(secret.Reveal()))
	if block == nil {
		return nil, bad
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	any8, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if key, ok := any8.(*rsa.PrivateKey); err == nil && ok {
		return key, nil
	}
	return nil, bad
}

// speak makes a go-github client over a transport that authenticates.
func (c *Client) speak(rt http.RoundTripper) *gh.Client {
	client := gh.NewClient(&http.Client{Transport: rt, Timeout: callTimeout})
	client.BaseURL = c.api
	client.UserAgent = "nod"
	return client
}

// guard lets requests through to the configured API only, whatever a redirect or a
// Link header says, and caps what is read of an answer.
type guard struct {
	measure      func(date string) // of each answer; nil: nobody asks
	scheme, host string
	next         http.RoundTripper
}

var errElsewhere = errors.New("a request would have left the configured GitHub")

func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != g.scheme || r.URL.Host != g.host {
		if r.Body != nil {
			return nil, errors.Join(errElsewhere, r.Body.Close())
		}
		return nil, errElsewhere
	}
	res, err := g.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if g.measure != nil {
		g.measure(res.Header.Get("Date"))
	}
	res.Body = &capped{res.Body, maxAnswer}
	return res, nil
}

// measure compares the clock with the date of an answer, and says so once when they
// have come apart.
func (c *Client) measure(date string) {
	at, err := http.ParseTime(date)
	if err != nil {
		return
	}
	skew := c.now().Sub(at).Truncate(time.Second)
	if was := time.Duration(c.skew.Swap(int64(skew))); skew.Abs() > maxSkew && was.Abs() <= maxSkew {
		c.log.Warn("the clock is not GitHub's", "ahead_s", int64(skew/time.Second))
	}
}

type capped struct {
	io.ReadCloser
	left int64
}

func (c *capped) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, nod.E(nod.TooLarge, "GitHub's answer is too long", nil)
	}
	n, err := c.ReadCloser.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// The lengths are not in the expressions: what is counted there is compiled that many
// times, whenever nod starts, be it as PID 1 of an environment.
var (
	ownerShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`)
	nameShape  = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
)

const maxName = 100

func validOwner(s string) bool { return len(s) <= maxName && ownerShape.MatchString(s) }

func validLogin(s string) bool { return validOwner(strings.TrimSuffix(s, "[bot]")) }

// check refuses a repository of another host, or one whose name would change the
// meaning of a URL.
func (c *Client) check(repo nod.Repo) error {
	if !strings.EqualFold(repo.Host, c.host) {
		return nod.E(nod.Invalid, "the repository is on another host", nil)
	}
	if !validOwner(repo.Owner) || len(repo.Name) > maxName || !nameShape.MatchString(repo.Name) || strings.Trim(repo.Name, ".") == "" {
		return nod.E(nod.Invalid, "that is not the name of a repository", nil)
	}
	return nil
}

// CloneURL is where git reaches repo. It holds no credentials.
func (c *Client) CloneURL(repo nod.Repo) string {
	return c.web.JoinPath(repo.Owner, repo.Name+".git").String()
}

// actor is who GitHub's API names; a deleted account has no id.
func (c *Client) actor(u *gh.User) nod.Actor {
	a := nod.Actor{Kind: nod.ActorGitHub, Host: c.host}
	if u != nil {
		a.ID, a.Login, a.Bot = u.GetID(), u.GetLogin(), u.GetType() != "User"
	}
	return a
}

// in returns a go-github client for one repository with exactly perms.
func (c *Client) in(ctx context.Context, installation int64, repo nod.Repo, perms map[string]string) (*gh.Client, error) {
	a, err := c.access(reachOf(installation, repo, perms))
	if err != nil {
		return nil, err
	}
	return a.client, ctx.Err()
}
