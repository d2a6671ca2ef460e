package answertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"time"

	"nod"
)

// Client does over HTTP what a browser with the page open does.
type Client struct {
	Key       *Authenticator
	UserAgent string // Go's own when empty

	base string // origin of the page, no slash at its end
	http *http.Client
}

// NewClient makes a client of the page at base, its public URL, with a passkey of
// its own. transport is http.DefaultTransport when nil.
func NewClient(base string, transport http.RoundTripper) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return nil, nod.E(nod.Invalid, "the address of the page cannot be read", err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, fmt.Errorf("make cookie jar: %w", err)
	}
	return &Client{Key: NewAuthenticator(), base: u.Scheme + "://" + u.Host,
		http: &http.Client{Transport: transport, Jar: jar, Timeout: 30 * time.Second}}, nil
}

// begun is what every begin request returns.
type begun struct {
	Challenge string          `json:"challenge"`
	Options   json.RawMessage `json:"options"`
}

// finish is what every finish request takes.
type finish struct {
	Challenge  string          `json:"challenge"`
	Credential json.RawMessage `json:"credential"`
}

// Enrol opens the one-time link and enrols the client's passkey.
func (c *Client) Enrol(ctx context.Context, link string) error {
	if _, err := c.Page(ctx, link); err != nil {
		return err
	}
	token := link[strings.LastIndexByte(link, '/')+1:]
	var b begun
	if err := c.Post(ctx, "/api/enrol/begin", map[string]string{"token": token}, &b); err != nil {
		return err
	}
	credential, err := c.Key.Create(c.base, b.Options)
	if err != nil {
		return err
	}
	return c.Post(ctx, "/api/enrol/finish", finish{b.Challenge, credential}, nil)
}

// SignIn opens a session with the client's passkey.
func (c *Client) SignIn(ctx context.Context) error {
	var b begun
	if err := c.Post(ctx, "/api/signin/begin", struct{}{}, &b); err != nil {
		return err
	}
	credential, err := c.Key.Sign(c.base, b.Options)
	if err != nil {
		return err
	}
	return c.Post(ctx, "/api/signin/finish", finish{b.Challenge, credential}, nil)
}

// Answer reads the decision's page and answers it. The error is the page's own:
// Conflict when somebody else was first, Expired when it is too late.
func (c *Client) Answer(ctx context.Context, decision, answer, reason string) error {
	if _, err := c.Page(ctx, "/d/"+url.PathEscape(decision)); err != nil {
		return err
	}
	var b begun
	if err := c.Post(ctx, "/api/answer/begin", map[string]string{"decision": decision, "answer": answer, "reason": reason}, &b); err != nil {
		return err
	}
	credential, err := c.Key.Sign(c.base, b.Options)
	if err != nil {
		return err
	}
	return c.Post(ctx, "/api/answer/finish", finish{b.Challenge, credential}, nil)
}

// Act tells nod to do something with a task.
func (c *Client) Act(ctx context.Context, task string, kind nod.ActKind, words string) error {
	var b begun
	if err := c.Post(ctx, "/api/act/begin", map[string]string{"task": task, "act": string(kind), "words": words}, &b); err != nil {
		return err
	}
	credential, err := c.Key.Sign(c.base, b.Options)
	if err != nil {
		return err
	}
	return c.Post(ctx, "/api/act/finish", finish{b.Challenge, credential}, nil)
}

// Page fetches a page, by path or by a link to it, and returns its HTML.
func (c *Client) Page(ctx context.Context, path string) (string, error) {
	r, err := c.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("Sec-Fetch-Site", "none")
	body, err := c.do(r)
	return string(body), err
}

// Form submits a form of the page.
func (c *Client) Form(ctx context.Context, path string, fields map[string]string) error {
	values := url.Values{}
	for k, v := range fields {
		values.Set(k, v)
	}
	r, err := c.request(ctx, http.MethodPost, path, []byte(values.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", c.base)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	_, err = c.do(r)
	return err
}

// Post posts body as JSON, as the page's script does, and reads the reply into out
// unless that is nil.
func (c *Client) Post(ctx context.Context, path string, body, out any) error {
	in, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	r, err := c.request(ctx, http.MethodPost, path, in)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Origin", c.base)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	reply, err := c.do(r)
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(reply, out); err != nil {
		return nod.E(nod.Unavailable, "the page's reply cannot be read", err)
	}
	return nil
}

func (c *Client) request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	if !strings.HasPrefix(path, c.base+"/") {
		if !strings.HasPrefix(path, "/") {
			return nil, nod.E(nod.Invalid, "the link leads to another site", nil)
		}
		path = c.base + path
	}
	r, err := http.NewRequestWithContext(ctx, method, path, bytes.NewReader(body))
	if err != nil {
		return nil, nod.E(nod.Invalid, "the link cannot be read", err)
	}
	return r, nil
}

func (c *Client) do(r *http.Request) ([]byte, error) {
	if c.UserAgent != "" {
		r.Header.Set("User-Agent", c.UserAgent)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, nod.E(nod.Unavailable, "the page cannot be reached", err)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, 4<<20))
	if closeErr := answer.Body.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, nod.E(nod.Unavailable, "the page's reply broke off", err)
	}
	if answer.StatusCode < 300 {
		return body, nil
	}
	var refusal struct {
		Error struct {
			Code    nod.Code `json:"code"`
			Message string   `json:"message"`
			Hint    string   `json:"hint"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &refusal) == nil && refusal.Error.Code != "" {
		return nil, &nod.Error{Code: refusal.Error.Code, Msg: refusal.Error.Message, Hint: refusal.Error.Hint}
	}
	code := nod.Unavailable
	switch answer.StatusCode {
	case http.StatusUnauthorized:
		code = nod.Unauthenticated
	case http.StatusNotFound:
		code = nod.NotFound
	case http.StatusForbidden:
		code = nod.Forbidden
	}
	return nil, nod.E(code, "the page answered "+answer.Status, nil)
}
