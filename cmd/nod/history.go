package main

import (
	"context"
	"time"

	"nod/bot/github"
	"nod/webhooks"
)

// history is GitHub's list of the App's deliveries, in the poller's words.
type history struct{ client *github.Client }

func (h history) Past(ctx context.Context, since time.Time, limit int) ([]webhooks.Past, error) {
	all, err := h.client.HookDeliveries(ctx, since, limit)
	past := make([]webhooks.Past, 0, len(all))
	for _, d := range all {
		past = append(past, webhooks.Past{ID: d.ID, GUID: d.GUID, Event: d.Event, At: d.DeliveredAt})
	}
	return past, err
}

func (h history) Payload(ctx context.Context, id int64) ([]byte, error) {
	d, err := h.client.HookDelivery(ctx, id)
	return d.Payload, err
}
