package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"nod"
)

const key = "sk-test-the-real-key"

// gauges is a nod.Meter that keeps what it hears and ends at a limit.
type gauges struct {
	mu    sync.Mutex
	limit int64
	last  nod.Usage
	heard int
	until []time.Time
}

func (m *gauges) Used(u nod.Usage) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.heard = u, m.heard+1
	if m.limit > 0 && u.InputTokens+u.OutputTokens >= m.limit {
		return nod.E(nod.Failed, "a budget is used up", nil)
	}
	return nil
}

func (m *gauges) Limited(until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.until = append(m.until, until)
}

func (m *gauges) used() nod.Usage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// bench is a gateway, a model behind it and a client in the environment "e1".
type bench struct {
	t      *testing.T
	gate   *Gateway
	model  *httptest.Server
	meter  *gauges
	client *http.Client
	pass   *Pass

	mu   sync.Mutex
	seen []*http.Request
}

func newBench(t *testing.T, api API, answer http.HandlerFunc) *bench {
	t.Helper()
	b := &bench{t: t, meter: &gauges{}}
	b.model = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // the gateway has left
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		b.mu.Lock()
		b.seen = append(b.seen, r)
		b.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(b.model.Close)
	b.gate = New(time.Now, nil)
	t.Cleanup(func() {
		if err := b.gate.Close(); err != nil {
			t.Error(err)
		}
	})
	base := b.model.URL
	if api == OpenAI {
		base += "/v1"
	}
	up, err := NewUpstream(api, base, nod.NewSecret(key), nil)
	if err != nil {
		t.Fatal(err)
	}
	if b.pass, err = b.gate.Open(Route{Environment: "e1", Upstream: up, Meter: b.meter}); err != nil {
		t.Fatal(err)
	}
	b.client = b.in("e1")
	return b
}

// in is a client inside an environment: its connections are the proxy's.
func (b *bench) in(environment string) *http.Client {
	b.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { b.gate.Serve(ctx, environment, c) })
		}
	})
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	}}
	b.t.Cleanup(func() {
		tr.CloseIdleConnections()
		cancel()
		if err := l.Close(); err != nil {
			b.t.Error(err)
		}
		serving.Wait()
	})
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func (b *bench) requests() []*http.Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen
}

// call sends a request with the run's token and returns status and body.
func (b *bench) call(method, path, body string, change ...func(*http.Request)) (int, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, "http://127.0.0.1:3128"+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+b.pass.Token.Reveal())
	for _, f := range change {
		f(r)
	}
	resp, err := b.client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, string(raw) + " " + err.Error()
	}
	return resp.StatusCode, string(raw)
}

const question = `{"model":"m","stream":true,"max_tokens":10,"messages":[{"role":"user","content":"hello"}],"tools":[{"type":"custom","name":"Bash","input_schema":{}}]}`

