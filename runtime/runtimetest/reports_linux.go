package runtimetest

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"nod"
	"nod/runtime"
)

// reports are failures of other programs that became public, each replayed. What
// they were is in their names.
var reports = []check{
	{"B01 an internal network's resolver asks upstream", reportNames, false},
	{"B02 the engine's own resolver asks upstream", reportNames, false},
	{"B03 an internal network reaches the host by its gateway", reportGateway, false},
	{"B04 an address is reached where a name is not", reportAddress, false},
	{"B05 a denied name is resolved all the same", reportDeniedName, true},
	{"B06 a listed name opens the way to another at its address", reportOtherName, true},
	{"B07 the name is resolved again behind the check", reportSecondLookup, true},
	{"B08 ranges that are not public pass as public", reportRanges, true},
	{"B09 dots at the end get past the list", reportDots, true},
	{"B10 a relay or plain HTTP or a reload gets past the list", reportRelay, true},
	{"B11 the other family or another port is open", reportFamily, false},
	{"B12 the client of a command is killed and the command lives", reportClient, true},
	{"B13 a daemon's socket is mounted", reportSockets, true},
	{"B14 secrets are in arguments and in PID 1", reportSecrets, true},
	{"B15 limits and lists are silently not applied", reportSilence, true},
}

// reportNames looks names up as in the reports: servers beside the engine would
// answer, and have.
func reportNames(b *bench) {
	var got []outcome
	b.role(&got, "e1", roleNames, "leak.canary.nod.invalid", "secret-in-a-label.example.com")
	b.verdicts(got, "C18")
	b.engineSilent()
}

func reportGateway(b *bench) {
	for _, o := range b.reach("B03", []string{"tcp|172.17.0.1:9999", "tcp|172.18.0.1:9999", "tcp|10.88.0.1:9999", "tcp|10.89.0.1:53", "tcp|192.168.64.1:9999", "tcp|127.0.0.1:9999"}) {
		if !o.OK {
			b.t.Errorf("%s: %s", o.Name, o.Got)
		}
	}
	b.engineSilent()
}

// reportAddress tries both: a test by name alone passes on the failure of DNS.
func reportAddress(b *bench) {
	c := newCanary(b.t, hostOthers(b.t)...)
	for _, o := range b.reach("B04", append([]string{"tcp|192.0.2.1:443", "tcp|93.184.216.34:80"}, c.targets...)) {
		if !o.OK {
			b.t.Errorf("%s: %s", o.Name, o.Got)
		}
	}
	c.silent(b)
	var got []outcome
	b.role(&got, "e1", roleNames, "example.com")
	b.verdicts(got, "C18")
}

func reportDeniedName(b *bench) {
	before := b.resolver.count("")
	const q = "stolen-token.evil.example:443"
	if got := b.ask("e1", roleConnect, q)[q]; got != "403" {
		b.t.Errorf("a denied name: %q", got)
	}
	if n := b.resolver.count("") - before; n != 0 {
		b.t.Errorf("%d names were resolved", n)
	}
}

func reportOtherName(b *bench) {
	if got := b.tunnel("e1", "other", listed, words); !strings.HasPrefix(got, "closed") {
		b.t.Errorf("another name in the hello: %q", got)
	}
	if got := b.tunnel("e1", "echo", listed, words); got != echoed {
		b.t.Errorf("the listed name: %q", got)
	}
}

func reportSecondLookup(b *bench) {
	b.resolver.set(named, "10.0.0.1")
	before := b.resolver.count(named)
	if got := b.ask("e1", roleConnect, named+":443")[named+":443"]; got != "403" {
		b.t.Errorf("a private answer: %q", got)
	}
	if n := b.resolver.count(named) - before; n != 1 {
		b.t.Errorf("the name was looked up %d times", n)
	}
}

// reportRanges gives one address of each range as the only answer. Asked in one
// run, each request has the next one.
func reportRanges(b *bench) {
	requests := make([]string, len(notPublic))
	for i := range requests {
		requests[i] = named + ":443"
	}
	b.resolver.sequence(named, notPublic)
	before := b.resolver.count(named)
	var got []string
	b.role(&got, "e1", append([]string{roleEach}, requests...)...)
	for i, answer := range got {
		if answer != "403" {
			b.t.Errorf("with the answer %s: %q", notPublic[i], answer)
		}
	}
	if n := b.resolver.count(named) - before; n != len(notPublic) || len(got) != len(notPublic) {
		b.t.Errorf("%d answers for %d look-ups of %d", len(got), n, len(notPublic))
	}
}

