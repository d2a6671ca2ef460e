package githubsim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

func (c *call) hookConfig() obj {
	c.hooks.mu.Lock()
	defer c.hooks.mu.Unlock()
	return obj{"content_type": "json", "insecure_ssl": "0", "secret": "********", "url": c.hooks.target}
}

func getHookConfig(c *call) (int, any, error) { return http.StatusOK, c.hookConfig(), nil }

func setHookConfig(c *call) (int, any, error) {
	var in struct{ URL *string }
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if in.URL != nil {
		c.SetWebhook(*in.URL)
	}
	return http.StatusOK, c.hookConfig(), nil
}

func deliveryJSON(d Delivery) obj {
	out := obj{"id": d.ID, "guid": d.GUID, "delivered_at": d.DeliveredAt, "redelivery": d.Redelivery, "duration": 0.01,
		"status": d.Status, "status_code": d.StatusCode, "event": d.Event, "action": nil, "installation_id": nil, "repository_id": nil}
	if d.Action != "" {
		out["action"] = d.Action
	}
	if d.Installation != 0 {
		out["installation_id"] = d.Installation
	}
	if d.Repository != 0 {
		out["repository_id"] = d.Repository
	}
	return out
}

// listDeliveries pages backwards in time; the cursor is the id to go on below.
func listDeliveries(c *call) (int, any, error) {
	q := c.r.URL.Query()
	per := atoi(q.Get("per_page"))
	if per < 1 {
		per = 30
	}
	per = min(per, 100)
	below, err := strconv.ParseInt(q.Get("cursor"), 10, 64)
	if err != nil && q.Get("cursor") != "" {
		return 0, nil, &apiError{status: http.StatusUnprocessableEntity, msg: "Invalid cursor"}
	}
	out := []obj{}
	for _, d := range slices.Backward(c.hooks.snapshot()) {
		if below > 0 && d.ID >= below {
			continue
		}
		if len(out) == per {
			c.w.Header().Set("Link", fmt.Sprintf(`<http://%s/app/hook/deliveries?per_page=%d&cursor=%d>; rel="next"`,
				c.r.Host, per, out[per-1]["id"]))
			break
		}
		out = append(out, deliveryJSON(d))
	}
	return http.StatusOK, out, nil
}

func getDelivery(c *call) (int, any, error) {
	for _, d := range c.hooks.snapshot() {
		if d.ID == int64(c.int("id")) {
			out := deliveryJSON(d)
			out["request"] = obj{"headers": c.hooks.headers(&d), "payload": json.RawMessage(d.Payload)}
			out["response"] = obj{"headers": obj{}, "payload": nil}
			return http.StatusOK, out, nil
		}
	}
	return 0, nil, errNotFound
}

func redeliver(c *call) (int, any, error) {
	if err := c.hooks.redeliver(int64(c.int("id"))); err != nil {
		return 0, nil, err
	}
	return http.StatusAccepted, obj{}, nil
}

// repoHook is a webhook of one repository. Nothing is delivered to it here.
type repoHook struct {
	id  int64
	url string
}

// AddHook gives a repository a webhook of its own, beside the App's. It is listed, and
// that is all.
func (s *Server) AddHook(full, to string) error {
	return s.withRepo("", full, func(r *repo, _ *user) error {
		r.hooks = append(r.hooks, repoHook{s.id(), to})
		return nil
	})
}

func listRepoHooks(c *call) (int, any, error) {
	out := []obj{}
	for _, h := range paginate(c, c.repo.hooks) {
		api := fmt.Sprintf("%s/hooks/%d", c.repoURL(c.repo), h.id)
		out = append(out, obj{"id": h.id, "type": "Repository", "name": "web", "active": true, "events": []string{"issues"},
			"config": obj{"url": h.url, "content_type": "json", "insecure_ssl": "0"}, "url": api, "test_url": api + "/test", "ping_url": api + "/pings",
			"deliveries_url": api + "/deliveries", "created_at": when(epoch), "updated_at": when(epoch), "last_response": obj{"code": nil, "status": "unused", "message": nil}})
	}
	return http.StatusOK, out, nil
}
