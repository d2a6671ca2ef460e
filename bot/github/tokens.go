package github

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	gh "github.com/google/go-github/v66/github"

	"nod"
)

// maxReaches is how many tokens are kept; when there are more, all are forgotten.
const maxReaches = 512

// The permission sets of this package's own calls.
var (
	permMeta   = map[string]string{"metadata": "read"}
	permIssue  = map[string]string{"metadata": "read", "issues": "read"}
	permWrite  = map[string]string{"metadata": "read", "issues": "write"}
	permRead   = map[string]string{"metadata": "read", "contents": "read", "pull_requests": "read"}
	permOpenPR = map[string]string{"metadata": "read", "contents": "read", "pull_requests": "write"}
)

// reach is what one token is good for.
type reach struct {
	installation int64
	owner, name  string // empty: every repository of the installation
	perms        string // JSON with sorted keys
}

func reachOf(installation int64, repo nod.Repo, perms map[string]string) reach {
	raw, err := json.Marshal(perms) // sorts the keys; a map of strings cannot fail
	if err != nil {
		panic(err)
	}
	return reach{installation, repo.Owner, repo.Name, string(raw)}
}

// access is a token that is minted on demand, and a client that uses it.
type access struct {
	source *ghinstallation.Transport
	client *gh.Client
	reader *gh.Client // asks with ETags; nil until it is needed
}

// tokenLife is how long GitHub honours an installation token.
const tokenLife = time.Hour

// mint returns a's token, minted where there is none or it is about to expire, and
// remembers it for RevokeTokens.
func (c *Client) mint(ctx context.Context, a *access) (string, error) {
	token, err := a.source.Token(ctx)
	if err != nil {
		return "", err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if _, known := c.live[token]; !known {
		maps.DeleteFunc(c.live, func(_ string, until time.Time) bool { return until.Before(now) })
		c.live[token] = now.Add(tokenLife)
	}
	return token, nil
}

// access returns the token source for r, making it when there is none.
func (c *Client) access(r reach) (*access, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.reaches[r]; a != nil {
		return a, nil
	}
	var perms gh.InstallationPermissions
	strict := json.NewDecoder(strings.NewReader(r.perms))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&perms); err != nil {
		return nil, nod.E(nod.Invalid, "GitHub has no such permission", err)
	}
	installation := r.installation
	if to, ok := c.moved[installation]; ok {
		installation = to
	}
	// A transport of its own: ghinstallation writes to the App's one while it mints.
	source := ghinstallation.NewFromAppsTransport(ghinstallation.NewAppsTransportFromPrivateKey(c.base, c.appID, c.key), installation)
	source.BaseURL = strings.TrimRight(c.api.String(), "/")
	source.Client = &http.Client{Transport: c.base, Timeout: callTimeout}
	source.InstallationTokenOptions = &gh.InstallationTokenOptions{Permissions: &perms}
	if r.name != "" {
		source.InstallationTokenOptions.Repositories = []string{r.name}
	}
	a := &access{source: source}
	a.client = c.speak(&bearer{c: c, reach: r})
	if len(c.reaches) >= maxReaches {
		clear(c.reaches)
	}
	c.reaches[r] = a
	return a, nil
}

// drop forgets the token for r, so that the next call mints another.
func (c *Client) drop(r reach) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.reaches, r)
}

// token mints or reuses a token. An installation that is gone is looked for once
// more by repository: reinstalling an App gives it another id.
func (c *Client) token(ctx context.Context, r reach) (string, error) {
	a, err := c.access(r)
	if err != nil {
		return "", err
	}
	token, err := c.mint(ctx, a)
	if err == nil {
		return token, nil
	}
	status := closeMint(err)
	if status == http.StatusUnprocessableEntity && r.name != "" {
		return "", c.lacks(ctx, r, err)
	}
	if status != http.StatusNotFound || r.name == "" {
		return "", err
	}
	in, _, findErr := c.app.Apps.FindRepositoryInstallation(ctx, r.owner, r.name)
	if findErr != nil || in.GetID() == a.source.InstallationID() {
		return "", err
	}
	c.mu.Lock()
	c.moved[r.installation] = in.GetID()
	c.mu.Unlock()
	c.drop(r)
	if a, err = c.access(r); err != nil {
		return "", err
	}
	if token, err = c.mint(ctx, a); err != nil {
		closeMint(err)
	}
	return token, err
}

// lacking is a mint that GitHub refused, with what the installation was not granted.
type lacking struct {
	what, page string
	err        error
}

func (l *lacking) Error() string { return l.err.Error() }
func (l *lacking) Unwrap() error { return l.err }

