package runtimetest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"nod"
	"nod/runtime"
	"nod/runtime/egress"
)

func mkdir(t *testing.T, parts ...string) string {
	t.Helper()
	dir := filepath.Join(parts...)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func attestationHolds(t *testing.T, c Config) {
	b := open(t, c, nil, quiet(nil))
	a, err := b.Start(t.Context(), "e1")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Holds(); err != nil {
		t.Errorf("%+v: %v", a, err)
	}
	if a.UID != 1000 || a.GID != 1000 {
		t.Errorf("the agent is %d:%d", a.UID, a.GID)
	}
}

// escapesFail is C01 to C15: a program inside tries, and its positive controls work.
func escapesFail(t *testing.T, c Config) {
	b := started(t, c, nil, quiet(nil))
	argv := []string{roleAttempts}
	if c.Container {
		argv = append(argv, inContainer)
	}
	var got []outcome
	b.role(&got, argv...)
	if len(got) < 60 {
		t.Fatalf("only %d attempts were made", len(got))
	}
	for _, o := range got {
		if !o.OK {
			t.Errorf("%s %s: %s", o.Check, o.Name, o.Got)
		}
	}
	// C15: what it signals is its own. The driver still serves afterwards.
	p := b.exec("e1", nod.Command{Argv: []string{"sh", "-c", "cat >/dev/null; kill -9 -1; sleep 600"}})
	if err := p.Stdin().Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil && nod.CodeOf(err) != nod.Unavailable {
		t.Errorf("kill -1: %v", err)
	}
	if out, status := b.sh("echo alive"); out != "alive\n" || status.Code != 0 {
		t.Errorf("after kill -1: %q, %+v", out, status)
	}
}

// noDirectWay is C16 to C18, with listeners on the host that would answer.
func noDirectWay(t *testing.T, c Config) {
	b := started(t, c, nil, quiet(nil))
	var hits atomic.Int64
	targets := []string{"tcp|169.254.169.254:80", "tcp|[fd00:ec2::254]:80", "tcp|192.0.2.1:443", "tcp|[2001:db8::1]:443", "udp|192.0.2.1:53",
		"udp|[2001:db8::1]:53", "tcp|10.0.2.2:22", "tcp|172.17.0.1:2375"}
	hosts := []string{"127.0.0.1"}
	if list, err := net.InterfaceAddrs(); err == nil {
		for _, a := range list {
			if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
				hosts = append(hosts, n.IP.String())
			}
		}
	}
	for _, h := range hosts {
		l, err := net.Listen("tcp", net.JoinHostPort(h, "0"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		go answer(l, &hits)
		u, err := net.ListenPacket("udp", net.JoinHostPort(h, "0"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = u.Close() })
		go func() {
			for buf := make([]byte, 64); ; {
				n, from, err := u.ReadFrom(buf)
				if err != nil {
					return
				}
				hits.Add(1)
				_, _ = u.WriteTo(buf[:n], from)
			}
		}()
		targets = append(targets, "tcp|"+l.Addr().String(), "udp|"+u.LocalAddr().String())
		// The control: from here it answers.
		conn, err := net.DialTimeout("tcp", l.Addr().String(), dialTimeout)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	before := hits.Load()
	var got []outcome
	b.role(&got, append([]string{roleNetwork}, targets...)...)
	for _, o := range got {
		if !o.OK {
			t.Errorf("%s %s: %s", o.Check, o.Name, o.Got)
		}
	}
	if n := hits.Load() - before; n != 0 {
		t.Errorf("%d packets reached the host", n)
	}
}

const dialTimeout = 5 * time.Second

func answer(l net.Listener, hits *atomic.Int64) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		hits.Add(1)
		_, _ = conn.Write([]byte("x"))
		_ = conn.Close()
	}
}

// resolver counts look-ups and answers with one public address.
type resolver struct{ asked atomic.Int64 }

func (r *resolver) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	r.asked.Add(1)
	return nil, &net.DNSError{Err: "canary", IsNotFound: true}
}

