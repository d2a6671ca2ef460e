package runtimetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// Roles of the test binary inside an environment.
const (
	roleAttempts = "nod-try"        // every attempt; no arguments
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

// Dispatch runs the role that args ask for and exits, or returns false.
func Dispatch(args []string) bool {
	if len(args) < 2 {
		return false
	}
	roles := map[string]func([]string) error{
		roleAttempts: tryAll, roleNetwork: tryNetwork, roleConnect: tryConnect, roleTunnel: tryTunnel, roleListen: listenAll, roleTree: growTree,
		roleOtherABI: func([]string) error { return raw(0x40000000 | unix.SYS_GETPID)() },
	}
	role, ok := roles[args[1]]
	if !ok {
		return false
	}
	if err := role(args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
	return true
}

func judge(a attempt) outcome {
	err := a.do()
	o := outcome{Check: a.check, Name: a.name, Got: "it worked"}
	if err != nil {
		o.Got = err.Error()
	}
	o.OK = slices.ContainsFunc(a.want, func(w error) bool { return w == nil && err == nil || w != nil && errors.Is(err, w) })
	return o
}

func tryAll([]string) error {
	var out []outcome
	for _, a := range attempts() {
		out = append(out, judge(a))
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}
