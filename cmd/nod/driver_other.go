//go:build !linux

package main

import (
	"context"
	"log/slog"

	"nod"
	"nod/runtime"
	"nod/runtime/egress"
	"nod/runtime/plain"
)

// openEmbedded exists on Linux only.
func openEmbedded(RuntimeConfig, string, egress.Config, *slog.Logger) (closer, error) {
	return nil, nod.E(nod.Unsupported, "the embedded driver needs Linux", nil)
}

// demoDriver runs the demo's scripted agent as a plain process, marked as not
// isolated. The bot refuses any other agent there.
func demoDriver(_ context.Context, dir string, _ egress.Config, log *slog.Logger) (runtime.Driver, error) {
	return plain.New(plain.Config{StateDir: dir, OnlyFor: "scripted", Log: log})
}
