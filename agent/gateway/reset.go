package gateway

import (
	"net/http"
	"strconv"
	"time"
)

// resetMost is the longest wait that is believed.
const resetMost = 32 * 24 * time.Hour

// reset is when a refusal for rate or quota ends, by the headers that the two APIs
// send; zero when none of them says.
func reset(h http.Header, now time.Time) time.Time {
	if t, ok := sane(instant(h.Get("Retry-After"), now), now); ok {
		return t
	}
	if h.Get("Anthropic-Ratelimit-Unified-Status") == "rejected" {
		if t, ok := sane(instant(h.Get("Anthropic-Ratelimit-Unified-Reset"), now), now); ok {
			return t
		}
	}
	var latest time.Time
	for remaining, at := range map[string]string{
		"Anthropic-Ratelimit-Requests-Remaining":      "Anthropic-Ratelimit-Requests-Reset",
		"Anthropic-Ratelimit-Tokens-Remaining":        "Anthropic-Ratelimit-Tokens-Reset",
		"Anthropic-Ratelimit-Input-Tokens-Remaining":  "Anthropic-Ratelimit-Input-Tokens-Reset",
		"Anthropic-Ratelimit-Output-Tokens-Remaining": "Anthropic-Ratelimit-Output-Tokens-Reset",
		"X-Ratelimit-Remaining-Requests":              "X-Ratelimit-Reset-Requests",
		"X-Ratelimit-Remaining-Tokens":                "X-Ratelimit-Reset-Tokens",
	} {
		if h.Get(remaining) != "0" {
			continue
		}
		if t, ok := sane(instant(h.Get(at), now), now); ok && t.After(latest) {
			latest = t
		}
	}
	return latest
}

// instant reads a header that holds a moment or a wait: seconds, Unix seconds, a
// duration such as 6m0s, an RFC 3339 time or an HTTP date.
func instant(s string, now time.Time) time.Time {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		if n > int64(resetMost/time.Second) {
			return time.Unix(n, 0).UTC()
		}
		return now.Add(time.Duration(n) * time.Second)
	}
	if d, err := time.ParseDuration(s); err == nil {
		return now.Add(d)
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.UTC()
	}
	if t, err := http.ParseTime(s); err == nil {
		return t.UTC()
	}
	return time.Time{}
}

func sane(t, now time.Time) (time.Time, bool) {
	return t, t.After(now) && t.Before(now.Add(resetMost))
}
