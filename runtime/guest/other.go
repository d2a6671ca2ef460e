//go:build !linux

package guest

import (
	"fmt"
	"os"
	goruntime "runtime"
)

func run(role string) int {
	fmt.Fprintf(os.Stderr, "nod: the guest role %s needs Linux, this is %s\n", role, goruntime.GOOS)
	return 69
}

func exit(code int) { os.Exit(code) }