func plain(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"type":"message","usage":{"input_tokens":5,"cache_read_input_tokens":2,"output_tokens":3}}`)
}

// TestTheKeyTakesTheTokensPlace: the model sees the key and nothing that the agent
// could have chosen in its place; the agent sees no key.
func TestTheKeyTakesTheTokensPlace(t *testing.T) {
	for api, want := range map[API]string{Anthropic: "/v1/messages", OpenAI: "/v1/responses"} {
		b := newBench(t, api, plain)
		code, body := b.call("POST", want+"?beta=true", question, func(r *http.Request) {
			r.Header.Set("Cookie", "a=b")
			r.Header.Set("Openai-Organization", "another")
			r.Header.Set("Accept-Encoding", "br")
			r.Header.Set("Anthropic-Version", "2023-06-01")
			r.Host = "evil.example"
		})
		seen := b.requests()
		if code != 200 || !strings.Contains(body, "usage") || len(seen) != 1 {
			t.Fatalf("%s: %d %s, %d requests", api, code, body, len(seen))
		}
		r := seen[0]
		got := r.Header.Get("X-Api-Key") + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		raw, err := io.ReadAll(r.Body)
		if err != nil || got != key || string(raw) != question || r.URL.Path != want || r.URL.RawQuery != "beta=true" || r.Header.Get("Anthropic-Version") == "" ||
			r.Header.Get("Cookie")+r.Header.Get("Openai-Organization")+r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("Accept-Encoding") != "identity" ||
			"http://"+r.Host != b.model.URL {
			t.Errorf("%s: the model was asked %s %s with %v: %s, %v", api, r.Host, r.URL, r.Header, raw, err)
		}
		if u := b.meter.used(); u.InputTokens < 5 || u.OutputTokens != 3 {
			t.Errorf("%s: measured %+v", api, u)
		}
	}
}

// TestOnlyTheRunsOwnTokenPasses: no other token, no token of another environment, none
// after the run, and the model hears of none of it.
func TestOnlyTheRunsOwnTokenPasses(t *testing.T) {
	b := newBench(t, Anthropic, plain)
	own := b.client
	b.client = b.in("e2")
	if code, _ := b.call("POST", "/v1/messages", question); code != 401 {
		t.Errorf("from another environment: %d", code)
	}
	b.client = own
	for name, token := range map[string]string{"none": "", "the key itself": key, "one like it": b.pass.Token.Reveal()[:20] + "AAAAAA"} {
		if code, body := b.call("POST", "/v1/messages", question, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }); code != 401 || strings.Contains(body, key) {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
	b.pass.Close()
	b.pass.Close()
	if code, _ := b.call("POST", "/v1/messages", question); code != 401 {
		t.Errorf("after the run: %d", code)
	}
	if n := len(b.requests()); n != 0 {
		t.Errorf("%d requests reached the model", n)
	}
	if _, err := b.gate.Open(Route{Environment: "e1"}); nod.CodeOf(err) != nod.Invalid {
		t.Errorf("a way without upstream and meter: %v", err)
	}
}

// TestOnlyListedCallsPass: whatever else the key would be good for is refused.
func TestOnlyListedCallsPass(t *testing.T) {
	b := newBench(t, Anthropic, plain)
	for _, c := range []struct{ method, path string }{
		{"GET", "/v1/messages"}, {"DELETE", "/v1/messages"}, {"POST", "/v1/messages/batches"}, {"POST", "/v1/files"}, {"GET", "/v1/organizations/users"},
		{"POST", "/v1/responses"}, {"POST", "/"}, {"POST", "/v1/messages/"}, {"POST", "/v1/../v1/messages"}, {"POST", "//v1/messages"}, {"POST", "/v1/messages?key=x"},
		{"GET", "/v1/models/x"}, {"POST", "/V1/messages"}, {"POST", "/v1/messages%2Fbatches"},
	} {
		if code, body := b.call(c.method, c.path, question); code != 403 || !strings.Contains(body, `"permission_error"`) {
			t.Errorf("%s %s: %d %s", c.method, c.path, code, body)
		}
	}
	if code, _ := b.call("HEAD", "/", ""); code != 200 {
		t.Errorf("HEAD /: %d", code)
	}
	if n := len(b.requests()); n != 0 {
		t.Errorf("%d requests reached the model", n)
	}
	if code, _ := b.call("GET", "/v1/models?limit=5", ""); code != 200 {
		t.Errorf("the list of models: %d", code)
	}
}

// TestTheModelReachesOutForNobody: a request that has the API fetch or run something
// would be a way out past the environment's own list of hosts.
func TestTheModelReachesOutForNobody(t *testing.T) {
	for _, c := range []struct {
		api  API
		body string
		ok   bool
	}{
		{Anthropic, `{"mcp_servers":[{"type":"url","url":"https://evil.example"}]}`, false},
		{Anthropic, `{"mcp_servers":[]}`, true},
		{Anthropic, `{"container":"c"}`, false},
		{Anthropic, `{"tools":[{"type":"web_fetch_20250910","name":"web_fetch"}]}`, false},
		{Anthropic, `{"tools":[{"type":"web_search_20250305","name":"web_search"}]}`, false},
		{Anthropic, `{"tools":[{"type":"code_execution_20250825","name":"x"}]}`, false},
		{Anthropic, `{"tools":[{"type":"bash_20250124","name":"bash"},{"type":"custom","name":"x"},{"name":"y"}]}`, true},
		{Anthropic, `{"tools":[{"t\u0079pe":"web_fetch_20250910"}]}`, false},
		{Anthropic, `{"tools":[{"type":"custom"}],"tools":[{"type":"web_fetch_20250910"}]}`, false},
		{Anthropic, `{"tools":[{"type":"web_fetch_20250910"}],"Tools":[]}`, false},
		{Anthropic, `{"messages":[{"content":[{"type":"image","source":{"type":"url","url":"https://evil.example/a"}}]}]}`, false},
		{Anthropic, `{"messages":["x",{"content":["x",{"type":"tool_result","content":[{"type":"document","source":{"type":"url","url":"http://x"}}]}]}]}`, false},
		{Anthropic, `{"messages":[{"content":[{"type":"document","source":{"type":"file","file_id":"f"}}]}]}`, false},
		{Anthropic, `{"messages":[{"content":[{"type":"image","source":{"type":"base64","data":"AAAA"}},{"type":"tool_use","input":{"url":"https://x","file_id":"y"}}]}]}`, true},
		{Anthropic, `[]`, false},
		{Anthropic, `{} {}`, false},
		{Anthropic, `{"a":`, false},
		{OpenAI, `{"tools":[{"type":"mcp","server_url":"https://evil.example"}]}`, false},
		{OpenAI, `{"tools":[{"type":"web_search"}]}`, false},
		{OpenAI, `{"tools":[{"name":"x"}]}`, false},
		{OpenAI, `{"tools":[{"type":"function","name":"x"},{"type":"custom","name":"apply_patch"},{"type":"local_shell"}],"input":"hello"}`, true},
		{OpenAI, `{"input":[{"type":"message","content":[{"type":"input_image","image_url":"https://evil.example/a.png"}]}]}`, false},
		{OpenAI, `{"input":[{"type":"message","content":[{"type":"input_image","image_url":"data:image/png;base64,AA"}]}]}`, true},
		{OpenAI, `{"input":[{"type":"function_call_output","output":[{"type":"input_file","file_url":"https://evil.example"}]}]}`, false},
		{OpenAI, `{"input":[{"type":"function_call_output","output":"text with file_url"},{"type":"reasoning","content":null}]}`, true},
		{OpenAI, `{"prompt":{"id":"pmpt_1"}}`, false},
	} {
		if err := inspect(c.api, []byte(c.body)); (err == nil) != c.ok || err != nil && nod.CodeOf(err) != nod.Forbidden {
			t.Errorf("%s %s: %v", c.api, c.body, err)
		}
	}
	b := newBench(t, Anthropic, plain)
	if code, body := b.call("POST", "/v1/messages", `{"mcp_servers":[{"url":"https://evil.example"}]}`); code != 403 || len(b.requests()) != 0 {
		t.Errorf("%d %s, %d requests", code, body, len(b.requests()))
	}
}

// TestStreamsPassUnbuffered: each event is with the agent before the model writes the
// next one, and its usage is measured by then.
func TestStreamsPassUnbuffered(t *testing.T) {
	next := make(chan struct{})
	b := newBench(t, Anthropic, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for i, event := range []string{
			"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":7,\"cache_creation_input_tokens\":1,\"output_tokens\":1}}}\n\n",
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"says \\\"usage\\\"\"}}\n\n",
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"b\"}}\n\n",
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":20}}\n\n",
		} {
			if i > 0 {
				<-next
			}
			_, _ = io.WriteString(w, event)
			w.(http.Flusher).Flush()
		}
	})
	r, err := http.NewRequestWithContext(t.Context(), "POST", "http://127.0.0.1:3128/v1/messages", strings.NewReader(question))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", b.pass.Token.Reveal())
	resp, err := b.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	in := bufio.NewReader(resp.Body)
	for i, want := range []nod.Usage{{InputTokens: 8, OutputTokens: 1}, {InputTokens: 8, OutputTokens: 1}, {InputTokens: 8, OutputTokens: 2}, {InputTokens: 8, OutputTokens: 20}} {
		if i > 0 {
			next <- struct{}{}
		}
		for range 3 {
			if _, err := in.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		if got := b.meter.used(); got != want {
			t.Errorf("after event %d: %+v, want %+v", i, got, want)
		}
	}
}

// TestBudgetCutsAStreamOff in the middle, and refuses every call after it.
func TestBudgetCutsAStreamOff(t *testing.T) {
	for api, path := range map[API]string{Anthropic: "/v1/messages", OpenAI: "/v1/responses"} {
		left := make(chan struct{})
		b := newBench(t, api, func(w http.ResponseWriter, r *http.Request) {
			defer close(left)
			w.Header().Set("Content-Type", "text/event-stream")
			for r.Context().Err() == nil {
				if _, err := io.WriteString(w, "event: response.output_text.delta\ndata: {\"delta\":\"x\"}\n\n"); err != nil {
					return
				}
				w.(http.Flusher).Flush()
			}
		})
		b.meter.limit = 10
		code, body := b.call("POST", path, question)
		if n := strings.Count(body, "data:"); code != 200 && code != 0 || n >= 20 || !strings.Contains(body, "EOF") {
			t.Errorf("%s: %d, %d events, %q", api, code, n, body[max(0, len(body)-60):])
		}
		<-left // the model's API does not work on for nobody
		if code, body := b.call("POST", path, question); code != 403 || !strings.Contains(body, "a budget is used up") || len(b.requests()) != 1 {
			t.Errorf("%s, after it: %d %s", api, code, body)
		}
	}
}

// TestEndOfTheRunEndsItsCalls: a stream does not outlive the pass.
func TestEndOfTheRunEndsItsCalls(t *testing.T) {
	began, left := make(chan struct{}), make(chan struct{})
	b := newBench(t, Anthropic, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		close(began)
		<-r.Context().Done()
		close(left)
	})
	done := make(chan string, 1)
	go func() {
		_, body := b.call("POST", "/v1/messages", question)
		done <- body
	}()
	<-began
	b.pass.Close()
	<-left
	if body := <-done; !strings.Contains(body, "EOF") {
		t.Errorf("the agent read %q", body)
	}
}

func TestAnswersThatCannotBeMeasuredAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ header, value string }{"encoded": {"Content-Encoding", "gzip"}, "elsewhere": {"Location", "https://evil.example"}} {
		b := newBench(t, Anthropic, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set(c.header, c.value)
			if c.header == "Location" {
				w.WriteHeader(307)
			}
		})
		if code, body := b.call("POST", "/v1/messages", question); code != 502 || strings.Contains(body, "evil") {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
}

// TestErrorsOfTheModelPassAsTheyAre, and what they say of the time of a reset is told.
func TestErrorsOfTheModelPassAsTheyAre(t *testing.T) {
	b := newBench(t, Anthropic, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.Header().Set("Set-Cookie", "a=b")
		w.WriteHeader(429)
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`)
	})
	code, body := b.call("POST", "/v1/messages", question)
	if code != 429 || !strings.Contains(body, "rate_limit_error") || len(b.meter.until) != 1 || time.Until(b.meter.until[0]) < 59*time.Minute {
		t.Errorf("%d %s, %v", code, body, b.meter.until)
	}
}

