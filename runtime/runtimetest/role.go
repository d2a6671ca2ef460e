package runtimetest

// inContainer, as an argument of roleAttempts, says that an engine made the root.
const inContainer = "container"

// proxyVariable names a unix socket that stands for the proxy's address inside,
// where a driver's double has no network of its own.
const proxyVariable = "NOD_TRY_PROXY"

// Roles of the test binary inside an environment.
const (
	roleAttempts = "nod-try"          // every attempt; inContainer as an argument
	roleOtherABI = "nod-try-x32"      // one x32 call
	roleNetwork  = "nod-try-net"      // "check|network|address" as arguments
	roleNames    = "nod-try-names"    // names to resolve as arguments
	roleConnect  = "nod-try-proxy"    // authorities for CONNECT, or whole heads, as arguments
	roleRelayed  = "nod-try-relayed"  // as roleConnect, through a relay of one's own
	roleEach     = "nod-try-each"     // as roleConnect, a list of answers in order
	roleTunnel   = "nod-try-tunnel"   // a mode and a host, see tunnelModes
	roleSlow     = "nod-try-slow"     // a head that never ends
	roleListen   = "nod-try-listen"   // listens in every way, then waits for end of input
	roleTree     = "nod-try-tree"     // processes that do not want to end, sleeping for mark and a digit
	roleCount    = "nod-try-count"    // how many processes show mark in their arguments
	roleHold     = "nod-try-hold"     // touches so many bytes of memory
	roleSpin     = "nod-try-spin"     // two threads for a second; says how much CPU time they had
	roleFiles    = "nod-try-files"    // opens files until it may not
	roleFill     = "nod-try-fill"     // writes a file until the place is full; says how much fitted
	roleWritable = "nod-try-writable" // where a file can be made, whatever the path
)

// outcome is what came of one attempt.
type outcome struct {
	Check   string `json:"check"`
	Name    string `json:"name"`
	Got     string `json:"got"`
	OK      bool   `json:"ok"`
	Control bool   `json:"control"` // it must work: what is refused beside it is not refused for another reason
}
