package anthropicmock_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"testing"

	"nod/agent/agenttest/anthropicmock"
)

const mainLoop = `{"model":"m","stream":true,"max_tokens":100,"tools":[{"name":"Bash"}]}`

func newMock(t *testing.T, steps ...anthropicmock.Step) *anthropicmock.Server {
	t.Helper()
	s, err := anthropicmock.New(steps, "model.test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func post(t *testing.T, c *http.Client, url, body string) (int, string, error) {
	t.Helper()
	resp, err := c.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

func client(s *anthropicmock.Server) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CAPEM)
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "model.test"}}}
}

func TestStepsAreAnsweredInOrder(t *testing.T) {
	s := newMock(t, anthropicmock.Step{Text: "first", Tools: []anthropicmock.Tool{{Name: "Bash", Input: map[string]string{"command": "ls"}}}},
		anthropicmock.Step{Status: 429, Type: "rate_limit_error", Message: "slow"}, anthropicmock.Step{Text: "half", Cut: true})
	c := client(s)
	if code, body, err := post(t, c, s.URL+"/v1/messages?beta=true", mainLoop); err != nil || code != 200 ||
		!strings.Contains(body, "event: message_stop") || !strings.Contains(body, `"stop_reason":"tool_use"`) || !strings.Contains(body, `"partial_json":"{\"command\":\"ls\"}"`) {
		t.Errorf("%d, %v, %s", code, err, body)
	}
	if code, body, err := post(t, c, s.URL+"/v1/messages", mainLoop); err != nil || code != 429 || !strings.Contains(body, "rate_limit_error") {
		t.Errorf("%d, %v, %s", code, err, body)
	}
	if _, body, err := post(t, c, s.URL+"/v1/messages", mainLoop); err == nil || !strings.Contains(body, "half") {
		t.Errorf("a cut stream ended well: %s", body)
	}
	if code, body, err := post(t, c, "https://"+s.TLS+"/v1/messages", mainLoop); err != nil || code != 200 || !strings.Contains(body, "done") {
		t.Errorf("%d, %v, %s", code, err, body)
	}
	if n := s.MainRequests(); n != 4 {
		t.Errorf("%d steps taken", n)
	}
}

func TestOnlyTheMainLoopTakesSteps(t *testing.T) {
	s := newMock(t, anthropicmock.Step{Text: "first"})
	c := client(s)
	for path, body := range map[string]string{"/v1/messages": `{"model":"m","max_tokens":100}`, "/v1/messages/count_tokens": `{}`, "/v1/other": `{}`, "/v1/messages?x": `{`} {
		if _, _, err := post(t, c, s.URL+path, body); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if resp, err := c.Head(s.URL + "/"); err != nil || resp.StatusCode != 200 {
		t.Errorf("%v", err)
	}
	if s.MainRequests() != 0 || len(s.Requests()) != 5 {
		t.Errorf("%d of %d requests took a step", s.MainRequests(), len(s.Requests()))
	}
}

func TestTheAuthorityIsItsOwn(t *testing.T) {
	s := newMock(t)
	if _, err := (&http.Client{Transport: &http.Transport{}}).Head("https://" + s.TLS + "/"); err == nil {
		t.Error("a client that trusts nothing of it connected")
	}
}