func reportDots(b *bench) {
	b.refused("evil.example.:443", "evil.example..:443", listed+"..:443", "."+listed+":443", listed+".evil.example.:443")
	if got := b.ask("e1", roleConnect, listed+".:443")[listed+".:443"]; got != "200" {
		b.t.Errorf("one dot is spelling: %q", got)
	}
}

func reportRelay(b *bench) {
	plain := "GET http://evil.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n"
	got := b.ask("e1", roleRelayed, "evil.example:443", plain, listed+":443")
	if got["evil.example:443"] != "403" || got[plain] != "405" || got[listed+":443"] != "200" {
		b.t.Errorf("through a relay: %v", got)
	}
	// The reload, with a tunnel open, is C26; the list it left is still empty.
	if got := b.ask("e2", roleConnect, listed+":443")[listed+":443"]; got != "403" {
		b.t.Errorf("after the reload: %q", got)
	}
}

func reportFamily(b *bench) {
	var targets []string
	for _, host := range []string{"192.0.2.1", "2001:db8::1", "169.254.169.254", "fd00:ec2::254"} {
		for _, port := range []string{"22", "25", "53", "80", "443", "3128", "8080", "65535"} {
			targets = append(targets, "tcp|"+net.JoinHostPort(host, port), "udp|"+net.JoinHostPort(host, port))
		}
	}
	for _, o := range b.reach("B11", targets) {
		if !o.OK {
			b.t.Errorf("%s: %s", o.Name, o.Got)
		}
	}
}

// reportClient kills what stands between the host and the command.
func reportClient(b *bench) {
	p, m := b.grown("e1")
	if err := p.Kill(within(b.t, killBound)); err != nil {
		b.t.Error(err)
	}
	if n := b.showing("e1", m); n != 0 || showing(m) != 0 {
		b.t.Errorf("%d processes live", n)
	}
}

// reportSockets offers sockets and what holds them, by their path and through a link.
func reportSockets(b *bench) {
	// A socket's path is short, wherever the test's own directory is.
	dir, err := os.MkdirTemp("", "nod")
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "docker.sock"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer l.Close()
	link := filepath.Join(b.root, "innocent")
	if err := errors.Join(os.Symlink(dir, link), os.Mkdir(filepath.Join(b.root, "plain"), 0o755)); err != nil {
		b.t.Fatal(err)
	}
	roots := runtime.Roots{Allowed: []string{b.root, dir, "/run", "/var", "/proc"}}
	for source, ok := range map[string]bool{dir: false, filepath.Join(dir, "docker.sock"): false, link: false, "/run": false, "/var/run": false, "/proc/self/fd": false, filepath.Join(b.root, "plain"): true} {
		_, err := runtime.Prepare(runtime.Spec{ID: "e9", Owner: owner, Image: runtime.HostImage, Workspace: b.workspace,
			Mounts: []runtime.Mount{{Source: source, Target: "/opt/x"}}}, roots)
		if (err == nil) != ok {
			b.t.Errorf("a mount of %s: %v", source, err)
		}
	}
}

func reportSecrets(b *bench) {
	secret := "hunter2-" + mark()
	p := b.exec("e1", nod.Command{Argv: []string{"sleep", "600"}, Env: map[string]string{"TOKEN": secret}})
	out, _ := b.sh("cat /proc/[0-9]*/cmdline /proc/1/environ 2>/dev/null; env")
	if strings.Contains(out, secret) {
		b.t.Error("the secret is in an argument, in PID 1 or in another command")
	}
	if err := p.Kill(b.t.Context()); err != nil {
		b.t.Error(err)
	}
}

// reportSilence wants an error instead of a warning for what cannot be had, and
// that no list is the same as an empty one.
func reportSilence(b *bench) {
	b.refusesLimits(b.caps)
	b.provision("e3", owner, nil)
	b.start("e3")
	defer b.gone("e3")
	if got := b.ask("e3", roleConnect, listed+":443")[listed+":443"]; got != "403" {
		b.t.Errorf("without a list: %q", got)
	}
}

// sequence answers each look-up of host with the next of addresses.
func (r *resolver) sequence(host string, addresses []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers, r.next = nil, map[string][]netip.Addr{}
	for _, a := range addresses {
		r.next[host] = append(r.next[host], netip.MustParseAddr(a))
	}
}
