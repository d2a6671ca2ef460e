package docker

import (
	"context"
	"errors"
	"os"

	"nod"
	"nod/runtime"
)

// Capabilities creates a container with limits, attests it and removes it again.
func (d *Driver) Capabilities(ctx context.Context) runtime.Capabilities {
	c := runtime.Capabilities{Egress: "socket", KillProof: "subreaper, then pid namespace", Limits: d.enforced()}
	a, err := d.try(ctx, c.Limits)
	c.Seen = a
	if err != nil {
		c.Limits = nil
		c.Missing = []string{d.engine.about + ": " + nod.PublicMessage(err)}
		var e *nod.Error
		if errors.As(err, &e) {
			c.Hint = e.Hint
		}
		d.log.Error("trial container", "err", err)
		return c
	}
	c.Supported, c.Seccomp, c.LandlockABI = true, a.Seccomp, a.Landlock
	return c
}

func (d *Driver) try(ctx context.Context, limits []string) (a nod.Attestation, err error) {
	dir, err := os.MkdirTemp("", "nod-try-")
	if err != nil {
		return a, nod.E(nod.Internal, "no directory for a trial", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	l := runtime.Limits{Required: true}
	for _, kind := range limits {
		switch kind {
		case "memory":
			l.MemoryBytes = 256 << 20
		case "cpu":
			l.CPUs = 1
		case "pids":
			l.PIDs = 128
		}
	}
	const id = "trial"
	owner := d.cfg.Owner
	if owner == "" {
		owner = id
	}
	p, err := runtime.Prepare(runtime.Spec{ID: id, Owner: owner, Image: runtime.HostImage, Workspace: dir, Limits: l}, runtime.Roots{Allowed: []string{dir}})
	if err != nil {
		return a, err
	}
	if err := d.Provision(ctx, p); err != nil {
		return a, err
	}
	a, err = d.Start(ctx, id)
	return a, errors.Join(err, d.Delete(context.WithoutCancel(ctx), id))
}

// startError gives an error of the engine's start its code: what the host forbids
// is Unsupported.
func startError(err error) error {
	if refused(err, 400, 500, 501) {
		return nod.E(nod.Unsupported, "the engine does not start the container as it must be", err)
	}
	if refused(err, 304) {
		return nod.E(nod.Conflict, "the container is already running", err)
	}
	return nod.E(nod.Unavailable, "the engine does not start the container", err)
}