func TestResetIsReadAsTheAPIsTellIt(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		headers string
		want    time.Duration
	}{
		{"Retry-After: 60", time.Minute},
		{"Retry-After: Fri, 02 Jan 2026 04:04:05 GMT", time.Hour},
		{"Retry-After: 0", 0},
		{"Retry-After: -5", 0},
		{"Retry-After: soon", 0},
		{"Retry-After: 99999999999999999999", 0},
		{fmt.Sprintf("Anthropic-Ratelimit-Unified-Status: rejected\nAnthropic-Ratelimit-Unified-Reset: %d", now.Add(5*time.Hour).Unix()), 5 * time.Hour},
		{fmt.Sprintf("Anthropic-Ratelimit-Unified-Status: allowed\nAnthropic-Ratelimit-Unified-Reset: %d", now.Add(5*time.Hour).Unix()), 0},
		{"Anthropic-Ratelimit-Requests-Remaining: 0\nAnthropic-Ratelimit-Requests-Reset: 2026-01-02T03:05:05Z\nAnthropic-Ratelimit-Tokens-Remaining: 4\nAnthropic-Ratelimit-Tokens-Reset: 2026-01-02T09:00:00Z", time.Minute},
		{"X-Ratelimit-Remaining-Tokens: 0\nX-Ratelimit-Reset-Tokens: 6m0s\nX-Ratelimit-Remaining-Requests: 0\nX-Ratelimit-Reset-Requests: 1s", 6 * time.Minute},
		{"X-Ratelimit-Remaining-Tokens: 0\nX-Ratelimit-Reset-Tokens: 9999h", 0},
		{"", 0},
	} {
		h := http.Header{}
		for line := range strings.Lines(c.headers) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
			h.Set(name, value)
		}
		got := reset(h, now)
		if c.want == 0 && !got.IsZero() || c.want != 0 && !got.Equal(now.Add(c.want)) {
			t.Errorf("%q: %v", c.headers, got)
		}
	}
}

