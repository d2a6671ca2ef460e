//go:build !linux

package runtime

import "nod"

// GiveTree exists on Linux only.
func GiveTree(Source, int, func(int) error) error {
	return nod.E(nod.Unsupported, "giving a directory to another user needs Linux here", nil)
}
