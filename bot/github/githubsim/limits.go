package githubsim

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// hourlyRequests is the primary rate limit of an installation, an App or a person.
	hourlyRequests = 5000
	limitWindow    = time.Hour
	contentWindow  = time.Minute
)

// limits are the rate limits; a Server is born with GitHub's primary one and no
// secondary one.
type limits struct {
	hourly  int
	content int // things created or changed in a minute; 0: as many as anybody likes
	meters  map[string]*meter
}

// meter is what one identity has used.
type meter struct {
	used    int
	reset   time.Time
	written []time.Time // of this minute
}

// LimitRequests sets the primary rate limit: how many requests an hour each
// installation, App and person may make. What was used so far is forgotten.
func (s *Server) LimitRequests(perHour int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits.hourly, s.limits.meters = perHour, map[string]*meter{}
}

// LimitContent sets the secondary limit: how many requests a minute may create or
// change something. 0 switches it off.
func (s *Server) LimitContent(perMinute int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits.content, s.limits.meters = perMinute, map[string]*meter{}
}

func (c *call) whose() string {
	switch {
	case c.id.app:
		return "app"
	case c.id.token == nil:
		return "anonymous"
	case c.id.token.inst != nil:
		return fmt.Sprintf("installation ID %d", c.id.token.inst.id)
	}
	return fmt.Sprintf("user ID %d", c.id.token.user.id)
}

// spend counts the request against the caller's limits, or refuses it, and says in
// the headers what is left. The token of a minute ago and that of now share a meter.
func (c *call) spend() error {
	whose, now := c.whose(), c.now()
	m := c.limits.meters[whose]
	if m == nil {
		m = &meter{}
		c.limits.meters[whose] = m
	}
	c.meter = m
	if !now.Before(m.reset) {
		m.used, m.reset = 0, now.Add(limitWindow).Truncate(time.Second)
	}
	if m.used >= c.limits.hourly {
		c.tell()
		return &apiError{status: http.StatusForbidden, msg: "API rate limit exceeded for " + whose + "."}
	}
	m.used++
	c.tell()
	if c.limits.content == 0 || c.r.Method == http.MethodGet || c.id.app || !strings.HasPrefix(c.r.URL.Path, "/repos/") {
		return nil
	}
	for len(m.written) > 0 && !now.Before(m.written[0].Add(contentWindow)) {
		m.written = m.written[1:]
	}
	if len(m.written) >= c.limits.content {
		wait := m.written[0].Add(contentWindow).Sub(now)
		return &apiError{status: http.StatusForbidden, retry: strconv.Itoa(int(wait/time.Second) + 1),
			msg: "You have exceeded a secondary rate limit and have been temporarily blocked from content creation. Please retry your request again later."}
	}
	m.written = append(m.written, now)
	return nil
}

func (c *call) tell() {
	h := c.w.Header()
	h.Set("X-RateLimit-Limit", strconv.Itoa(c.limits.hourly))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(max(0, c.limits.hourly-c.meter.used)))
	h.Set("X-RateLimit-Used", strconv.Itoa(c.meter.used))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(c.meter.reset.Unix(), 10))
	h.Set("X-RateLimit-Resource", "core")
}

// unchanged answers a GET whose answer the caller has already: 304, which costs
// nothing of a rate limit. It sets the answer's ETag in any case.
func (c *call) unchanged(status int, body any) bool {
	if c.r.Method != http.MethodGet || status != http.StatusOK {
		return false
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return false
	}
	sum := sha256.Sum256(append(raw, c.w.Header().Get("Link")...))
	tag := `W/"` + hex.EncodeToString(sum[:]) + `"`
	c.w.Header().Set("ETag", tag)
	if c.r.Header.Get("If-None-Match") != tag {
		return false
	}
	if c.meter != nil {
		c.meter.used--
		c.tell()
	}
	c.w.WriteHeader(http.StatusNotModified)
	return true
}
