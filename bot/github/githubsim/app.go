package githubsim

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"nod"
)

// App is the GitHub App that a Server is born with.
type App struct {
	ID            int64
	Slug          string
	BotID         int64      // numeric id of its bot user
	PEM           nod.Secret // private key, PKCS #1
	WebhookSecret nod.Secret
}

// TokenLife is how long an installation token is valid, as on GitHub.
const TokenLife = time.Hour

type appIdentity struct {
	id     int64
	slug   string
	key    *rsa.PrivateKey
	secret string
	user   *user
}

func newAppIdentity() (appIdentity, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return appIdentity{}, err
	}
	return appIdentity{id: 4242, slug: "nod-demo", key: key, secret: rand.Text()}, nil
}

// App returns the App's identity and secrets.
func (s *Server) App() App {
	block := &pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(s.app.key)}
	return App{ID: s.app.id, Slug: s.app.slug, BotID: s.app.user.id,
		PEM: nod.NewSecret(string(pem.EncodeToMemory(block))), WebhookSecret: nod.NewSecret(s.app.secret)}
}

// grant is what an installation allows, permission name to read, write or admin.
type grant map[string]string

// covers reports whether g allows level of name. Metadata can be read by everyone
// who holds any token.
func (g grant) covers(name, level string) bool {
	if name == "" || name == "metadata" && level == "read" {
		return true
	}
	rank := []string{"", "read", "write", "admin"}
	return slices.Index(rank, g[name]) >= slices.Index(rank, level)
}

// appGrant is what the App asks for when it is installed.
func appGrant() grant {
	return grant{"metadata": "read", "contents": "write", "issues": "write", "pull_requests": "write",
		"checks": "write", "actions": "read", "workflows": "write"}
}

type installation struct {
	id        int64
	account   *user
	perms     grant
	suspended bool
	created   time.Time
}

type token struct {
	value   string
	inst    *installation // nil for a user's token
	user    *user         // who acts
	repos   []int64       // nil: every repository of the installation
	perms   grant
	expires time.Time // zero: never
}

// identity is who makes a request.
type identity struct {
	app   bool
	token *token
}

func (id identity) user() *user {
	if id.token == nil {
		return nil
	}
	return id.token.user
}

func (id identity) String() string {
	switch {
	case id.app:
		return "app"
	case id.token == nil:
		return "anonymous"
	case id.token.inst != nil:
		return "installation"
	}
	return "user"
}

// identify reads the request's Authorization. The caller holds s.mu.
func (s *Server) identify(r *http.Request) (identity, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return identity{}, nil
	}
	value := ""
	if _, password, ok := r.BasicAuth(); ok {
		value = password
	} else if scheme, rest, ok := strings.Cut(header, " "); ok && (strings.EqualFold(scheme, "bearer") || strings.EqualFold(scheme, "token")) {
		value = rest
	}
	if strings.Count(value, ".") == 2 {
		return identity{app: true}, s.verifyJWT(value)
	}
	t := s.tokens[value]
	if t == nil || !t.expires.IsZero() && !s.now().Before(t.expires) || t.inst != nil && !slices.Contains(s.installations, t.inst) {
		return identity{}, errBadCredentials
	}
	if t.inst != nil && t.inst.suspended {
		return identity{}, &apiError{status: http.StatusForbidden, msg: "This installation has been suspended"}
	}
	return identity{token: t}, nil
}

// asWhom is identify for the request log. The caller holds s.mu.
func (s *Server) asWhom(r *http.Request) string {
	id, err := s.identify(r)
	if err != nil {
		return "invalid"
	}
	return id.String()
}

// verifyJWT checks an App's token as GitHub does: RS256 by the App's key, issued
// in the past, at most ten minutes long, with 60 seconds of tolerated clock drift.
func (s *Server) verifyJWT(value string) error {
	part := strings.Split(value, ".")
	var head struct{ Alg string }
	var claims struct {
		Iss      json.RawMessage
		Iat, Exp int64
	}
	for i, into := range []any{&head, &claims} {
		raw, err := base64.RawURLEncoding.DecodeString(part[i])
		if err != nil || json.Unmarshal(raw, into) != nil {
			return errJWT("A JSON web token could not be decoded")
		}
	}
	sig, err := base64.RawURLEncoding.DecodeString(part[2])
	if err != nil || head.Alg != "RS256" {
		return errJWT("A JSON web token could not be decoded")
	}
	sum := sha256.Sum256([]byte(part[0] + "." + part[1]))
	if rsa.VerifyPKCS1v15(&s.app.key.PublicKey, crypto.SHA256, sum[:], sig) != nil {
		return errJWT("A JSON web token could not be decoded")
	}
	now := s.now()
	iat, exp := time.Unix(claims.Iat, 0), time.Unix(claims.Exp, 0)
	switch {
	case strings.Trim(string(claims.Iss), `"`) != strconv.FormatInt(s.app.id, 10):
		return errJWT("'Issuer' claim ('iss') must be an Integer")
	case iat.After(now.Add(time.Minute)):
		return errJWT("'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued")
	case !exp.After(now.Add(-time.Minute)):
		return errJWT("'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion expires")
	case exp.Sub(iat) > 11*time.Minute:
		return errJWT("'Expiration time' claim ('exp') is too far in the future")
	}
	return nil
}

func errJWT(msg string) error { return &apiError{status: http.StatusUnauthorized, msg: msg} }

// mint makes a token. The caller holds s.mu.
func (s *Server) mint(prefix string, t token) *token {
	t.value = prefix + "_" + rand.Text() + rand.Text()[:10]
	if t.inst != nil {
		t.expires = s.stamp().Add(TokenLife)
	}
	maps.DeleteFunc(s.tokens, func(_ string, old *token) bool {
		return !old.expires.IsZero() && !s.now().Before(old.expires)
	})
	s.tokens[t.value] = &t
	return &t
}

// ExpireTokens makes every installation token invalid at once, as if its hour
// were over or somebody had revoked it.
func (s *Server) ExpireTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.tokens, func(_ string, t *token) bool { return t.inst != nil })
}

func (s *Server) installationOf(owner *user) *installation {
	for _, in := range s.installations {
		if in.account == owner {
			return in
		}
	}
	return nil
}