func TestUpstreamsAreChecked(t *testing.T) {
	for _, c := range []struct {
		api       API
		base, key string
		ca        string
	}{
		{"gemini", "", key, ""}, {Anthropic, "", "", ""}, {Anthropic, "", "a b", ""}, {Anthropic, "http://model.example", key, ""}, {Anthropic, "ftp://model.example", key, ""},
		{Anthropic, "https://user@model.example", key, ""}, {Anthropic, "https://model.example?x=1", key, ""}, {Anthropic, "model.example", key, ""}, {OpenAI, "", key, "no certificate"},
	} {
		if u, err := NewUpstream(c.api, c.base, nod.NewSecret(c.key), []byte(c.ca)); nod.CodeOf(err) != nod.Invalid || u != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if u, err := NewUpstream(OpenAI, "", nod.NewSecret(key), nil); err != nil || u.base.String() != "https://api.openai.com/v1" {
		t.Errorf("%+v, %v", u, err)
	}
}

// FuzzGauge: no answer makes the gauge panic, count backwards or count below zero,
// however it is cut into pieces.
func FuzzGauge(f *testing.F) {
	f.Add([]byte("event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":7}}}\n\n"), uint8(3), true)
	f.Add([]byte(`{"usage":{"input_tokens":-7,"output_tokens":9223372036854775807,"cache_read_input_tokens":9}}`), uint8(1), false)
	f.Fuzz(func(t *testing.T, raw []byte, step uint8, stream bool) {
		whole := gauge{api: Anthropic, stream: stream}
		whole.feed(raw, true)
		g := gauge{api: Anthropic, stream: stream}
		last := nod.Usage{}
		for rest := raw; ; {
			n := min(int(step)+1, len(rest))
			g.feed(rest[:n], n == len(rest))
			rest = rest[n:]
			u := g.usage()
			if u.InputTokens < last.InputTokens || u.OutputTokens < last.OutputTokens {
				t.Fatalf("from %+v to %+v", last, u)
			}
			if last = u; len(rest) == 0 {
				break
			}
		}
		if g.usage() != whole.usage() {
			t.Fatalf("in pieces %+v, whole %+v", g.usage(), whole.usage())
		}
	})
}