// lacks compares what was asked for with what the installation was granted. Where
// nothing is missing, the refusal stays as it is.
func (c *Client) lacks(ctx context.Context, r reach, refusal error) error {
	in, _, err := c.app.Apps.FindRepositoryInstallation(ctx, r.owner, r.name)
	if err != nil {
		return refusal
	}
	var asked map[string]string
	if err := json.Unmarshal([]byte(r.perms), &asked); err != nil {
		return refusal
	}
	if lacks, err := missing(in.GetPermissions(), asked); err == nil && len(lacks) > 0 {
		return &lacking{strings.Join(lacks, ", "), in.GetHTMLURL(), refusal}
	}
	return refusal
}

// closeMint closes the answer that a failed mint leaves open, and returns its
// status, or 0.
func closeMint(err error) int {
	var e *ghinstallation.HTTPError
	if !errors.As(err, &e) || e.Response == nil {
		return 0
	}
	_ = e.Response.Body.Close() // nothing of it is needed
	return e.Response.StatusCode
}

// bearer authenticates requests. A token that GitHub refuses is dropped, and the
// request is made once more with a fresh one: nothing was done by a refused request.
type bearer struct {
	c     *Client
	reach reach
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.once(r)
	if err != nil || !refused(res) || r.Body != nil && r.GetBody == nil {
		return res, err
	}
	again := r.Clone(r.Context())
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return res, nil // the refusal stands
		}
	}
	_ = res.Body.Close() // the second answer counts
	b.c.log.Info("github token refused, minting another", "status", res.StatusCode, "repo", b.reach.owner+"/"+b.reach.name)
	b.c.drop(b.reach)
	return b.once(again)
}

func (b *bearer) once(r *http.Request) (*http.Response, error) {
	token, err := b.c.token(r.Context(), b.reach)
	if err != nil {
		if r.Body != nil {
			err = errors.Join(err, r.Body.Close())
		}
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return b.c.base.RoundTrip(r)
}

// refused reports whether the token was at fault: it is invalid, or it was minted
// before a permission was granted. Rate limits are 403 as well and are not.
func refused(res *http.Response) bool {
	if res.StatusCode == http.StatusUnauthorized {
		return true
	}
	if res.StatusCode != http.StatusForbidden || res.Header.Get("Retry-After") != "" || res.Header.Get("X-RateLimit-Remaining") == "0" {
		return false
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	rest := res.Body
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), rest), rest}
	return err == nil && bytes.Contains(body, []byte("not accessible by integration"))
}

// InstallationToken returns a token for one repository with exactly perms
// (permission name to "read" or "write", as GitHub's API names them). It is good
// for at least another minute and at most an hour.
func (c *Client) InstallationToken(ctx context.Context, installation int64, repo nod.Repo, perms map[string]string) (nod.Secret, error) {
	if err := c.check(repo); err != nil {
		return nod.Secret{}, err
	}
	token, err := c.token(ctx, reachOf(installation, repo, maps.Clone(perms)))
	if err != nil {
		return nod.Secret{}, c.fault("get a token for "+repo.String(), err)
	}
	return nod.NewSecret(token), nil
}

// ForgetToken makes the next InstallationToken with the same arguments mint
// another one, for a caller whose token was refused.
func (c *Client) ForgetToken(installation int64, repo nod.Repo, perms map[string]string) {
	c.drop(reachOf(installation, repo, perms))
}

// Remote is where git reaches the repository of t, with a token minted for this use:
// contents only, of this repository only, to be read or, with write, to be pushed to.
// A push that changes workflows is refused by GitHub unless Config.PushWorkflows.
func (c *Client) Remote(ctx context.Context, t nod.Task, write bool) (string, nod.Secret, error) {
	perms := map[string]string{"metadata": "read", "contents": "read"}
	if write {
		perms["contents"] = "write"
		if c.workflows {
			perms["workflows"] = "write"
		}
	}
	c.ForgetToken(t.Installation, t.Repo, perms)
	token, err := c.InstallationToken(ctx, t.Installation, t.Repo, perms)
	if err != nil {
		return "", nod.Secret{}, err
	}
	return c.CloneURL(t.Repo), token, nil
}

// RevokeTokens ends every token that this process minted and that may still be
// alive. It goes on after a failure and returns all failures.
func (c *Client) RevokeTokens(ctx context.Context) error {
	c.mu.Lock()
	held := slices.Collect(maps.Keys(c.live))
	clear(c.live)
	clear(c.reaches)
	c.mu.Unlock()
	var failed []error
	for _, token := range held {
		_, err := c.speak(fixed{c.base, token}).Apps.RevokeInstallationToken(ctx)
		var e *gh.ErrorResponse
		if errors.As(err, &e) && e.Response.StatusCode == http.StatusUnauthorized {
			continue // it is dead already
		}
		if err != nil {
			failed = append(failed, c.fault("revoke a token", err))
		}
	}
	return errors.Join(failed...)
}

// fixed authenticates with one token and nothing else.
type fixed struct {
	next  http.RoundTripper
	token string
}

func (f fixed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+f.token)
	return f.next.RoundTrip(r)
}
