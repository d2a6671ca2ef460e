package github

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	gh "github.com/google/go-github/v66/github"

	"nod"
)

// Inspected is a repository that Inspect looks at.
type Inspected struct {
	Repo nod.Repo
	Sign nod.SignMode
}

var permHooks = map[string]string{"metadata": "read", "repository_hooks": "read"}

// repository looks at one repository: its installation, what would refuse a push to a
// branch of nod's, and hooks of its own that lead to nod as well.
func (c *Client) repository(ctx context.Context, hook string, r Inspected) []Finding {
	what := "installation for " + r.Repo.String()
	if err := c.check(r.Repo); err != nil {
		return []Finding{{What: what, Detail: nod.PublicMessage(err)}}
	}
	in, _, err := c.app.Apps.FindRepositoryInstallation(ctx, r.Repo.Owner, r.Repo.Name)
	switch {
	case err != nil:
		return []Finding{{What: what, Detail: nod.PublicMessage(c.fault("find it", err)), Hint: "install the App there"}}
	case in.SuspendedAt != nil:
		return []Finding{{What: what, Detail: "suspended", Hint: in.GetHTMLURL()}}
	}
	found := []Finding{c.granted(what, in.Permissions, "accept its permissions at "+in.GetHTMLURL())}
	rules := Finding{What: "pushes to " + r.Repo.String(), OK: true, Detail: "no rule that can be seen refuses one"}
	problems, err := c.Preflight(ctx, nod.Task{Repo: r.Repo, Installation: in.GetID(), Branch: "nod/doctor"}, r.Sign)
	if err != nil {
		rules.OK, rules.Detail = false, nod.PublicMessage(err)
	} else if len(problems) > 0 {
		rules.OK, rules.Detail = false, strings.Join(problems, " ")
	}
	return append(found, rules, c.ownHooks(ctx, hook, r.Repo, in.GetID()))
}

// ownHooks looks for hooks of the repository that lead where the App's does: they tell
// of everything a second time, under GUIDs of their own.
func (c *Client) ownHooks(ctx context.Context, hook string, repo nod.Repo, installation int64) Finding {
	f := Finding{What: "hooks of " + repo.String(), OK: true, Detail: "none leads to nod"}
	client, err := c.in(ctx, installation, repo, permHooks)
	if err == nil {
		var all []*gh.Hook
		all, _, err = pages(0, func(page int) ([]*gh.Hook, *gh.Response, error) {
			return client.Repositories.ListHooks(ctx, repo.Owner, repo.Name, &gh.ListOptions{Page: page, PerPage: perPage})
		})
		for _, h := range all {
			if sameHook(h.GetConfig().GetURL(), hook) {
				f.OK, f.Detail = false, "one leads to nod too: every event arrives twice"
				f.Hint = "delete it at " + strings.TrimSuffix(c.web.String(), "/") + "/" + repo.String() + "/settings/hooks; the App has its own"
			}
		}
	}
	err = c.fault("list the hooks of "+repo.String(), err)
	switch {
	case err == nil:
	case nod.CodeOf(err) == nod.Forbidden || statusOf(err) == http.StatusNotFound:
		f.Detail = "the App may not see them (its permission Webhooks: read would let it)"
	default:
		f.OK, f.Detail = false, nod.PublicMessage(err)
	}
	return f
}

// sameHook compares two addresses but for what cannot matter.
func sameHook(a, b string) bool {
	x, err1 := url.Parse(a)
	y, err2 := url.Parse(b)
	return err1 == nil && err2 == nil && strings.EqualFold(x.Host, y.Host) && strings.TrimRight(x.Path, "/") == strings.TrimRight(y.Path, "/")
}
