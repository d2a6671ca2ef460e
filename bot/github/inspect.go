package github

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	gh "github.com/google/go-github/v66/github"

	"nod"
)

// Finding is one thing that Inspect looked at.
type Finding struct {
	What   string `json:"what"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

const (
	// maxSkew is how far the clocks may be apart. GitHub refuses an App's key at 60 s.
	maxSkew = 30 * time.Second
	// inspected is how far back deliveries are looked at, and inspectedMost how many.
	inspected     = 24 * time.Hour
	inspectedMost = 100
)

// Needed is what the App must have been granted, permission name to level.
func (c *Client) Needed() map[string]string {
	need := map[string]string{"metadata": "read", "contents": "write", "issues": "write", "pull_requests": "write", "checks": "write"}
	if c.workflows {
		need["workflows"] = "write"
	}
	return need
}

var neededEvents = []string{"issues", "issue_comment", "pull_request", "pull_request_review", "pull_request_review_comment", "check_suite", "push"}

// Inspect looks at the App, its webhook, which should lead to hook, and its
// installations for repos. It changes nothing, and goes on after what fails.
func (c *Client) Inspect(ctx context.Context, hook string, repos []Inspected) []Finding {
	app, res, err := c.app.Apps.Get(ctx, "")
	if err != nil {
		return []Finding{{What: "App", Detail: nod.PublicMessage(c.fault("read its own App", err)), Hint: "check github.app_id, the private key and this machine's clock"}}
	}
	found := []Finding{{What: "App", OK: true, Detail: tidy(app.GetSlug())}, c.clock(res)}
	found = append(found, c.granted("permissions of the App", app.Permissions, "change them on the App's settings page"))
	events := Finding{What: "events", OK: true, Detail: strings.Join(app.Events, ", ")}
	for _, e := range neededEvents {
		if !slices.Contains(app.Events, e) {
			events.OK, events.Hint = false, "subscribe the App to "+strings.Join(neededEvents, ", ")
		}
	}
	found = append(append(found, events), c.hook(ctx, hook)...)
	for _, repo := range repos {
		found = append(found, c.repository(ctx, hook, repo)...)
	}
	return found
}

// clock compares this machine's clock with the Date of an answer.
func (c *Client) clock(res *gh.Response) Finding {
	f := Finding{What: "clock", Hint: "set this machine's clock by NTP"}
	at, err := time.Parse(time.RFC1123, res.Header.Get("Date"))
	if err != nil {
		f.Detail = "GitHub's answer had no date"
		return f
	}
	skew := c.now().Sub(at).Round(time.Second)
	if f.OK = skew.Abs() <= maxSkew; f.OK {
		f.Hint = ""
	}
	f.Detail = fmt.Sprintf("%s off GitHub's", skew)
	return f
}

// missing lists what perms lack of need, as "name: level", sorted.
func missing(perms *gh.InstallationPermissions, need map[string]string) ([]string, error) {
	have := map[string]string{}
	raw, err := json.Marshal(perms)
	if err == nil {
		err = json.Unmarshal(raw, &have)
	}
	if err != nil {
		return nil, err
	}
	var lacks []string
	rank := []string{"", "read", "write", "admin"}
	for name, level := range need {
		if slices.Index(rank, have[name]) < slices.Index(rank, level) {
			lacks = append(lacks, name+": "+level)
		}
	}
	slices.Sort(lacks)
	return lacks, nil
}

func (c *Client) granted(what string, perms *gh.InstallationPermissions, hint string) Finding {
	missing, err := missing(perms, c.Needed())
	if err != nil {
		return Finding{What: what, Detail: "GitHub's answer cannot be read"}
	}
	if len(missing) == 0 {
		return Finding{What: what, OK: true, Detail: "all that is needed"}
	}
	return Finding{What: what, Detail: "lacks " + strings.Join(missing, ", "), Hint: hint}
}

// hook looks where the App's webhook leads and how its deliveries fared.
func (c *Client) hook(ctx context.Context, want string) []Finding {
	config, _, err := c.app.Apps.GetHookConfig(ctx)
	if err != nil {
		return []Finding{{What: "webhook", Detail: nod.PublicMessage(c.fault("read its webhook", err))}}
	}
	if config.GetURL() == "" {
		return []Finding{{What: "webhook", OK: true, Detail: "switched off"}}
	}
	where := Finding{What: "webhook", OK: config.GetURL() == want, Detail: tidy(config.GetURL())}
	switch {
	case !where.OK:
		where.Hint = "it should lead to " + want
	case config.GetContentType() != "json":
		where.OK, where.Hint = false, "set its content type to application/json"
	case config.GetInsecureSSL() == "1":
		where.OK, where.Hint = false, "let GitHub verify the certificate"
	}
	recent, err := c.HookDeliveries(ctx, c.now().Add(-inspected), inspectedMost)
	if err != nil {
		return []Finding{where, {What: "deliveries", Detail: nod.PublicMessage(err)}}
	}
	failed := 0
	for _, d := range recent {
		if !d.OK {
			failed++
		}
	}
	went := Finding{What: "deliveries", OK: failed == 0, Detail: fmt.Sprintf("%d of the last %d arrived", len(recent)-failed, len(recent))}
	if !went.OK {
		went.Hint = "nod fetches those that did not, more slowly; see whether " + want + " can be reached"
	}
	return []Finding{where, went}
}
