//go:build !linux

package runtimetest

// Dispatch returns false: environments of other systems run Linux inside.
func Dispatch([]string) bool { return false }
