package openaimock_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"strings"
	"testing"

	"nod/agent/agenttest/openaimock"
)

func newMock(t *testing.T, steps ...openaimock.Step) *openaimock.Server {
	t.Helper()
	s, err := openaimock.New(steps, "model.test")
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

func client(s *openaimock.Server) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.CAPEM)
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "model.test"}}}
}

func TestStepsAreAnsweredInOrder(t *testing.T) {
	s := newMock(t, openaimock.Step{Text: "first", Calls: []openaimock.Call{{Name: "exec_command", Args: map[string]string{"cmd": "ls"}}, {Name: "apply_patch", Input: "*** Begin"}}},
		openaimock.Step{Status: 429, Error: openaimock.Error{Type: "usage_limit_reached", Message: "slow", Extra: map[string]any{"resets_at": 7}}},
		openaimock.Step{Error: openaimock.Error{Code: "insufficient_quota", Message: "none left"}}, openaimock.Step{Text: "half", Cut: true})
	c := client(s)
	if code, body, err := post(t, c, s.URL+"/v1/responses", `{}`); err != nil || code != 200 ||
		!strings.Contains(body, "event: response.completed") || !strings.Contains(body, `"arguments":"{\"cmd\":\"ls\"}"`) || !strings.Contains(body, `"input":"*** Begin"`) {
		t.Errorf("%d, %v, %s", code, err, body)
	}
	if code, body, err := post(t, c, s.URL+"/v1/responses", `{}`); err != nil || code != 429 || !strings.Contains(body, `"resets_at":7`) {
		t.Errorf("%d, %v, %s", code, err, body)
	}
	if code, body, err := post(t, c, s.URL+"/v1/responses", `{}`); err != nil || code != 200 || !strings.Contains(body, "event: response.failed") || !strings.Contains(body, "insufficient_quota") {
		t.Errorf("%d, %v, %s", code, err, body)
	}
	if _, body, err := post(t, c, s.URL+"/v1/responses", `{}`); err == nil || !strings.Contains(body, "half") {
		t.Errorf("a cut stream ended well: %s", body)
	}
	if code, body, err := post(t, c, "https://"+s.TLS+"/v1/responses", `{}`); err != nil || code != 200 || !strings.Contains(body, "done") {
		t.Errorf("%d, %v, %s", code, err, body)
	}
	if n := s.MainRequests(); n != 5 {
		t.Errorf("%d steps taken", n)
	}
}

func TestOnlyResponsesTakeSteps(t *testing.T) {
	s := newMock(t, openaimock.Step{Text: "first"})
	c := client(s)
	for path, body := range map[string]string{"/v1/other": `{}`, "/v1/responses": `{`} {
		if code, _, err := post(t, c, s.URL+path, body); err != nil || code != 404 {
			t.Errorf("%s: %d, %v", path, code, err)
		}
	}
	if s.MainRequests() != 0 || len(s.Requests()) != 2 {
		t.Errorf("%d of %d requests took a step", s.MainRequests(), len(s.Requests()))
	}
}

func TestTheAuthorityIsItsOwn(t *testing.T) {
	s := newMock(t)
	if _, err := (&http.Client{Transport: &http.Transport{}}).Head("https://" + s.TLS + "/"); err == nil {
		t.Error("a client that trusts nothing of it connected")
	}
}
