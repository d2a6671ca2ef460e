//go:build race

package runtimetest

const raced = true
