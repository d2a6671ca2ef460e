package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"nod"
)

// WebhookConfig is what a generic webhook needs.
type WebhookConfig struct {
	URL   nod.Secret   // https, or http on loopback; whoever knows it can often write there
	Token nod.Secret   // optional, sent as bearer token
	HTTP  *http.Client // nil means one of its own; redirects are never followed
	Log   *slog.Logger // nil discards
}

// Webhook posts each push as JSON to one address, with an Idempotency-Key that a
// receiver can tell repetitions by. It is safe for concurrent use.
type Webhook struct {
	url   nod.Secret
	token nod.Secret
	http  *http.Client
	log   *slog.Logger
}

// NewWebhook makes a webhook. It sends nothing yet. Errors are Invalid.
func NewWebhook(c WebhookConfig) (*Webhook, error) {
	u, err := url.Parse(c.URL.Reveal())
	switch {
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.Fragment != "":
		return nil, invalid("the webhook is not an https address", "")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return nil, invalid("the webhook is reached without TLS, and everyone on the way could read it", "use https")
	}
	if err := checkToken(c.Token); err != nil {
		return nil, err
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Webhook{url: c.URL, token: c.Token, http: client(c.HTTP), log: c.Log}, nil
}

// Close gives up idle connections. The webhook can still be used.
func (h *Webhook) Close() { h.http.CloseIdleConnections() }

// posted is the body of a post: the same few words that a phone gets.
type posted struct {
	ID       string `json:"id"` // the same for a push and for the post that closes it
	Title    string `json:"title"`
	Message  string `json:"message"`
	URL      string `json:"url"`
	Priority int    `json:"priority"` // 1 (min) to 5 (max)
	Closed   bool   `json:"closed"`   // nothing waits any more
}

// Send posts p. Its errors are those of Publisher.Send. The id is always empty.
func (h *Webhook) Send(ctx context.Context, p nod.Push) (string, error) {
	if err := check(p); err != nil {
		return "", err
	}
	body, err := json.Marshal(posted{ID: p.Sequence, Title: p.Title, Message: p.Message, URL: p.Click, Priority: p.Priority, Closed: p.Closed})
	if err != nil {
		return "", nod.E(nod.Internal, "the push cannot be written as JSON", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url.Reveal(), bytes.NewReader(body))
	if err != nil {
		return "", nod.E(nod.Internal, "the push cannot be requested", nil) // the cause would hold the address
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", nod.Digest(body)[:32])
	if !h.token.Empty() {
		req.Header.Set("Authorization", "Bearer "+h.token.Reveal())
	}
	resp, err := h.http.Do(req)
	if err != nil {
		return "", nod.E(nod.Unavailable, "the webhook cannot be reached", cause(err))
	}
	defer func() { _ = resp.Body.Close() }() // everything worth reading was read
	answer, err := io.ReadAll(io.LimitReader(resp.Body, answerCap))
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return "", refusal("the webhook", resp, answer)
	}
	if err != nil {
		return "", nod.E(nod.Unavailable, "the webhook's answer broke off", cause(err))
	}
	h.log.DebugContext(ctx, "webhook posted", "priority", p.Priority)
	return "", nil
}

// Sent returns "": a webhook cannot be asked. Its receiver knows the key.
func (h *Webhook) Sent(context.Context, nod.Push, time.Duration) string { return "" }

// cause is err without the address that was asked for.
func cause(err error) error {
	if u, ok := err.(*url.Error); ok {
		return u.Err
	}
	return err
}
