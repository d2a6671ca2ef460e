package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"

	"nod"
	"nod/runtime"
	"nod/runtime/egress"
	"nod/runtime/linux"
)

// embedded is the driver that needs no daemon. Where this host cannot hold an
// environment it is refused, with what is missing: nothing weaker is tried.
func embedded(ctx context.Context, stateDir string, audit *egressLog, log *slog.Logger) (runtime.Driver, error) {
	d, err := linux.New(linux.Config{StateDir: filepath.Join(stateDir, "runtime"), Egress: egress.Config{Audit: audit.record}, Log: log})
	if err != nil {
		return nil, err
	}
	if c := d.Capabilities(ctx); !c.Supported {
		return nil, &nod.Error{Code: nod.Unsupported, Msg: "this machine cannot hold an environment: " + strings.Join(c.Missing, "; "), Hint: c.Hint}
	}
	return d, nil
}

// demoDriver is the same on Linux: the demo shows the real thing or says why it can't.
func demoDriver(ctx context.Context, dir string, audit *egressLog, log *slog.Logger) (runtime.Driver, error) {
	return embedded(ctx, dir, audit, log)
}
