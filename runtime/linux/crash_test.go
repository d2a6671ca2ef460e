//go:build linux

package linux_test

import (
	"testing"

	"nod/runtime/runtimetest"
)

// TestNothingIsLeftOfASupervisorKilledAnywhere kills it 200 times.
func TestNothingIsLeftOfASupervisorKilledAnywhere(t *testing.T) {
	c := suite()
	c.Supervised = []string{supervisedGuest + "=" + staticGuest(t)}
	runtimetest.Crash(t, c, 200)
}
