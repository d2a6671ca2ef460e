package runtimetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// Dispatch runs the role that args ask for and exits, or returns false.
func Dispatch(args []string) bool {
	if len(args) < 2 {
		return false
	}
	roles := map[string]func([]string) error{
		roleAttempts: tryAll, roleNetwork: tryNetwork, roleNames: tryNames, roleConnect: tryConnect, roleRelayed: tryRelayed, roleEach: tryEach,
		roleTunnel: tryTunnel, roleSlow: trySlow, roleListen: listenAll, roleTree: growTree, roleCount: count,
		roleHold: hold, roleSpin: spin, roleFiles: openFiles, roleFill: fillPlace, roleWritable: writable,
		roleOtherABI: func([]string) error { return raw(0x40000000 | unix.SYS_GETPID)() },
	}
	role, ok := roles[args[1]]
	if !ok {
		return false
	}
	if err := role(args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		syscall.Exit(1) // not os.Exit, which under the race detector takes a second
	}
	syscall.Exit(0)
	return true
}

func judge(a attempt) outcome {
	err := a.do()
	o := outcome{Check: a.check, Name: a.name, Got: "it worked", Control: a.control}
	if err != nil {
		o.Got = err.Error()
	}
	o.OK = slices.ContainsFunc(a.want, func(w error) bool { return w == nil && err == nil || w != nil && errors.Is(err, w) })
	return o
}

func report(list []attempt) error {
	var out []outcome
	for _, a := range list {
		out = append(out, judge(a))
	}
	return json.NewEncoder(os.Stdout).Encode(out)
}

func tryAll(args []string) error {
	return report(append(controls(), attempts(slices.Contains(args, inContainer))...))
}
