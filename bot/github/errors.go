package github

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/bradleyfalzon/ghinstallation/v2"
	gh "github.com/google/go-github/v66/github"

	"nod"
)

// secondaryWait is how long to wait after a secondary rate limit that names no
// time; GitHub asks for at least a minute.
const secondaryWait = time.Minute

// wait is an error that says how long to wait.
type wait struct {
	after time.Duration
	err   error
}

func (w *wait) Error() string { return w.err.Error() }
func (w *wait) Unwrap() error { return w.err }

// RetryAfter returns how long GitHub asked to wait, when err says so.
func RetryAfter(err error) (time.Duration, bool) {
	var w *wait
	if errors.As(err, &w) {
		return w.after, true
	}
	return 0, false
}

// fault turns what go-github and ghinstallation return into an error of this
// project. act completes "GitHub did not let nod …".
func (c *Client) fault(act string, err error) error {
	var own *nod.Error
	var limit *gh.RateLimitError
	var abuse *gh.AbuseRateLimitError
	var answer *gh.ErrorResponse
	var mint *ghinstallation.HTTPError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return err
	case errors.Is(err, errElsewhere):
		return nod.E(nod.Forbidden, "GitHub pointed to another host; nod did not follow", err)
	case errors.As(err, &limit):
		return limited(err, limit.Rate.Reset.Sub(c.now()))
	case errors.As(err, &abuse):
		return limited(err, abuse.GetRetryAfter())
	case errors.As(err, &answer) && answer.Response != nil:
		return c.status(act, answer.Response, answer.Message+" "+detail(answer), err)
	case errors.As(err, &mint) && mint.Response != nil:
		if mint.Response.StatusCode == http.StatusUnprocessableEntity {
			var lack *lacking
			if errors.As(err, &lack) {
				return &nod.Error{Code: nod.Forbidden, Msg: "GitHub did not let nod " + act + ": the App's installation lacks " + lack.what,
					Hint: "accept it at " + lack.page, Err: err}
			}
			return &nod.Error{Code: nod.Forbidden, Msg: "GitHub did not let nod " + act + ": the App's installation lacks a permission or the repository",
				Hint: "open the App's installation on GitHub, accept its permissions and add the repository", Err: err}
		}
		return c.status(act, mint.Response, "", err)
	case unreachable(err):
		return nod.E(nod.Unavailable, "GitHub could not be reached", err)
	}
	return nod.E(nod.Internal, "nod could not "+act, err)
}

func (c *Client) status(act string, res *http.Response, said string, err error) error {
	msg := "GitHub did not let nod " + act
	switch code := res.StatusCode; {
	case code == http.StatusTooManyRequests, code == http.StatusForbidden && (res.Header.Get("Retry-After") != "" ||
		res.Header.Get("X-RateLimit-Remaining") == "0" || strings.Contains(strings.ToLower(said), "rate limit")):
		return limited(err, c.retryAfter(res.Header))
	case code == http.StatusUnauthorized:
		return &nod.Error{Code: nod.Unauthenticated, Msg: msg + ": it does not accept the App's key or token",
			Hint: c.mistrusted(), Err: err}
	case code == http.StatusForbidden, code == http.StatusUnavailableForLegalReasons:
		return &nod.Error{Code: nod.Forbidden, Msg: msg + ": not permitted", Hint: "check the App's permissions and whether it is suspended", Err: err}
	case code == http.StatusNotFound, code == http.StatusGone:
		return nod.E(nod.NotFound, msg+": not found, or the App may not see it", err)
	case code == http.StatusConflict:
		return nod.E(nod.Conflict, msg+": it changed in between", err)
	case code == http.StatusUnprocessableEntity, code == http.StatusBadRequest, code == http.StatusMethodNotAllowed:
		return nod.E(nod.Invalid, strings.TrimSuffix(msg+": "+tidy(said), ": "), err)
	case code >= 500:
		return nod.E(nod.Unavailable, "GitHub answered "+strconv.Itoa(code), err)
	}
	return nod.E(nod.Internal, msg, err)
}

// mistrusted is what to look at when GitHub does not take the App's key.
func (c *Client) mistrusted() string {
	if skew := time.Duration(c.skew.Load()); skew.Abs() > maxSkew {
		return fmt.Sprintf("this machine's clock is %s off GitHub's, which does not take keys then: set it by NTP", skew)
	}
	return "check app_id and the private key"
}

func limited(err error, after time.Duration) error {
	if after <= 0 {
		after = secondaryWait
	}
	return nod.E(nod.RateLimited, "GitHub asked nod to slow down", &wait{after, err})
}

func (c *Client) retryAfter(h http.Header) time.Duration {
	if seconds, err := strconv.Atoi(h.Get("Retry-After")); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := strconv.ParseInt(h.Get("X-RateLimit-Reset"), 10, 64); err == nil && h.Get("X-RateLimit-Remaining") == "0" {
		return time.Unix(at, 0).Sub(c.now())
	}
	return 0
}

// detail is what a validation error says beyond its message.
func detail(e *gh.ErrorResponse) string {
	var parts []string
	for _, one := range e.Errors {
		if one.Message != "" {
			parts = append(parts, one.Message)
			continue
		}
		parts = append(parts, one.Field+" "+one.Code)
	}
	return strings.Join(parts, ", ")
}

// tidy makes a remote message fit for a line that strangers read.
func tidy(s string) string {
	s = strings.Join(strings.Fields(Neutralize(s)), " ")
	if runes := []rune(s); len(runes) > 200 {
		s = string(runes[:200]) + "…"
	}
	return s
}

func unreachable(err error) bool {
	var transport *url.Error
	var syntax *json.SyntaxError
	return errors.As(err, &transport) || errors.As(err, &syntax) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || isAccepted(err)
}

// isAccepted: GitHub works on the answer and wants to be asked again.
func isAccepted(err error) bool {
	var e *gh.AcceptedError
	return errors.As(err, &e)
}

// statusOf returns the HTTP status behind err, or 0.
func statusOf(err error) int {
	var answer *gh.ErrorResponse
	if errors.As(err, &answer) && answer.Response != nil {
		return answer.Response.StatusCode
	}
	return 0
}
