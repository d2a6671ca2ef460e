package githubsim

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// hookTimeout is how long a webhook target may take, as on GitHub.
	hookTimeout = 10 * time.Second
	// maxDeliveries is how many deliveries are remembered; the oldest go first.
	maxDeliveries = 5000
)

// Delivery is one webhook delivery as the delivery list has it.
type Delivery struct {
	ID           int64
	GUID         string // the same for a redelivery
	Event        string
	Action       string
	Redelivery   bool
	Installation int64
	Repository   int64
	Payload      []byte
	DeliveredAt  time.Time // zero: it waits for its turn
	StatusCode   int       // 0: nobody answered
	Status       string    // "OK", or why not
}

// OK reports whether the target took it.
func (d Delivery) OK() bool { return d.StatusCode >= 200 && d.StatusCode < 300 }

// hooks delivers webhooks in order, one at a time, from one goroutine of its own.
type hooks struct {
	now    func() time.Time
	log    *slog.Logger
	app    appIdentity
	client *http.Client

	mu     sync.Mutex
	target string // empty: webhooks are switched off and nothing is recorded
	lastID int64
	list   []*Delivery // oldest first
	next   int         // list[next:] wait
	wake   chan struct{}
	idle   *sync.Cond
	over   bool
	done   chan struct{}
}

func startHooks(ctx context.Context, now func() time.Time, log *slog.Logger, app appIdentity) *hooks {
	h := &hooks{now: now, log: log, app: app, wake: make(chan struct{}, 1), done: make(chan struct{}),
		client: &http.Client{Timeout: hookTimeout, Transport: &http.Transport{DisableKeepAlives: true},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	h.idle = sync.NewCond(&h.mu)
	go h.run(ctx)
	return h
}

func (h *hooks) wait() { <-h.done }

func (h *hooks) run(ctx context.Context) {
	defer close(h.done)
	for {
		h.mu.Lock()
		var d *Delivery
		target := h.target
		if h.next < len(h.list) {
			d = h.list[h.next]
		} else {
			h.idle.Broadcast()
		}
		h.mu.Unlock()
		if d != nil && ctx.Err() == nil {
			h.deliver(ctx, target, d)
			continue
		}
		select {
		case <-h.wake:
		case <-ctx.Done():
			h.mu.Lock()
			h.over = true
			h.idle.Broadcast()
			h.mu.Unlock()
			return
		}
	}
}

// deliver sends d once. What happened stays in the list; nothing is retried.
func (h *hooks) deliver(ctx context.Context, target string, d *Delivery) {
	code, status := h.send(ctx, target, d)
	h.mu.Lock()
	defer h.mu.Unlock()
	d.DeliveredAt, d.StatusCode, d.Status = h.now().UTC().Truncate(time.Millisecond), code, status
	h.next++
	if extra := len(h.list) - maxDeliveries; extra > 0 && extra <= h.next {
		h.list, h.next = append([]*Delivery(nil), h.list[extra:]...), h.next-extra
	}
	h.log.Debug("webhook delivered", "delivery", d.GUID, "event", d.Event, "action", d.Action, "status", code)
}

func (h *hooks) send(ctx context.Context, target string, d *Delivery) (int, string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(d.Payload))
	if err != nil {
		return 0, "invalid URL"
	}
	for k, v := range h.headers(d) {
		req.Header.Set(k, v)
	}
	res, err := h.client.Do(req)
	if err != nil {
		return 0, "failed to connect to host"
	}
	defer func() { _ = res.Body.Close() }() // only the status counts
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return res.StatusCode, "Invalid HTTP Response: " + strconv.Itoa(res.StatusCode)
	}
	return res.StatusCode, "OK"
}

