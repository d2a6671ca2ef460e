// Command nod-guest is the static helper inside an environment. It holds nothing
// but package guest: what it is asked to be is its first argument.
package main

import (
	"fmt"
	"os"

	"nod/runtime/guest"
)

func main() {
	args := append([]string{"nod-guest"}, os.Args[1:]...)
	if !guest.Dispatch(args) {
		fmt.Fprintln(os.Stderr, "nod-guest: this program is started by nod, inside an environment")
		os.Exit(2)
	}
}
