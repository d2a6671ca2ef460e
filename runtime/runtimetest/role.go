package runtimetest

// inContainer, as an argument of roleAttempts, says that an engine made the root.
const inContainer = "container"

// Roles of the test binary inside an environment.
const (
	roleAttempts = "nod-try"        // every attempt; inContainer as an argument
	roleOtherABI = "nod-try-x32"    // one x32 call
	roleNetwork  = "nod-try-net"    // network, addresses as arguments
	roleConnect  = "nod-try-proxy"  // authorities for CONNECT as arguments
	roleTunnel   = "nod-try-tunnel" // an https URL, fetched through the proxy
	roleListen   = "nod-try-listen" // listens in every way, then waits for end of input
	roleTree     = "nod-try-tree"   // processes that do not want to end
)

// outcome is what came of one attempt.
type outcome struct {
	Check string `json:"check"`
	Name  string `json:"name"`
	Got   string `json:"got"`
	OK    bool   `json:"ok"`
}
