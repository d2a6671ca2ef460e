package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"nod"
)

// Bounds on what a server may ask for: never a busy loop, never a lost push.
const (
	retryMin = time.Second
	retryMax = time.Hour
)

// later is the cause of an error that knows when to come again.
type later struct {
	after time.Duration
	cause error
}

func (l *later) Error() string { return l.cause.Error() }
func (l *later) Unwrap() error { return l.cause }

// RetryAfter returns how long the server asked to wait, when err says so: from
// one second to one hour.
func RetryAfter(err error) (time.Duration, bool) {
	var l *later
	if errors.As(err, &l) {
		return l.after, true
	}
	return 0, false
}

// refusal makes an error of an answer that is not a success of noun. Only numbers
// of the answer go into it: its text was written by someone else. Nothing but a
// push that breaks the rules is Invalid: whatever the other side has against it can
// be mended there or in the configuration.
func refusal(noun string, resp *http.Response, answer []byte) error {
	var said struct {
		Code int `json:"code"`
	}
	cause := fmt.Errorf("%s answered %d", noun, resp.StatusCode)
	if json.Unmarshal(answer, &said) == nil && said.Code != 0 {
		cause = fmt.Errorf("%w, code %d", cause, said.Code)
	}
	if after, ok := parseRetryAfter(resp.Header.Get("Retry-After"), resp.Header.Get("Date")); ok {
		cause = &later{after, cause}
	}
	e := &nod.Error{Err: cause}
	switch s := resp.StatusCode; {
	case s == http.StatusTooManyRequests:
		e.Code, e.Msg = nod.RateLimited, noun+" wants fewer messages"
	case s == http.StatusUnauthorized:
		e.Code, e.Msg, e.Hint = nod.Unauthenticated, noun+" does not know who sends", "renew what the configuration's token or password file holds"
	case s == http.StatusForbidden:
		e.Code, e.Msg, e.Hint = nod.Forbidden, noun+" does not let this sender write", "for ntfy: ntfy access USER TOPIC read-write"
	case s == http.StatusRequestEntityTooLarge:
		e.Code, e.Msg = nod.TooLarge, noun+" finds the message too large"
	case s >= 300 && s < 400:
		e.Code, e.Msg, e.Hint = nod.Failed, noun+" sends elsewhere, which is not followed", "configure where it leads"
	case s == http.StatusNotFound || s == http.StatusMethodNotAllowed:
		e.Code, e.Msg, e.Hint = nod.Failed, noun+" is not at this address", "is its url in the configuration right?"
	case s >= 500 || s == http.StatusRequestTimeout:
		e.Code, e.Msg = nod.Unavailable, noun+" is in trouble"
	case s >= 400:
		e.Code, e.Msg = nod.Failed, noun+" refused the message"
	default: // 1xx and 2xx that mean something else than published
		e.Code, e.Msg = nod.Unavailable, noun+" answered with something else than a message"
	}
	return e
}

// parseRetryAfter takes seconds or a date (RFC 9110, section 10.2.3). A date is
// compared with the server's own clock, so that this host's does not matter.
func parseRetryAfter(value, date string) (time.Duration, bool) {
	after := time.Duration(0)
	if n, err := strconv.Atoi(value); err == nil && n >= 0 {
		after = time.Duration(min(n, int(retryMax/time.Second))) * time.Second
	} else {
		at, err := http.ParseTime(value)
		if err != nil {
			return 0, false
		}
		now, err := http.ParseTime(date)
		if err != nil {
			return 0, false
		}
		after = at.Sub(now)
	}
	return min(max(after, retryMin), retryMax), true
}
