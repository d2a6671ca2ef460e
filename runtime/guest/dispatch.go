package guest

import (
	"fmt"
	"os"
	"path/filepath"
)

// Roles that Dispatch takes over a process for.
const (
	RoleInit   = "init"   // PID 1, building the environment
	RoleServe  = "serve"  // PID 1, hardened: reaper and exec server
	RoleRunner = "runner" // parent of one exec
	RoleProbe  = "probe"  // writes what it sees as JSON; paths whose identity is asked for as arguments

	// In a container or machine that an engine made, each hardens itself by the
	// Landlock version that is its argument: a number, "none" below 1.
	RoleContain = "contain" // PID 1: relay to the egress socket, reaper, sweeper
	RoleEnter   = "enter"   // parent of one exec, frames on stdin and stdout

	// For agents that a person runs in a terminal; the path of a socket is the argument.
	RoleHooks = "hooks" // joins the hooks of an environment with the host, lines on stdin and stdout
	RoleHook  = "hook"  // what such an agent runs as its hook
)

const (
	roleKeep  = "keep"  // RoleContain, hardened
	roleLease = "lease" // RoleEnter, hardened
)

// Tuning is the one variable of a process of this package: it needs no more threads at
// once however large the machine is, and need not look every second at how many it may.
const Tuning = "GOMAXPROCS=2"

// Where an engine's container has the sockets of its host, read-only.
const (
	SocketDir     = "/nod/run"
	EgressSocket  = SocketDir + "/egress"
	ControlSocket = SocketDir + "/control"
	// ProbeDir is writable but for landlock, which the probe tells by that.
	ProbeDir = "/nod/probe"
)

// names are what the guest binary is called: by the driver that starts it, as a
// program of its own, and by its path inside an environment.
var names = map[string]bool{"nod-guest": true, "guest": true}

// Dispatch runs the role that args, a process's whole argument list, asks for and
// then exits the process. It returns false, having done nothing, when args name
// no role of this package. Call it first in main and in every TestMain whose
// tests start environments.
func Dispatch(args []string) bool {
	if len(args) < 2 || !names[filepath.Base(args[0])] {
		return false
	}
	switch args[1] {
	case RoleHook, RoleHooks:
		if len(args) != 3 {
			return false
		}
		serve := hookMain
		if args[1] == RoleHooks {
			serve = hooksMain
		}
		if err := serve(args[2], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintf(os.Stderr, "nod-guest: %s: %v\n", args[1], err)
			exit(1)
			return true
		}
		exit(0)
		return true
	case RoleInit, RoleServe, RoleRunner, RoleProbe, RoleContain, roleKeep, RoleEnter, roleLease:
		exit(run(args[1]))
		return true
	}
	return false
}
