package webhooks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"regexp"
	"time"

	"nod"
)

const (
	// DefaultMaxBody is the most bytes that GitHub sends in one delivery.
	DefaultMaxBody = 25 << 20

	// Bodies up to smallBody are read as they come. Of larger ones only
	// maxLarge are in memory at once: nobody has proved who they are yet.
	smallBody = 1 << 20
	maxLarge  = 4
)

// Accepter keeps deliveries.
type Accepter interface {
	// AcceptDelivery stores d durably, in one transaction, and reports whether it
	// was new: neither its GUID nor its SemanticKey was there before.
	AcceptDelivery(ctx context.Context, d nod.Delivery) (fresh bool, err error)
}

// Config is what a Receiver needs to know.
type Config struct {
	Secrets   []nod.Secret // one, or two while the secret is changed; none: nothing is taken by HTTP
	Accept    Accepter     // required
	AppID     int64        // of the GitHub App; required
	BotUserID int64        // account id of the App's bot user; 0 while it is not known
	Host      string       // GitHub host, e.g. github.com; required
	Log       *slog.Logger // required
	Now       func() time.Time
	MaxBody   int64 // bytes; default DefaultMaxBody
}

// Receiver is the handler of POST /webhooks/github.
//
//	202  stored, and new
//	200  nothing new to store: a repetition, a ping, or an event nod itself caused
//	400  signed, but not a JSON object or without the headers of a delivery
//	404  no secret is configured: deliveries come by other ways
//	401  no signature, or one by none of the secrets
//	405, 413, 415  another method, too large, another content type
//	503  not stored; GitHub keeps the delivery and the poller fetches it
type Receiver struct {
	cfg   Config
	large chan struct{} // a slot for each large body in memory
}

