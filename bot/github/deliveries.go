package github

import (
	"context"
	"strconv"
	"time"

	gh "github.com/google/go-github/v66/github"

	"nod"
)

// HookDelivery is one webhook delivery as GitHub remembers it, whether or not the
// hook's URL answered. Payload is set by HookDelivery only.
type HookDelivery struct {
	ID          int64
	GUID        string
	Event       string
	Action      string
	Redelivery  bool
	OK          bool // the hook's URL took it
	DeliveredAt time.Time
	Payload     []byte
}

// HookDeliveries lists the App's webhook deliveries, newest first: those after
// since, and at most limit of them.
func (c *Client) HookDeliveries(ctx context.Context, since time.Time, limit int) ([]HookDelivery, error) {
	var out []HookDelivery
	opts := &gh.ListCursorOptions{PerPage: perPage}
	for {
		some, res, err := c.app.Apps.ListHookDeliveries(ctx, opts)
		if err != nil {
			return nil, c.fault("list its webhook deliveries", err)
		}
		for _, d := range some {
			one := shapeDelivery(d)
			if one.DeliveredAt.Before(since) || len(out) >= limit {
				return out, nil
			}
			out = append(out, one)
		}
		if res.Cursor == "" || res.Cursor == opts.Cursor {
			return out, nil
		}
		opts.Cursor = res.Cursor
	}
}

// HookDelivery reads one delivery with its payload.
func (c *Client) HookDelivery(ctx context.Context, id int64) (HookDelivery, error) {
	got, _, err := c.app.Apps.GetHookDelivery(ctx, id)
	if err != nil {
		return HookDelivery{}, c.fault("read webhook delivery "+strconv.FormatInt(id, 10), err)
	}
	one := shapeDelivery(got)
	if raw := got.GetRequest().RawPayload; raw != nil {
		one.Payload = *raw
	}
	if one.Payload == nil {
		return HookDelivery{}, nod.E(nod.NotFound, "GitHub kept no payload of that delivery", nil)
	}
	return one, nil
}

func shapeDelivery(d *gh.HookDelivery) HookDelivery {
	code := d.GetStatusCode()
	return HookDelivery{ID: d.GetID(), GUID: d.GetGUID(), Event: d.GetEvent(), Action: d.GetAction(), Redelivery: d.GetRedelivery(),
		OK: code >= 200 && code < 300, DeliveredAt: d.GetDeliveredAt().Time.UTC()}
}