// FuzzInspect: what passes is one JSON object and, read the usual way, names no server
// and no tool of the API's own.
func FuzzInspect(f *testing.F) {
	f.Add([]byte(question))
	f.Add([]byte(`{"tools":[{"type":"web_fetch"}],"TOOLS":[]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if inspect(Anthropic, raw) != nil {
			return
		}
		var b map[string]any
		if err := json.Unmarshal(raw, &b); err != nil {
			t.Fatalf("passed %q: %v", raw, err)
		}
		tools, _ := b["tools"].([]any)
		for _, tool := range tools {
			o, _ := tool.(map[string]any)
			if kind, _ := o["type"].(string); strings.HasPrefix(kind, "web_") {
				t.Fatalf("passed %q", raw)
			}
		}
		if list, _ := b["mcp_servers"].([]any); len(list) > 0 {
			t.Fatalf("passed %q", raw)
		}
	})
}

func BenchmarkStream(b *testing.B) {
	event := []byte("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a few words\"}}\n\n")
	raw := []byte(strings.Repeat(string(event), 1000))
	for name, measure := range map[string]bool{"copied": false, "measured": true} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			buf := make([]byte, 32<<10)
			for b.Loop() {
				g := gauge{api: Anthropic, stream: true}
				for rest := raw; len(rest) > 0; {
					n := copy(buf, rest)
					rest = rest[n:]
					if measure {
						g.feed(buf[:n], len(rest) == 0)
					}
				}
			}
		})
	}
}

// TestConnectionsEndWithTheirEnvironment: Serve returns when the proxy ends.
func TestConnectionsEndWithTheirEnvironment(t *testing.T) {
	b := newBench(t, Anthropic, plain)
	inside, outside := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() {
		defer close(served)
		b.gate.Serve(ctx, "e1", outside)
	}()
	cancel()
	<-served
	if _, err := inside.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection is open: %v", err)
	}
}

// The token of a login goes as a bearer, and as nothing else.
func TestALoginsTokenIsABearer(t *testing.T) {
	b := newBench(t, Anthropic, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	up, err := NewUpstream(Anthropic, b.model.URL, nod.NewSecret(key), nil)
	if err != nil {
		t.Fatal(err)
	}
	pass, err := b.gate.Open(Route{Environment: "e1", Upstream: up.Login(), Meter: b.meter})
	if err != nil {
		t.Fatal(err)
	}
	defer pass.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:3128/v1/messages", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+pass.Token.Reveal())
	r.Header.Set("Anthropic-Beta", "oauth-2025-04-20")
	resp, err := b.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.seen) != 1 || b.seen[0].Header.Get("Authorization") != "Bearer "+key || b.seen[0].Header.Get("X-Api-Key") != "" || b.seen[0].Header.Get("Anthropic-Beta") == "" {
		t.Errorf("%d requests, %v", len(b.seen), b.seen)
	}
}
