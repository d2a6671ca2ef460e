package codex_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"nod"
	"nod/agent"
	"nod/agent/agenttest/openaimock"
	"nod/agent/codex"
)

// connectProxy is a proxy that knows one name. It records every host it was asked
// for.
type connectProxy struct {
	*httptest.Server
	mu    sync.Mutex
	hosts []string
}

func newConnectProxy(t *testing.T, name, target string) *connectProxy {
	t.Helper()
	p := &connectProxy{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.hosts = append(p.hosts, r.Method+" "+r.Host)
		p.mu.Unlock()
		if r.Method != http.MethodConnect || r.Host != name {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		up, err := net.Dial("tcp", target)
		if err != nil {
			http.Error(w, "no", http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusOK)
		down, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			_ = up.Close() // the request has failed anyway
			return
		}
		go func() {
			_, _ = io.Copy(up, buf) // either side may leave
			_ = up.Close()
		}()
		_, _ = io.Copy(down, up)
		_ = down.Close()
	}))
	t.Cleanup(func() { p.CloseClientConnections(); p.Close() })
	return p
}

func (p *connectProxy) asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := slices.Clone(p.hosts)
	slices.Sort(out)
	return slices.Compact(out)
}

// The way out of a hardened environment: TLS to a name that only the proxy knows,
// under an authority that only the environment trusts.
func TestCodexReachesTheModelThroughAConnectProxyAlone(t *testing.T) {
	for _, variable := range []string{"SSL_CERT_FILE", "CODEX_CA_CERTIFICATE"} {
		t.Run(variable, func(t *testing.T) {
			r := newReal(t, []openaimock.Step{step(shell("printf ok > ok.txt")), {Text: "done"}}, "model.test")
			proxy := newConnectProxy(t, "model.test:443", r.TLS)
			ca := filepath.Join(t.TempDir(), "ca.pem")
			if err := os.WriteFile(ca, r.CAPEM, 0o644); err != nil {
				t.Fatal(err)
			}
			r.env["HTTPS_PROXY"], r.env[variable] = proxy.URL, ca
			_, result, err := r.play(t, r.adapter(t, func(c *codex.Config) { c.BaseURL = "https://model.test/v1" }), nod.AgentSpec{Approve: allowAll})
			if err != nil || !result.OK || result.Text != "done" {
				t.Errorf("%+v, %v", result, err)
			}
			if read(t, filepath.Join(r.dir, "ok.txt")) != "ok" {
				t.Error("nothing was done")
			}
			for _, q := range r.Requests() {
				if !q.TLS || q.Host != "model.test" {
					t.Errorf("it came another way: %s", q.Dump())
				}
			}
			if got := proxy.asked(); !slices.Equal(got, []string{"CONNECT model.test:443"}) {
				t.Errorf("the proxy was asked for %v", got)
			}
		})
	}
}

func TestCodexRefusesAModelUnderAnUnknownAuthority(t *testing.T) {
	r := newReal(t, nil, "model.test")
	proxy := newConnectProxy(t, "model.test:443", r.TLS)
	r.env["HTTPS_PROXY"] = proxy.URL
	_, result, err := r.play(t, r.adapter(t, func(c *codex.Config) { c.BaseURL = "https://model.test/v1" }), nod.AgentSpec{Approve: allowAll})
	if err != nil || result.OK || result.Reason != agent.ReasonAPIError || strings.Contains(result.Text, dummyKey) {
		t.Errorf("%+v, %v", result, err)
	}
	if len(r.Requests()) > 0 {
		t.Error("a request was made")
	}
	if got := proxy.asked(); !slices.Equal(got, []string{"CONNECT model.test:443"}) {
		t.Errorf("the proxy was asked for %v", got)
	}
}