func (h *hooks) headers(d *Delivery) map[string]string {
	mac := hmac.New(sha256.New, []byte(h.app.secret))
	mac.Write(d.Payload)
	return map[string]string{"Content-Type": "application/json", "User-Agent": "GitHub-Hookshot/sim", "Accept": "*/*",
		"X-GitHub-Event": d.Event, "X-GitHub-Delivery": d.GUID, "X-GitHub-Hook-ID": strconv.FormatInt(h.app.id, 10),
		"X-GitHub-Hook-Installation-Target-ID":   strconv.FormatInt(h.app.id, 10),
		"X-GitHub-Hook-Installation-Target-Type": "integration",
		"X-Hub-Signature-256":                    "sha256=" + hex.EncodeToString(mac.Sum(nil))}
}

// add queues a delivery. The worker takes it after those before it.
func (h *hooks) add(d Delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.target == "" {
		return
	}
	if len(h.list)-h.next >= maxDeliveries {
		h.log.Error("webhook dropped: the target is too slow", "event", d.Event)
		return
	}
	h.lastID++
	d.ID = h.lastID
	h.list = append(h.list, &d)
	h.nudge()
}

func (h *hooks) nudge() {
	select {
	case h.wake <- struct{}{}:
	default: // it is awake already
	}
}

// snapshot returns a copy of the list, oldest first, without what waits.
func (h *hooks) snapshot() []Delivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []Delivery
	for _, d := range h.list[:h.next] {
		out = append(out, *d)
	}
	return out
}

func (h *hooks) redeliver(id int64) error {
	for _, d := range h.snapshot() {
		if d.ID == id {
			d.Redelivery, d.DeliveredAt, d.StatusCode, d.Status = true, time.Time{}, 0, ""
			h.add(d)
			return nil
		}
	}
	return errNotFound
}

// SetWebhook says where webhooks go. Empty switches them off: what happens then is
// not even recorded as a delivery.
func (s *Server) SetWebhook(target string) {
	s.hooks.mu.Lock()
	defer s.hooks.mu.Unlock()
	s.hooks.target = target
}

// Deliveries returns the delivery list, oldest first, failed ones too.
func (s *Server) Deliveries() []Delivery { return s.hooks.snapshot() }

// Redeliver sends a delivery again under its old GUID.
func (s *Server) Redeliver(id int64) error { return s.hooks.redeliver(id) }

// Flush returns when every webhook so far was delivered or has failed, or ctx ends.
func (s *Server) Flush(ctx context.Context) error {
	h := s.hooks
	stop := context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.idle.Broadcast()
	})
	defer stop()
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.next < len(h.list) && !h.over && ctx.Err() == nil {
		h.idle.Wait()
	}
	return ctx.Err()
}

// Ping sends the ping that GitHub sends when a webhook is set up.
func (s *Server) Ping() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.post("ping", "", 0, 0, obj{"zen": "Keep it logically awesome.", "hook_id": s.app.id,
		"hook": obj{"type": "App", "id": s.app.id, "name": "web", "active": true, "app_id": s.app.id,
			"events": []string{"issues", "issue_comment", "pull_request", "push"}, "config": obj{"content_type": "json"}}})
}

// emit queues the webhook of one thing that happened in r. No installation on its
// owner's account, no webhook. The caller holds s.mu.
func (s *Server) emit(r *repo, by *user, name, action string, payload obj) {
	in := s.installationOf(r.owner)
	if in == nil || in.suspended {
		return
	}
	payload["repository"], payload["sender"] = s.repoJSON(r), s.userJSON(by)
	payload["installation"] = obj{"id": in.id, "node_id": nodeID("IN", in.id)}
	s.post(name, action, in.id, r.id, payload)
}

func (s *Server) post(name, action string, in, r int64, payload obj) {
	if action != "" {
		payload["action"] = action
	}
	raw, err := json.Marshal(payload)
	if err != nil {
		s.log.Error("write a webhook", "event", name, "err", err)
		return
	}
	s.hooks.add(Delivery{GUID: uuid.NewString(), Event: name, Action: action, Installation: in, Repository: r, Payload: raw})
}
