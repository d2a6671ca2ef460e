package github

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"sync"
)

const (
	// maxKept is how many answers are kept for one reader; when there are more, all
	// are forgotten. maxKeptBytes is how long one of them may be.
	maxKept      = 128
	maxKeptBytes = 2 << 20
)

// conditional asks for what was read before only if it changed. GitHub counts an
// answer that did not change against no rate limit. Whether the caller may read it at
// all is judged anew with each request.
type conditional struct {
	next http.RoundTripper

	mu   sync.Mutex
	kept map[string]keptAnswer // by URL
}

type keptAnswer struct {
	tag  string
	head http.Header
	body []byte
}

func (c *conditional) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		return c.next.RoundTrip(r)
	}
	url := r.URL.String()
	c.mu.Lock()
	known, ok := c.kept[url]
	c.mu.Unlock()
	if ok {
		r = r.Clone(r.Context())
		r.Header.Set("If-None-Match", known.tag)
	}
	res, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if ok && res.StatusCode == http.StatusNotModified {
		_ = res.Body.Close() // it has none
		head := known.head.Clone()
		for name, values := range res.Header { // the newer ones: Date, what is left of the limits
			head[name] = values
		}
		res.StatusCode, res.Status, res.Header, res.ContentLength = http.StatusOK, "200 OK", head, int64(len(known.body))
		res.Body = io.NopCloser(bytes.NewReader(known.body))
		return res, nil
	}
	if tag := res.Header.Get("ETag"); res.StatusCode == http.StatusOK && tag != "" {
		return c.keep(url, tag, res)
	}
	return res, nil
}

func (c *conditional) keep(url, tag string, res *http.Response) (*http.Response, error) {
	body, err := io.ReadAll(io.LimitReader(res.Body, maxKeptBytes+1))
	rest := res.Body
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), rest), rest}
	if err != nil || len(body) > maxKeptBytes {
		return res, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil || len(c.kept) >= maxKept {
		c.kept = map[string]keptAnswer{}
	}
	c.kept[url] = keptAnswer{strings.Clone(tag), res.Header.Clone(), body}
	return res, nil
}
