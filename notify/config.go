package notify

import (
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"

	"nod"
)

const (
	// topicMin is how many characters a topic needs: whoever knows it reads the
	// pushes and can send some.
	topicMin = 20
	// distinctMin is how many different ones. Twenty random characters, digits
	// even, practically always have more.
	distinctMin = 6
	// timeout is for one publish, from dial to the end of the answer.
	timeout = 15 * time.Second
)

// topicPattern is ntfy's own rule.
var topicPattern = regexp.MustCompile(`^[-_A-Za-z0-9]{1,64}$`)

// Config is what a publisher needs.
type Config struct {
	URL   string       // base of the ntfy server; https, or http on loopback
	Topic nod.Secret   // at least 20 random characters of A-Z a-z 0-9 - _
	Token nod.Secret   // optional access token; or
	User  string       // an account's name, with its
	Pass  nod.Secret   // password
	Icon  string       // address of a PNG that phones show beside the words; optional
	HTTP  *http.Client // nil means one of its own; redirects are never followed
	Log   *slog.Logger // nil discards
}

// Publisher sends pushes to one topic. It is safe for concurrent use.
type Publisher struct {
	root  string
	topic nod.Secret
	token nod.Secret
	user  string
	pass  nod.Secret
	icon  string
	http  *http.Client
	log   *slog.Logger
}

// New makes a publisher. It sends nothing yet. Errors are Invalid.
func New(c Config) (*Publisher, error) {
	root, err := rootOf(c.URL)
	if err != nil {
		return nil, err
	}
	if err := checkTopic(c.Topic.Reveal()); err != nil {
		return nil, err
	}
	if err := checkToken(c.Token); err != nil {
		return nil, err
	}
	if (c.User == "") != c.Pass.Empty() || c.User != "" && !c.Token.Empty() {
		return nil, invalid("ntfy takes a token, or a user and a password", "")
	}
	if strings.ContainsFunc(c.User+c.Pass.Reveal(), unicode.IsControl) || strings.Contains(c.User, ":") {
		return nil, invalid("the ntfy user or password holds a character that neither has", "is there a line break in the password's file?")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Publisher{root: root, topic: c.Topic, token: c.Token, user: c.User, pass: c.Pass, icon: c.Icon, http: client(c.HTTP), log: c.Log}, nil
}

// client is given, or one of its own, with a time-out and without redirects: those
// would carry topic and token to where nobody configured.
func client(given *http.Client) *http.Client {
	own := &http.Client{}
	if given != nil {
		*own = *given
	} else {
		own.Transport = http.DefaultTransport.(*http.Transport).Clone()
	}
	if own.Timeout == 0 {
		own.Timeout = timeout
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return own
}

func checkToken(token nod.Secret) error {
	for _, r := range token.Reveal() {
		if r <= ' ' || r > '~' {
			return invalid("the token holds a character that no token has", "is there a line break in its file?")
		}
	}
	return nil
}

// Close gives up idle connections. The publisher can still be used.
func (p *Publisher) Close() { p.http.CloseIdleConnections() }

// rootOf checks the server's address. ntfy publishes JSON at the root only.
func rootOf(s string) (string, error) {
	const hint = "such as https://ntfy.sh, without a topic"
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return "", invalid("the ntfy server is not an https address", hint)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		return "", invalid("the ntfy server's address has more than a host", hint)
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return "", invalid("the ntfy server is reached without TLS, and everyone on the way could read the topic", "use https")
	}
	return u.Scheme + "://" + u.Host + "/", nil
}

func loopback(host string) bool {
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host).IsLoopback()
}

func checkTopic(topic string) error {
	const hint = "make one with: openssl rand -hex 16"
	distinct := map[rune]bool{}
	for _, r := range topic {
		distinct[r] = true
	}
	switch {
	case len(topic) < topicMin || len(distinct) < distinctMin:
		return invalid("the ntfy topic is too easy to guess: at least 20 random characters", hint)
	case !topicPattern.MatchString(topic):
		return invalid("the ntfy topic holds other characters than A-Z a-z 0-9 - _ or more than 64", hint)
	}
	return nil
}

func invalid(msg, hint string) error { return &nod.Error{Code: nod.Invalid, Msg: msg, Hint: hint} }