// proxyRefuses is C20 to C22 and the shape of C25.
func proxyRefuses(t *testing.T, c Config) {
	r := &resolver{}
	e := quiet(nil)
	e.Resolver = r
	b := started(t, c, func(s *runtime.Spec) { s.Egress = []egress.Rule{{Host: "ok.example"}} }, e)
	denied := []string{
		"evil.example:443", "ok.example:22", "ok.example.evil.example:443", "notok.example:443", "sub.ok.example:443",
		"ok.example:443@evil.example:443", "evil.example:443#ok.example", "ok.example..:443", "ok.example", "ok.example:", ":443",
		"127.0.0.1:443", "[::1]:443", "0x7f000001:443", "2130706433:443", "0177.0.0.1:443", "127.1:443", "[::ffff:127.0.0.1]:443", "[fe80::1%25lo]:443",
		"localhost:443", "169.254.169.254:80", "\u0456k.example:443", "ok.example :443",
	}
	requests := append([]string{
		"GET http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\n\r\n",
		"CONNECT ok.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n",
		"CONNECT " + strings.Repeat("a", 9000) + ":443 HTTP/1.1\r\n\r\n",
		"\x16\x03\x01\r\n\r\n",
	}, denied...)
	got := map[string]string{}
	b.role(&got, append([]string{roleConnect}, requests...)...)
	for _, q := range requests {
		if !strings.HasPrefix(got[q], "4") && got[q] != "closed" {
			t.Errorf("%.60q was answered %q", q, got[q])
		}
	}
	if n := r.asked.Load(); n != 0 {
		t.Errorf("refused names were resolved %d times", n)
	}
	// The control: the listed name gets as far as the resolver.
	b.role(&got, roleConnect, "ok.example:443")
	if r.asked.Load() == 0 {
		t.Error("the listed name was not resolved")
	}
}

// proxyLetsThrough is C19 and the empty list of C26.
func proxyLetsThrough(t *testing.T, c Config) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		fmt.Fprintf(w, "echo %s", body)
	}))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	b := started(t, c, func(s *runtime.Spec) { s.Egress = []egress.Rule{{Host: "allowed.example", Upstream: u.Host}} }, quiet(nil))
	out, stderr, status := b.run("e1", "hello", nod.Command{Argv: []string{nod.GuestPath, roleTunnel, "https://allowed.example/"}})
	if out != "echo hello" {
		t.Errorf("got %q, %+v, %s", out, status, stderr)
	}
	b.provision("e2", owner, nil)
	if _, err := b.Start(t.Context(), "e2"); err != nil {
		t.Fatal(err)
	}
	out, _, status = b.run("e2", "hello", nod.Command{Argv: []string{nod.GuestPath, roleTunnel, "https://allowed.example/"}})
	if status.Code == 0 {
		t.Errorf("an environment with an empty list got %q", out)
	}
}

// environmentsDoNotMeet is C27.
func environmentsDoNotMeet(t *testing.T, c Config) {
	b := started(t, c, nil, quiet(nil))
	b.provision("e2", "another", nil)
	if _, err := b.Start(t.Context(), "e2"); err != nil {
		t.Fatal(err)
	}
	p := b.exec("e2", nod.Command{Argv: []string{nod.GuestPath, roleListen}})
	readUntil(t, p.Stdout(), "listening")
	script := `test ! -e /dev/shm/nod-try && test ! -e /tmp/nod-try.sock && ! grep -q [n]od-try-listen /proc/[0-9]*/cmdline && ! grep -q @[n]od-try /proc/net/unix`
	if out, status := b.sh(script); status.Code != 0 {
		t.Errorf("something of the other environment is seen: %q", out)
	}
	var got []outcome
	b.role(&got, roleNetwork, "tcp|127.0.0.1:9999")
	for _, o := range got {
		if !o.OK {
			t.Errorf("%s %s: %s", o.Check, o.Name, o.Got)
		}
	}
	if err := p.Stdin().Close(); err != nil {
		t.Fatal(err)
	}
	if status, err := p.Wait(); err != nil || status.Code != 0 {
		t.Errorf("the listener ended with %+v, %v", status, err)
	}
	for who, want := range map[string]string{owner: "e1", "another": "e2", "nobody": ""} {
		list, err := b.List(t.Context(), who)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, s := range list {
			ids = append(ids, s.ID)
		}
		if strings.Join(ids, " ") != want {
			t.Errorf("List(%s) = %v", who, ids)
		}
	}
}

// secretsStay is C28: a value in one exec's environment is found nowhere else.
func secretsStay(t *testing.T, c Config) {
	const secret = "hunter2-7f3a91c0"
	b := started(t, c, nil, quiet(nil))
	p := b.exec("e1", nod.Command{Argv: []string{"sh", "-c", `echo "have $TOKEN"; cat`}, Env: map[string]string{"TOKEN": secret}})
	if got := readUntil(t, p.Stdout(), "\n"); got != "have "+secret+"\n" {
		t.Errorf("the command has %q", got)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range lines {
		// A process may end while it is looked at.
		if text, err := os.ReadFile(f); err == nil && strings.Contains(string(text), secret) {
			t.Errorf("%s shows the secret", f)
		}
	}
	err = filepath.WalkDir(b.root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), secret) {
			t.Errorf("%s holds the secret", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if out, _ := b.sh("env"); strings.Contains(out, secret) {
		t.Error("another exec has the secret")
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Error(err)
	}
}
