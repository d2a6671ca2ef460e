package main

import (
	"context"
	"fmt"

	"nod"
	"nod/runtime"
	"nod/runtime/egress"
)

// environments gives the bot a runtime driver in its own words: what the
// configuration says of every environment is added, and prepared.
type environments struct {
	driver runtime.Driver
	owner  string
	roots  runtime.Roots
	limits runtime.Limits
	mounts []runtime.Mount
	egress []egress.Rule // of the agent programs themselves
	audit  *egressLog
	seats  seats
}

// newEnvironments is what c says of every environment; who is the part of nod that
// they belong to.
func newEnvironments(c Config, driver runtime.Driver, audit *egressLog, who string) (*environments, error) {
	mounts, roots, rules, err := places(c.Agents)
	if err != nil {
		return nil, err
	}
	return &environments{driver: driver, owner: who + "-" + nod.Digest([]byte(c.StateDir))[:16], mounts: mounts, egress: rules, audit: audit,
		roots:  runtime.Roots{Allowed: append([]string{c.environments()}, roots...)},
		limits: runtime.Limits{MemoryBytes: c.MemoryMiB << 20, DiskBytes: c.DiskMiB << 20, PIDs: c.PIDs, Required: !c.SoftLimits},
		seats:  seats{c.environments()}}, nil
}

// Start is a Conflict while a terminal is open in the environment.
func (e *environments) Start(ctx context.Context, s nod.EnvironmentSpec) (nod.Attestation, error) {
	if err := e.seats.free(ctx, s.ID); err != nil {
		return nod.Attestation{}, err
	}
	if !e.seats.Sat(s.ID) {
		return e.start(ctx, s)
	}
	// Made anew, its directories are given to its user again.
	if err := e.driver.Delete(ctx, s.ID); err != nil && nod.CodeOf(err) != nod.NotFound {
		return nod.Attestation{}, fmt.Errorf("delete environment: %w", err)
	}
	seen, err := e.start(ctx, s)
	if err != nil {
		return seen, err
	}
	return seen, e.seats.clear(s.ID)
}

func (e *environments) start(ctx context.Context, s nod.EnvironmentSpec) (nod.Attestation, error) {
	rules := append([]egress.Rule(nil), e.egress...)
	for _, host := range s.Egress {
		rule, err := egress.ParseRule(host)
		if err != nil {
			return nod.Attestation{}, err
		}
		rules = append(rules, rule)
	}
	prepared, err := runtime.Prepare(runtime.Spec{ID: s.ID, Owner: e.owner, Image: runtime.HostImage, Workspace: s.Workspace,
		Home: s.Home, Mounts: e.mounts, Limits: e.limits, Egress: rules}, e.roots)
	if err != nil {
		return nod.Attestation{}, fmt.Errorf("prepare environment: %w", err)
	}
	// The same spec again costs nothing, and another one has its reason: hosts that a
	// person has let through since the last start.
	if err := e.driver.Provision(ctx, prepared); err != nil {
		return nod.Attestation{}, fmt.Errorf("provision environment: %w", err)
	}
	e.audit.belongs(s.ID, s.Task)
	return e.driver.Start(ctx, s.ID)
}

func (e *environments) Exec(ctx context.Context, id string, c nod.Command) (nod.Process, error) {
	return e.driver.Exec(ctx, id, c)
}

func (e *environments) Stop(ctx context.Context, id string) error { return e.driver.Stop(ctx, id) }

func (e *environments) Delete(ctx context.Context, id string) error {
	e.audit.forget(id)
	return e.driver.Delete(ctx, id)
}

// List returns the environments that run.
func (e *environments) List(ctx context.Context) ([]string, error) {
	all, err := e.driver.List(ctx, e.owner)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, s := range all {
		if s.Running {
			ids = append(ids, s.ID)
		}
	}
	return ids, nil
}
