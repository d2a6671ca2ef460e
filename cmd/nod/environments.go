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
}

func (e *environments) Start(ctx context.Context, s nod.EnvironmentSpec) (nod.Attestation, error) {
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
