package runtimetest

import (
	"fmt"
	"io"
	"strings"

	"nod"
	"nod/runtime"
	"nod/runtime/egress"
)

// tunnel is what came of saying stdin in a mode inside a tunnel to host.
func (b *bench) tunnel(id, mode, host, stdin string) string {
	b.t.Helper()
	out, stderr, status := b.run(id, stdin, b.guest(id, roleTunnel, mode, host))
	if status.Code != 0 {
		return strings.TrimSpace(stderr)
	}
	return out
}

const words = "some words"

var echoed = fmt.Sprintf("%sof %d", words, len(words))

// listedIsReached is C19. The server says how much came only when its client has
// ended one direction and still reads the other.
func listedIsReached(b *bench) {
	if got := b.tunnel("e1", "echo", listed, words); got != echoed {
		b.t.Errorf("got %q, want %q", got, echoed)
	}
	big := strings.Repeat("x", 3<<20)
	if got := b.tunnel("e1", "echo", listed, big); got != fmt.Sprintf("%sof %d", big, len(big)) {
		b.t.Errorf("%d bytes came back of %d", len(got), len(big))
	}
	if got := b.tunnel("e1", "echo", "unlisted.example", words); !strings.Contains(got, " 403 ") {
		b.t.Errorf("an unlisted host: %q", got)
	}
}

// ask sends requests to the proxy from inside.
func (b *bench) ask(id, role string, requests ...string) map[string]string {
	b.t.Helper()
	got := map[string]string{}
	b.role(&got, id, append([]string{role}, requests...)...)
	return got
}

// refused wants a refusal of each request, and that a listed host is let through
// beside them.
func (b *bench) refused(requests ...string) {
	b.t.Helper()
	got := b.ask("e1", roleConnect, append(requests, listed+":443")...)
	for _, q := range requests {
		if !strings.HasPrefix(got[q], "4") && got[q] != "closed" {
			b.t.Errorf("%.60q was answered %q", q, got[q])
		}
	}
	if got[listed+":443"] != "200" {
		b.t.Errorf("the listed host was answered %q", got[listed+":443"])
	}
}

var inexact = []string{
	"evil.example:443", "ok.example:22", "ok.example:80", "ok.example.evil.example:443", "notok.example:443", "sub.ok.example:443", "example:443",
	"ok.example:443@evil.example:443", "user@ok.example:443", "user:pw@ok.example:443", "evil.example:443#ok.example", "ok.example..:443", ".ok.example:443", "ok..example:443",
	"ok.example", "ok.example:", ":443", "ok.example:443:443", "ok.example:0443x", "ok.example:+443", "ok.example:70000", "ok_.example:443", "ok.example%00.evil.example:443",
	"ok.example" + nul + ".evil.example:443", "\u0456k.example:443", "xn--k-6kc.example:443", "ok.example :443", "ok.example\t:443", "ok.example/x:443", "ok.example?x:443", "*.example:443",
}

// namesAreExact is C20: case and one trailing dot are spelling, all else another name.
func namesAreExact(b *bench) {
	b.refused(inexact...)
	got := b.ask("e1", roleConnect, strings.ToUpper(listed)+":443", listed+".:443")
	for q, answer := range got {
		if answer != "200" {
			b.t.Errorf("%q was answered %q", q, answer)
		}
	}
}

// addressesAreRefused is C21: in every spelling that a resolver would take.
func addressesAreRefused(b *bench) {
	b.refused("127.0.0.1:443", "[::1]:443", "0x7f000001:443", "2130706433:443", "0177.0.0.1:443", "127.1:443", "0:443", "[::ffff:127.0.0.1]:443", "[::ffff:7f00:1]:443",
		"[fe80::1%25lo]:443", "[fe80::1%lo]:443", "::1:443", "localhost:443", "169.254.169.254:80", "169.254.169.254:443", "[fd00:ec2::254]:443", "0x7f.0x0.0x0.0x1:443", "93.184.216.34:443",
		"127.0.0.1.:443", "1.2.3.0x4:443")
}

// refusedNotResolved is C22. The control: the listed name gets as far as the resolver.
func refusedNotResolved(b *bench) {
	before := b.resolver.count("")
	got := b.ask("e1", roleConnect, append(inexact, "secret-in-a-label.evil.example:443")...)
	if len(got) < len(inexact) {
		b.t.Errorf("%d requests were answered", len(got))
	}
	if n := b.resolver.count("") - before; n != 0 {
		b.t.Errorf("refused names were resolved %d times", n)
	}
	b.ask("e1", roleConnect, named+":443")
	if b.resolver.count(named) == 0 {
		b.t.Error("the listed name was not resolved")
	}
}

// notPublic has one address of each kind that no name of the outside leads to.
var notPublic = []string{
	"0.0.0.0", "10.0.0.1", "100.64.0.1", "127.0.0.1", "127.8.8.8", "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.2.1", "192.88.99.1", "192.168.0.1",
	"198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1",
	"64:ff9b:1::1", "100::1", "2001::1", "2001:db8::1", "2002:7f00:1::1", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1",
}

