package runtimetest

import (
	"encoding/json"
	"net"
	"testing"
)

// reach tries targets from inside; none may get further than the environment's
// own kernel.
func (b *bench) reach(check string, targets []string) []outcome {
	b.t.Helper()
	argv := []string{roleNetwork}
	for _, t := range targets {
		argv = append(argv, check+"|"+t)
	}
	var got []outcome
	b.role(&got, "e1", argv...)
	return got
}

// noDirectWay is C16.
func noDirectWay(b *bench) {
	targets := []string{
		"tcp|169.254.169.254:80", "tcp|[fd00:ec2::254]:80", "tcp|169.254.1.1:80", "udp|169.254.1.1:5353", "tcp|192.0.2.1:443", "tcp|192.0.2.1:80", "tcp|192.0.2.1:8443",
		"tcp|[2001:db8::1]:443", "tcp|[2001:db8::1]:8443", "udp|192.0.2.1:53", "udp|192.0.2.1:443", "udp|[2001:db8::1]:53", "udp|[2001:db8::1]:443", "tcp|[64:ff9b::c000:201]:443",
	}
	c := newCanary(b.t, hostOthers(b.t)...)
	b.verdicts(b.reach("C16", append(targets, c.targets...)), "C16")
	c.silent(b)
}

func hostOthers(t *testing.T) []string {
	_, others := hostAddresses(t)
	return others
}

// noHostReach is C17: gateways by the addresses and names that engines use, and
// every address of the host, with servers that would answer.
func noHostReach(b *bench) {
	loopback, others := hostAddresses(b.t)
	c := newCanary(b.t, append(loopback, others...)...)
	targets := c.targets
	for _, gateway := range []string{"172.17.0.1", "172.18.0.1", "10.88.0.1", "10.89.0.1", "10.0.2.2", "192.168.64.1", "192.168.65.254"} {
		for _, port := range []string{"22", "80", "2375", "9999"} {
			targets = append(targets, "tcp|"+net.JoinHostPort(gateway, port))
		}
	}
	targets = append(targets, "tcp|127.0.0.1:9999", "tcp|127.0.0.1:2375", "tcp|[::1]:9999")
	got := b.reach("C17", targets)
	for i := range got {
		if got[i].Control {
			got[i].Check = "C17"
		}
	}
	b.verdicts(got, "C17")
	c.silent(b)
	b.engineSilent()
}

// noNames is C18: not by the system's resolver, not by a question to any server.
func noNames(b *bench) {
	loopback, _ := hostAddresses(b.t)
	c := newCanary(b.t, loopback...)
	before := b.resolver.count("")
	var names []outcome
	b.role(&names, "e1", roleNames, "example.com", "canary.nod.invalid", "host.docker.internal", "host.containers.internal", "gateway.docker.internal", "e2", "nod-e2")
	b.verdicts(names, "C18")
	targets := append(c.targets, "udp|127.0.0.11:53", "tcp|127.0.0.11:53", "udp|127.0.0.53:53", "udp|127.0.0.1:53", "tcp|127.0.0.1:53", "udp|[::1]:53",
		"udp|192.0.2.53:53", "tcp|192.0.2.53:53", "udp|[2001:db8::53]:53", "udp|10.88.0.1:53", "udp|172.17.0.1:53", "tcp|192.0.2.53:853")
	for _, o := range b.reach("C18", targets) {
		if !o.OK {
			b.t.Errorf("%s: %s", o.Name, o.Got)
		}
	}
	c.silent(b)
	b.engineSilent()
	if n := b.resolver.count("") - before; n != 0 {
		b.t.Errorf("the proxy resolved %d names that nobody asked it for", n)
	}
}

// silent wants that nobody but the control has come.
func (c *canary) silent(b *bench) {
	b.t.Helper()
	// The control itself is one hit a target.
	if n := int(c.hits.Load()) - len(c.targets); n > 0 {
		b.t.Errorf("%d packets reached the host", n)
	}
}

// engineSilent wants the same of the servers beside an engine, and that they have
// been shown to answer.
func (b *bench) engineSilent() {
	b.t.Helper()
	if b.c.Canary == nil {
		return
	}
	if n := b.c.Canary(b.t); n != 0 {
		b.t.Errorf("%d packets reached the engine's host", n)
	}
}

// showing is how many processes inside show mark in their arguments.
func (b *bench) showing(id, mark string) (n int) {
	b.t.Helper()
	out, _, _ := b.run(id, "", b.guest(id, roleCount, mark))
	if err := json.Unmarshal([]byte(out), &n); err != nil {
		b.t.Fatalf("count of %s: %q", mark, out)
	}
	return n
}
