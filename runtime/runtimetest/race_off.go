//go:build !race

package runtimetest

const raced = false
