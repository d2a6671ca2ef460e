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

// refusal makes an error of an answer that is not 200. Only numbers of the answer
// go into it: its text was written by someone else.
func refusal(resp *http.Response, answer []byte) error {
	var said struct {
		Code int `json:"code"`
	}
	cause := fmt.Errorf("ntfy server answered %d", resp.StatusCode)
	if json.Unmarshal(answer, &said) == nil && said.Code != 0 {
		cause = fmt.Errorf("%w, ntfy code %d", cause, said.Code)
	}
	if after, ok := parseRetryAfter(resp.Header.Get("Retry-After"), resp.Header.Get("Date")); ok {
		cause = &later{after, cause}
	}
	e := &nod.Error{Err: cause}
	switch s := resp.StatusCode; {
	case s == http.StatusTooManyRequests:
		e.Code, e.Msg = nod.RateLimited, "the ntfy server wants fewer messages"
	case s == http.StatusUnauthorized:
		e.Code, e.Msg, e.Hint = nod.Unauthenticated, "the ntfy server does not know the token", "renew the access token in the file that ntfy.token_file names"
	case s == http.StatusForbidden:
		e.Code, e.Msg, e.Hint = nod.Forbidden, "the ntfy server does not let this token write to the topic", "give it write access: ntfy access USER TOPIC write-only"
	case s == http.StatusRequestEntityTooLarge:
		e.Code, e.Msg = nod.TooLarge, "the ntfy server finds the message too large"
	case s >= 300 && s < 400:
		e.Code, e.Msg, e.Hint = nod.Invalid, "the ntfy server sends elsewhere, which is not followed", "set ntfy.url to where it leads"
	case s == http.StatusNotFound || s == http.StatusMethodNotAllowed:
		e.Code, e.Msg, e.Hint = nod.Invalid, "there is no ntfy server at this address", "set ntfy.url to the root of one"
	case s >= 500 || s == http.StatusRequestTimeout:
		e.Code, e.Msg = nod.Unavailable, "the ntfy server is in trouble"
	case s >= 400:
		e.Code, e.Msg = nod.Invalid, "the ntfy server refused the message"
	default: // 1xx and 2xx that mean something else than published
		e.Code, e.Msg = nod.Unavailable, "the ntfy server answered with something else than a message"
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
