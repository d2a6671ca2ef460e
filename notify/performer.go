package notify

import (
	"context"
	"encoding/json"

	"nod"
)

// Performer performs nod.EffectNotify with a Publisher.
type Performer struct {
	Publisher *Publisher
}

// Sent is the outcome of a performed push.
type Sent struct {
	ID string `json:"id"` // the server's message id
}

// Perform sends the Push in e's intent. The outcome is a Sent.
func (p Performer) Perform(ctx context.Context, _ nod.Task, e nod.Effect) (json.RawMessage, error) {
	if err := p.takes(e); err != nil {
		return nil, err
	}
	var push nod.Push
	if err := json.Unmarshal(e.Intent, &push); err != nil {
		return nil, nod.E(nod.Invalid, "the intent is not a push", err)
	}
	id, err := p.Publisher.Send(ctx, push)
	if err != nil {
		return nil, err
	}
	return json.Marshal(Sent{ID: id})
}

// Lookup always answers that e has not happened: a server does not tell what it
// has sent, and ringing twice is better than not at all.
func (p Performer) Lookup(_ context.Context, _ nod.Task, e nod.Effect) (json.RawMessage, error) {
	return nil, p.takes(e)
}

func (p Performer) takes(e nod.Effect) error {
	if e.Kind != nod.EffectNotify || p.Publisher == nil {
		return nod.E(nod.Unsupported, "this performer only sends pushes", nil)
	}
	return nil
}
