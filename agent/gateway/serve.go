package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"

	"nod"
)

// allowed are the calls that a coding agent needs, as "METHOD path" from inside,
// and what follows the upstream's base.
var allowed = map[API]map[string]string{
	Anthropic: {
		"POST /v1/messages":              "/v1/messages",
		"POST /v1/messages/count_tokens": "/v1/messages/count_tokens",
		"GET /v1/models":                 "/v1/models",
	},
	OpenAI: {
		"POST /v1/responses":         "/responses",
		"POST /v1/responses/compact": "/responses/compact",
		"GET /v1/models":             "/models",
	},
}

// queries are the parameters that are passed on.
var queries = []string{"beta", "client_version", "limit", "after_id", "before_id"}

// ServeHTTP handles one call from inside an environment.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead && r.URL.Path == "/" {
		return // some programs look whether anybody is there
	}
	way, ok := g.find(r)
	if !ok {
		g.refuse(w, r, Anthropic, http.StatusUnauthorized, "the token is not of a run in this environment")
		return
	}
	api := way.Upstream.api
	path, ok := allowed[api][r.Method+" "+r.URL.Path]
	if !ok {
		g.refuse(w, r, api, http.StatusForbidden, "the model gateway passes this call to nobody")
		return
	}
	for name := range r.URL.Query() {
		if !slices.Contains(queries, name) {
			g.refuse(w, r, api, http.StatusForbidden, "the model gateway passes this parameter to nobody")
			return
		}
	}
	select {
	case way.slots <- struct{}{}:
		defer func() { <-way.slots }()
	default:
		g.refuse(w, r, api, http.StatusServiceUnavailable, "the run has too many calls under way")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyCap))
	if err != nil {
		g.refuse(w, r, api, http.StatusRequestEntityTooLarge, "the request cannot be read, or is over 64 MiB")
		return
	}
	if r.Method == http.MethodPost {
		if err := inspect(api, body); err != nil {
			g.refuse(w, r, api, http.StatusForbidden, nod.PublicMessage(err))
			return
		}
	} else if len(body) > 0 {
		g.refuse(w, r, api, http.StatusBadRequest, "a request of this kind has no body")
		return
	}
	g.pass(w, r, way, path, body)
}

// pass sends the call on with the key, and what comes back as it comes.
func (g *Gateway) pass(w http.ResponseWriter, r *http.Request, way *route, path string, body []byte) {
	up := way.Upstream
	c := way.begin()
	if err := way.used(c, nod.Usage{}, false); err != nil {
		_ = way.used(c, nod.Usage{}, true) // it says the same once more
		g.refuse(w, r, up.api, http.StatusForbidden, nod.PublicMessage(err))
		return
	}
	defer c.end()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-way.ended:
			cancel()
		case <-g.ctx.Done():
			cancel()
		case <-over:
		}
	}()
	proxy := httputil.ReverseProxy{
		Transport:     up.via,
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(g.log.Handler(), slog.LevelDebug),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = up.base.Scheme, up.base.Host, ""
			p.Out.URL.Path, p.Out.URL.RawPath = up.base.Path+path, ""
			p.Out.Body, p.Out.ContentLength, p.Out.GetBody = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
			up.authorize(p.Out.Header)
		},
		ModifyResponse: func(resp *http.Response) error { return g.answer(c, resp) },
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(err, context.Canceled) {
				panic(http.ErrAbortHandler) // whoever asked has gone, or may hear no more
			}
			g.log.Warn("model call failed", "environment", way.Environment, "err", err)
			g.refuse(w, r, up.api, http.StatusBadGateway, "the model's API cannot be reached, or its answer makes no sense")
		},
	}
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// authorize puts the key in the place of the token, and leaves nothing else that
// would speak for the agent or ask for an answer that cannot be read here.
func (u *Upstream) authorize(h http.Header) {
	for _, name := range []string{"Authorization", "X-Api-Key", "Cookie", "Proxy-Authorization", "Forwarded", "X-Forwarded-For", "X-Forwarded-Host",
		"X-Forwarded-Proto", "Openai-Organization", "Openai-Project", "Accept-Encoding", "Content-Encoding"} {
		h.Del(name)
	}
	h.Set("Accept-Encoding", "identity")
	if u.api == OpenAI || u.login {
		h.Set("Authorization", "Bearer "+u.key.Reveal())
		return
	}
	h.Set("X-Api-Key", u.key.Reveal())
}

// answer looks at what the model's API answers, and has its body measured.
func (g *Gateway) answer(c *call, resp *http.Response) error {
	switch e := resp.Header.Get("Content-Encoding"); {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return errors.New("the answer leads elsewhere")
	case e != "" && e != "identity":
		return errors.New("the answer is encoded, so that what it costs cannot be seen")
	}
	resp.Header.Del("Set-Cookie")
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusPaymentRequired {
		c.way.Meter.Limited(reset(resp.Header, g.now()))
	}
	stream := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	resp.Body = &measured{body: resp.Body, call: c, gauge: gauge{api: c.way.Upstream.api, stream: stream}}
	return nil
}

// refuse answers in the API's own form, so that the program tells it as its error.
func (g *Gateway) refuse(w http.ResponseWriter, r *http.Request, api API, status int, why string) {
	environment, _ := r.Context().Value(environmentKey{}).(string)
	g.log.Warn("model call refused", "environment", environment, "status", status, "reason", why)
	detail := map[string]any{"type": "permission_error", "message": "nod: " + why}
	body := map[string]any{"error": detail}
	if api == Anthropic {
		body["type"] = "error"
	} else {
		detail["code"] = "nod_refused"
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Should-Retry", "false")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // whoever asked has gone
}
