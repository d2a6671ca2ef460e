package github

import (
	"context"
	"encoding/json"

	"nod"
)

// Reactions performs nod.EffectReact. GitHub keeps one of each kind from one account
// on a comment, so doing it again is as good as looking. A comment that is gone is a
// refusal.
type Reactions struct{ *Client }

// Reactions returns the performer of nod.EffectReact.
func (c *Client) Reactions() Reactions { return Reactions{c} }

// Perform sets the reaction. The outcome is empty.
func (p Reactions) Perform(ctx context.Context, t nod.Task, e nod.Effect) (json.RawMessage, error) {
	act := "react to a comment in " + t.Repo.String()
	var in nod.React
	if err := intent(e, nod.EffectReact, &in); err != nil {
		return nil, err
	}
	if err := p.check(t.Repo); err != nil {
		return nil, err
	}
	client, err := p.in(ctx, t.Installation, t.Repo, permWrite)
	if err != nil {
		return nil, p.fault(act, err)
	}
	if _, _, err := client.Reactions.CreateIssueCommentReaction(ctx, t.Repo.Owner, t.Repo.Name, in.Comment, string(in.Content)); err != nil {
		return nil, p.fault(act, err)
	}
	return outcome(struct{}{})
}

// Lookup never finds anything; see Reactions.
func (p Reactions) Lookup(context.Context, nod.Task, nod.Effect) (json.RawMessage, error) {
	return nil, nil
}
