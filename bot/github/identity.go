package github

import (
	"context"
	"fmt"

	gh "github.com/google/go-github/v66/github"

	"nod"
)

// Identity is the App as an author: its slug, and the bot account that GitHub made
// for it.
type Identity struct {
	Slug  string
	Login string // slug[bot]
	ID    int64  // of the bot account
	Email string // its noreply address, which GitHub links to the account
}

// BotIdentity reads who the App is, once; later calls return the same.
func (c *Client) BotIdentity(ctx context.Context) (Identity, error) {
	c.mu.Lock()
	known := c.identity
	c.mu.Unlock()
	if known.ID != 0 {
		return known, nil
	}
	app, _, err := c.app.Apps.Get(ctx, "")
	if err != nil {
		return Identity{}, c.fault("read its own App", err)
	}
	id := Identity{Slug: app.GetSlug(), Login: app.GetSlug() + "[bot]"}
	if !validLogin(id.Login) {
		return Identity{}, nod.E(nod.Internal, "GitHub named the App in a way nod does not understand", nil)
	}
	as, err := c.anyone(ctx)
	if err != nil {
		return Identity{}, err
	}
	u, _, err := as.Users.Get(ctx, id.Login)
	if err != nil {
		return Identity{}, c.fault("read its own bot account", err)
	}
	if u.GetID() == 0 || u.GetType() != "Bot" {
		return Identity{}, nod.E(nod.Internal, "GitHub says that the App's account is not a bot", nil)
	}
	id.ID = u.GetID()
	id.Email = fmt.Sprintf("%d+%s@users.noreply.%s", id.ID, id.Login, c.host)
	c.mu.Lock()
	c.identity = id
	c.mu.Unlock()
	return id, nil
}

// anyone returns a client that may read public things: with a token of the first
// installation, or with none where the App is not installed yet. The App's own key
// is not accepted there.
func (c *Client) anyone(ctx context.Context) (*gh.Client, error) {
	list, _, err := c.app.Apps.ListInstallations(ctx, &gh.ListOptions{PerPage: 100})
	if err != nil {
		return nil, c.fault("list its installations", err)
	}
	for _, in := range list {
		if in.SuspendedAt == nil {
			a, err := c.access(reachOf(in.GetID(), nod.Repo{}, permMeta))
			if err != nil {
				return nil, err
			}
			return a.client, nil
		}
	}
	return c.speak(c.base), nil
}

// Installation returns the id of the App's installation that reaches repo.
func (c *Client) Installation(ctx context.Context, repo nod.Repo) (int64, error) {
	if err := c.check(repo); err != nil {
		return 0, err
	}
	in, _, err := c.app.Apps.FindRepositoryInstallation(ctx, repo.Owner, repo.Name)
	if err != nil {
		return 0, c.fault("find its installation for "+repo.String(), err)
	}
	return in.GetID(), nil
}
