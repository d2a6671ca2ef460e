//go:build linux

package linux_test

import (
	"os"
	"testing"

	"nod/runtime/runtimetest"
)

// TestNothingIsLeftOfASupervisorKilledAnywhere kills it 200 times where nothing may be
// skipped and the test is root, 20 times elsewhere.
func TestNothingIsLeftOfASupervisorKilledAnywhere(t *testing.T) {
	c := suite()
	c.Supervised = []string{supervisedGuest + "=" + staticGuest(t)}
	times := 20
	if os.Getenv("NOD_TEST_ALL") != "" && os.Geteuid() == 0 {
		times = 200
	}
	runtimetest.Crash(t, c, times)
}
