//go:build linux

package linux_test

import (
	"os"
	"testing"

	"nod/runtime/guest"
)

func TestMain(m *testing.M) {
	if guest.Dispatch(os.Args) {
		return
	}
	os.Exit(m.Run())
}
