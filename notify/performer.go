package notify

import (
	"context"
	"encoding/json"
	"time"

	"nod"
)

// Channel is one way to a person.
type Channel interface {
	// Send publishes p and returns the id that the other side gave it.
	Send(ctx context.Context, p nod.Push) (id string, err error)
	// Sent returns the id of p when it certainly was published within the time given,
	// and "" when that cannot be told.
	Sent(ctx context.Context, p nod.Push, within time.Duration) (id string)
}

// Performer performs nod.EffectNotify through the channel that a push names.
type Performer struct {
	First  Channel
	Second Channel // may be nil
	Now    func() time.Time
}

// Sent is the outcome of a performed push.
type Sent struct {
	ID string `json:"id,omitempty"` // the other side's message id, when it gives one
}

// Perform sends the Push in e's intent. The outcome is a Sent.
func (p Performer) Perform(ctx context.Context, _ nod.Task, e nod.Effect) (json.RawMessage, error) {
	by, push, err := p.of(e)
	if err != nil {
		return nil, err
	}
	id, err := by.Send(ctx, push)
	if err != nil {
		return nil, err
	}
	return json.Marshal(Sent{ID: id})
}

// margin is added to the age of an effect when it is looked for: clocks differ.
const margin = 2 * time.Minute

// Lookup looks for the push among what the other side still keeps. Where that
// cannot be told it answers that e has not happened: ringing twice is better than
// not at all.
func (p Performer) Lookup(ctx context.Context, _ nod.Task, e nod.Effect) (json.RawMessage, error) {
	by, push, err := p.of(e)
	if err != nil {
		return nil, err
	}
	if id := by.Sent(ctx, push, p.Now().Sub(e.CreatedAt)+margin); id != "" {
		return json.Marshal(Sent{ID: id})
	}
	return nil, nil
}

func (p Performer) of(e nod.Effect) (Channel, nod.Push, error) {
	var push nod.Push
	if e.Kind != nod.EffectNotify || p.First == nil || p.Now == nil {
		return nil, push, nod.E(nod.Unsupported, "this performer only sends pushes", nil)
	}
	if err := json.Unmarshal(e.Intent, &push); err != nil {
		return nil, push, nod.E(nod.Invalid, "the intent is not a push", err)
	}
	switch {
	case !push.Second:
		return p.First, push, nil
	case p.Second == nil:
		return nil, push, nod.E(nod.Invalid, "no second channel is configured any more", nil)
	}
	return p.Second, push, nil
}