// New checks cfg and makes a Receiver.
func New(cfg Config) (*Receiver, error) {
	missing := ""
	switch {
	case len(cfg.Secrets) > 2:
		missing = "at most two secrets"
	case cfg.Accept == nil:
		missing = "a store"
	case cfg.AppID <= 0:
		missing = "an App id"
	case cfg.Host == "":
		missing = "a GitHub host"
	case cfg.Log == nil:
		missing = "a logger"
	case cfg.MaxBody < 0 || cfg.BotUserID < 0:
		missing = "limits and ids that are not negative"
	}
	for _, s := range cfg.Secrets {
		if s.Empty() {
			missing = "secrets that are not empty"
		}
	}
	if missing != "" {
		return nil, nod.E(nod.Invalid, "the webhook receiver needs "+missing, nil)
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.MaxBody == 0 {
		cfg.MaxBody = DefaultMaxBody
	}
	return &Receiver{cfg: cfg, large: make(chan struct{}, maxLarge)}, nil
}

// Outcome is what became of a delivery that is not an error.
type Outcome string

const (
	Accepted  Outcome = "accepted"
	Duplicate Outcome = "duplicate"
	Own       Outcome = "own"  // caused by nod itself
	Pinged    Outcome = "ping" // GitHub tried the hook out
)

func (o Outcome) status() int {
	if o == Accepted {
		return http.StatusAccepted
	}
	return http.StatusOK
}

// httpError is a refusal that nod.Code has no word for.
type httpError struct {
	status int
	msg    string
}

func (e *httpError) Error() string { return e.msg }

// ServeHTTP takes one delivery and writes one log line about it.
func (rc *Receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := rc.cfg.Now()
	row, outcome, err := rc.receive(w, r)
	status, text := outcome.status(), string(outcome)
	if err != nil {
		status, text = nod.CodeOf(err).HTTPStatus(), nod.PublicMessage(err)
		var he *httpError
		if errors.As(err, &he) {
			status, text = he.status, he.msg
		}
	}
	if status == http.StatusMethodNotAllowed {
		w.Header().Set("Allow", http.MethodPost)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, writeErr := io.WriteString(w, text+"\n")

	level := slog.LevelInfo
	switch {
	case status >= 500:
		level = slog.LevelError
	case err != nil || writeErr != nil:
		level = slog.LevelWarn
	}
	attrs := append(row.attrs(), slog.Int("status", status), slog.Int64("dur_ms", rc.cfg.Now().Sub(start).Milliseconds()))
	if err != nil {
		attrs = append(attrs, slog.Any("err", err))
	} else {
		attrs = append(attrs, slog.String("outcome", string(outcome)))
	}
	if writeErr != nil {
		attrs = append(attrs, slog.Any("answer_err", writeErr))
	}
	rc.cfg.Log.LogAttrs(r.Context(), level, "webhook delivery", attrs...)
}

// receive checks a request and takes what it carries. The row holds what could be
// told of the delivery, also with an error.
func (rc *Receiver) receive(w http.ResponseWriter, r *http.Request) (row, Outcome, error) {
	if r.Method != http.MethodPost {
		return row{}, "", &httpError{http.StatusMethodNotAllowed, "deliveries are sent by POST"}
	}
	if len(rc.cfg.Secrets) == 0 {
		return row{}, "", nod.E(nod.NotFound, "no webhook is expected here", nil)
	}
	if err := jsonBody(r.Header); err != nil {
		return row{}, "", err
	}
	mac, err := claimed(r.Header)
	if err != nil {
		return row{}, "", err
	}
	body, release, err := rc.body(w, r)
	defer release()
	if err != nil {
		return row{}, "", err
	}
	if !signedByAny(rc.cfg.Secrets, body, mac) {
		return row{}, "", nod.E(nod.Unauthenticated, "the signature is by none of the webhook secrets", nil)
	}
	guid, event := r.Header.Get("X-GitHub-Delivery"), r.Header.Get("X-GitHub-Event")
	if !guidForm.MatchString(guid) {
		return row{}, "", nod.E(nod.Invalid, "X-GitHub-Delivery is missing or not a GUID", nil)
	}
	if !eventForm.MatchString(event) {
		return row{guid: guid}, "", nod.E(nod.Invalid, "X-GitHub-Event is missing or not an event's name", nil)
	}
	return rc.take(r.Context(), guid, event, body)
}

// GitHub does not sign its headers, so these only keep nonsense out of the row.
var (
	guidForm  = regexp.MustCompile(`^[0-9A-Za-z-]{8,64}$`)
	eventForm = regexp.MustCompile(`^[0-9a-z_]{1,64}$`)
)

// Take takes a delivery that did not come by HTTP: one that was read from GitHub's
// list of deliveries, under its own GUID, or made from what GitHub's API says, under
// a GUID with a colon in it, which no delivery by HTTP can have. The caller vouches
// for where payload comes from.
func (rc *Receiver) Take(ctx context.Context, guid, event string, payload []byte) (Outcome, error) {
	if guid == "" || len(guid) > 200 || !eventForm.MatchString(event) {
		return "", nod.E(nod.Invalid, "the delivery has no GUID or no event's name", nil)
	}
	row, outcome, err := rc.take(ctx, guid, event, payload)
	attrs := append(row.attrs(), slog.String("by", "poll"))
	if err != nil {
		return "", err
	}
	rc.cfg.Log.LogAttrs(ctx, slog.LevelInfo, "webhook delivery", append(attrs, slog.String("outcome", string(outcome)))...)
	return outcome, nil
}

func (rc *Receiver) take(ctx context.Context, guid, event string, payload []byte) (row, Outcome, error) {
	row, err := read(rc.cfg.Host, guid, event, payload)
	switch {
	case err != nil:
		return row, "", err
	case event == "ping":
		return row, Pinged, nil
	case row.causedBy(rc.cfg.AppID, rc.cfg.BotUserID):
		return row, Own, nil
	}
	fresh, err := rc.cfg.Accept.AcceptDelivery(ctx, nod.Delivery{
		GUID: guid, SemanticKey: row.semanticKey(), Event: event, Action: row.action, Order: row.order(),
		Payload: payload, ReceivedAt: rc.cfg.Now().UTC(), State: nod.DeliveryPending,
	})
	switch {
	case err != nil:
		return row, "", &nod.Error{Code: nod.Unavailable, Msg: "the delivery could not be stored", Err: err}
	case !fresh:
		return row, Duplicate, nil
	}
	return row, Accepted, nil
}

// jsonBody refuses what is not plain JSON.
func jsonBody(h http.Header) error {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	switch {
	case err == nil && kind == "application/x-www-form-urlencoded":
		return &httpError{http.StatusUnsupportedMediaType, "form-encoded deliveries are not taken: set the content type of the webhook to application/json"}
	case err != nil || kind != "application/json":
		return &httpError{http.StatusUnsupportedMediaType, "the content type of a delivery must be application/json"}
	case h.Get("Content-Encoding") != "":
		return &httpError{http.StatusUnsupportedMediaType, "a delivery must not be compressed"}
	}
	return nil
}

// body reads the whole body. release gives its slot back.
func (rc *Receiver) body(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	release = func() {}
	tooLarge := nod.E(nod.TooLarge, fmt.Sprintf("a delivery may have %d bytes", rc.cfg.MaxBody), nil)
	if r.ContentLength > rc.cfg.MaxBody {
		return nil, release, tooLarge
	}
	from := http.MaxBytesReader(w, r.Body, rc.cfg.MaxBody)
	body, err = io.ReadAll(io.LimitReader(from, smallBody+1))
	if err == nil && len(body) > smallBody {
		select {
		case rc.large <- struct{}{}:
			release = func() { <-rc.large }
		default:
			return nil, release, nod.E(nod.Unavailable, "too many large deliveries at once", nil)
		}
		var rest []byte
		rest, err = io.ReadAll(from)
		body = append(body, rest...)
	}
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return nil, release, tooLarge
	case err != nil:
		return nil, release, nod.E(nod.Invalid, "the body could not be read", err)
	}
	return body, release, nil
}
