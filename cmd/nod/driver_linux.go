package main

import (
	"context"
	"log/slog"
	"path/filepath"

	"nod/runtime"
	"nod/runtime/egress"
	"nod/runtime/linux"
)

// openEmbedded opens the driver that needs no daemon.
func openEmbedded(c RuntimeConfig, stateDir string, e egress.Config, log *slog.Logger) (closer, error) {
	return linux.New(linux.Config{StateDir: filepath.Join(stateDir, "runtime"), Guest: c.Guest, Image: c.Image, Archive: c.Archive, Pull: c.Pull, Egress: e, Log: log})
}

// demoDriver is the embedded one on Linux: the demo shows the real thing or says
// why it can't.
func demoDriver(ctx context.Context, dir string, e egress.Config, log *slog.Logger) (runtime.Driver, error) {
	return provenDriver(ctx, RuntimeConfig{}, dir, e, log)
}
