package runtimetest

import (
	"strings"
	"testing"

	"nod/runtime"
	"nod/runtime/egress"
)

// Config is what the suite needs to know of a driver.
type Config struct {
	// New opens the driver with its state in dir. The egress configuration, audit
	// and resolver included, must reach every environment's proxy.
	New func(t *testing.T, dir string, e egress.Config) Driver
	// TempDir makes a directory below which workspaces may lie.
	TempDir func(t *testing.T) string
	// Container is a root that an engine mounts: without nosuid on everything, which
	// no_new_privs makes up for, and with a /dev of its own making.
	Container bool
	// Base is an image that the driver can build upon; empty when it builds none.
	Base string
	// Guestless is a driver's double, whose environments are processes of this host:
	// only the checks that need no guest are run.
	Guestless bool
	// Proxy is the socket that stands for the proxy's address inside, for a double
	// without a network; nil otherwise.
	Proxy func(stateDir, id string) string
	// Canary, when set, says how many packets have reached servers that answer names
	// and connections beside the engine, where its containers would reach them. One
	// of the host's own has, as a control.
	Canary func(t *testing.T) int
	// Told, when set, is everything that an engine tells of an environment and its
	// commands to whoever may ask.
	Told func(t *testing.T, d Driver, id string) string
	// Supervised are variables for the process that Supervised makes of this test
	// binary; nil when its TestMain calls no Supervised.
	Supervised []string
	// Left, when set, names what the driver made below stateDir's name that still
	// exists, once nothing should.
	Left func(t *testing.T, stateDir string) []string
}

// Driver is a runtime.Driver that a test can close.
type Driver interface {
	runtime.Driver
	Close() error
}

type check struct {
	name      string
	run       func(*bench)
	guestless bool // needs no kernel that isolates
}

// checks are the conformance checks, each with its positive control.
var checks = []check{
	{"C01 the agent is user 1000 and nobody else", attempted("C01"), false},
	{"C02 no process has a capability", noCapabilities, false},
	{"C03 no program gains a privilege", noGain, false},
	{"C04 the root is read-only", attempted("C04"), false},
	{"C05 exactly the agent's places can be written up to their size", writablePlaces, false},
	{"C06 no namespace is made or joined", attempted("C06"), false},
	{"C07 nothing is mounted and no root changed", attempted("C07"), false},
	{"C08 no device is there or made", attempted("C08"), false},
	{"C09 proc shows nothing of the host or of PID 1", attempted("C09"), false},
	{"C10 no other process is read or traced", attempted("C10"), false},
	{"C11 only plain socket families are there", attempted("C11"), false},
	{"C12 dangerous and unknown system calls are refused", attempted("C12"), false},
	{"C13 no terminal is injected into", attempted("C13"), false},
	{"C14 no descriptor is inherited", attempted("C14"), false},
	{"C15 only its own processes are seen and signalled", onlyOwnSignals, false},
	{"C16 nothing is reached directly", noDirectWay, false},
	{"C17 the host is not reached", noHostReach, false},
	{"C18 no name is resolved", noNames, false},
	{"C19 a listed host is reached both ways", listedIsReached, true},
	{"C20 a name is listed exactly or not at all", namesAreExact, true},
	{"C21 an address is no name", addressesAreRefused, true},
	{"C22 a refused name is never resolved", refusedNotResolved, true},
	{"C23 an answer that is not public refuses the name", rebindingIsRefused, true},
	{"C24 the stream is TLS to the listed name", tlsToTheName, true},
	{"C25 the proxy takes nothing but a plain CONNECT", onlyConnect, true},
	{"C26 without a policy that allows it nothing goes out", failsClosed, true},
	{"C27 environments do not meet", environmentsDoNotMeet, false},
	{"C28 secrets stay in their process", secretsStay, true},
	{"C29 limits hold or are refused", limitsHold, false},
	{"C30 nothing outlives a kill or a stop or a delete", killLeavesNothing, true},
}

// Run holds the driver to the contract, with real environments. On a host where
// the driver cannot work every test is Missing. The checks share three
// environments; a check that could not run fails.
func Run(t *testing.T, c Config) {
	probe := c.New(t, c.TempDir(t), quiet(nil))
	caps := probe.Capabilities(t.Context())
	if err := probe.Close(); err != nil {
		t.Fatal(err)
	}
	if !caps.Supported && !c.Guestless {
		Missing(t, "an environment: "+strings.Join(caps.Missing, "; ")+" ("+caps.Hint+")")
	}
	b := newBench(t, c, caps)
	for _, list := range [][]check{checks, reports, contract} {
		for _, k := range list {
			if k.guestless || !c.Guestless {
				t.Run(k.name, func(t *testing.T) { k.run(b.at(t)) })
			}
		}
	}
}

// quiet is an egress configuration whose events go to record, when there is one.
func quiet(record func(egress.Event)) egress.Config {
	if record == nil {
		record = func(egress.Event) {}
	}
	return egress.Config{Audit: record}
}
