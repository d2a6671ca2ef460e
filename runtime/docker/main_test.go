//go:build linux

package docker

import (
	"fmt"
	"os"
	"testing"

	"nod/runtime/guest"
	"nod/runtime/runtimetest"
)

func TestMain(m *testing.M) {
	if guest.Dispatch(os.Args) || runtimetest.Dispatch(os.Args) {
		return
	}
	if len(os.Args) > 1 && os.Args[1] == engineRole {
		if err := engineInit(os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if runtimetest.Supervised(openSupervised) {
		return
	}
	os.Exit(runtimetest.Main(m))
}
