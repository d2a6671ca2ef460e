package main

import (
	"context"
	"encoding/json"

	"nod"
	"nod/bot"
)

// pushes performs each push in the mode that its intent names.
type pushes struct{ ssh, github bot.Performer }

func (p pushes) of(e nod.Effect) (bot.Performer, error) {
	var in nod.PushBranch
	if err := json.Unmarshal(e.Intent, &in); err != nil {
		return nil, nod.E(nod.Invalid, "the push cannot be read", err)
	}
	switch in.Sign {
	case nod.SignGitHub:
		return p.github, nil
	case nod.SignSSH, "":
		return p.ssh, nil
	}
	return nil, nod.E(nod.Invalid, "the push is of no known mode", nil)
}

func (p pushes) Perform(ctx context.Context, t nod.Task, e nod.Effect) (json.RawMessage, error) {
	by, err := p.of(e)
	if err != nil {
		return nil, err
	}
	return by.Perform(ctx, t, e)
}

func (p pushes) Lookup(ctx context.Context, t nod.Task, e nod.Effect) (json.RawMessage, error) {
	by, err := p.of(e)
	if err != nil {
		return nil, err
	}
	return by.Lookup(ctx, t, e)
}