// rebindingIsRefused is C23: whatever is not public among the answers refuses the
// name, and nobody is asked a second time.
func rebindingIsRefused(b *bench) {
	for _, answers := range [][]string{{"127.0.0.1"}, {"93.184.216.34", "10.0.0.1"}, {"2606:2800:220:1::1", "::1"}, {"93.184.216.34", "::ffff:127.0.0.1"}, {"64:ff9b::7f00:1"}, {"100.64.0.1"}} {
		b.resolver.set(named, answers...)
		before := b.resolver.count(named)
		if got := b.ask("e1", roleConnect, named+":443")[named+":443"]; got != "403" {
			b.t.Errorf("with answers %v: %s", answers, got)
		}
		if n := b.resolver.count(named) - before; n != 1 {
			b.t.Errorf("with answers %v the name was looked up %d times", answers, n)
		}
	}
	if got := b.tunnel("e1", "echo", listed, words); got != echoed {
		b.t.Errorf("the listed host meanwhile: %q", got)
	}
}

// tlsToTheName is C24.
func tlsToTheName(b *bench) {
	for mode, want := range map[string]string{
		"echo": echoed, "split": echoed, "late": "record 22\n",
		"other": "closed", "none": "closed", "plain": "closed", "again": "closed",
	} {
		if got := b.tunnel("e1", mode, listed, words); !strings.HasPrefix(got, want) || want == "closed" && strings.Contains(got, words) {
			b.t.Errorf("%s: %q, want %q", mode, got, want)
		}
	}
}

// onlyConnect is C25. The head that never ends was begun with the environment.
func onlyConnect(b *bench) {
	get := "GET http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\n\r\n"
	post := "POST http://" + listed + "/ HTTP/1.1\r\nHost: " + listed + "\r\nContent-Length: 1\r\n\r\nx"
	b.refused(get, post,
		"CONNECT "+listed+":443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n", "CONNECT "+listed+":443 HTTP/3\r\n\r\n", "CONNECT "+listed+":443\r\n\r\n",
		"CONNECT "+strings.Repeat("a", 9000)+":443 HTTP/1.1\r\n\r\n", "CONNECT "+listed+":443 HTTP/1.1\r\nX: "+strings.Repeat("a", 9000)+"\r\n\r\n", "\x16\x03\x01\r\n\r\n", "\r\n\r\n", "connect "+listed+":443 HTTP/1.1\r\n\r\n")
	if got := b.ask("e1", roleConnect, get, post); got[get] != "405" || got[post] != "405" {
		b.t.Errorf("another method was answered %v", got)
	}
	direct := append([]string{listed + ":443", "127.0.0.1:443", get}, inexact[:8]...)
	one, two := b.ask("e1", roleConnect, direct...), b.ask("e1", roleRelayed, direct...)
	for q := range one {
		if one[q] != two[q] {
			b.t.Errorf("%.40q is answered %q, and %q through a proxy of the agent's", q, one[q], two[q])
		}
	}
	out, err := io.ReadAll(b.slow.Stdout())
	if err != nil || string(out) != "closed\n" {
		b.t.Errorf("a head that never ends: %q, %v", out, err)
	}
	if status, err := b.slow.Wait(); err != nil || status.Code != 0 {
		b.t.Errorf("a head that never ends: %+v, %v", status, err)
	}
}

// failsClosed is C26.
func failsClosed(b *bench) {
	for _, rules := range [][]egress.Rule{{{Host: "*"}}, {{Host: "a.example"}, {Host: "10.0.0.1"}}, {{Host: ""}}, {{Host: "a.example", Port: -1}}, {{Host: "a.example", Upstream: "nowhere"}}} {
		_, err := runtime.Prepare(runtime.Spec{ID: "e9", Owner: owner, Image: runtime.HostImage, Workspace: b.workspace, Egress: rules}, runtime.Roots{Allowed: []string{b.root}})
		wantCode(b.t, fmt.Sprintf("the policy %v", rules), err, nod.Invalid)
	}
	if got := b.ask("e2", roleConnect, listed+":443")[listed+":443"]; got != "200" {
		b.t.Errorf("before: %q", got)
	}
	p := b.exec("e2", b.guest("e2", roleTunnel, "hold", listed))
	readUntil(b.t, p.Stdout(), "open\n")
	if err := b.UpdateEgress(b.t.Context(), "e2", nil); err != nil {
		b.t.Fatal(err)
	}
	readUntil(b.t, p.Stdout(), "cut\n")
	if _, err := p.Wait(); err != nil {
		b.t.Error(err)
	}
	for _, q := range []string{listed + ":443", named + ":443"} {
		if got := b.ask("e2", roleConnect, q)[q]; got != "403" {
			b.t.Errorf("%s under an empty policy: %q", q, got)
		}
	}
	if got := b.tunnel("e1", "echo", listed, words); got != echoed {
		b.t.Errorf("the other environment meanwhile: %q", got)
	}
}
