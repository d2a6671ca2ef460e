package github

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"nod"
)

// Standing resolves a's tier in repo. It never fails: what cannot be resolved is an
// outsider, with the reason. Only GitHub's collaborator permission decides, and only
// when it speaks of the same numeric account; author associations, login suffixes
// and role names that GitHub does not define are not evidence. What GitHub told counts
// for half a minute; a failure is asked about again at once.
func (c *Client) Standing(ctx context.Context, installation int64, repo nod.Repo, a nod.Actor) nod.Standing {
	out := func(tier nod.Tier, reason string) nod.Standing {
		return nod.Standing{Actor: a, Tier: tier, Reason: reason}
	}
	switch err := c.check(repo); {
	case err != nil:
		return out(nod.Outsider, nod.PublicMessage(err))
	case a.Kind != nod.ActorGitHub || !strings.EqualFold(a.Host, c.host):
		return out(nod.Outsider, "not an account on "+c.host)
	case a.ID <= 0:
		return out(nod.Outsider, "the account is deleted or unknown")
	case a.Bot:
		return out(nod.Bot, "GitHub says that the account is not a user")
	case slices.Contains(c.owners, a.ID):
		return out(nod.Owner, "listed as an owner in the configuration")
	}
	k := c.tierKnown(repo.Key() + "/" + a.Key() + "/" + a.Login)
	k.Lock() // who asks meanwhile gets the same answer
	defer k.Unlock()
	if now := c.now(); now.Before(k.until) {
		return k.standing
	}
	standing, sure := c.askTier(ctx, installation, repo, a)
	if sure {
		k.standing, k.until = standing, c.now().Add(c.tierLife)
	}
	return standing
}

const (
	// tierLife is how long a tier that GitHub told counts. Someone who loses a
	// permission may act on it for that long.
	tierLife = 30 * time.Second
	// maxTiers is how many tiers are kept; when there are more, all are forgotten.
	maxTiers = 1024
)

// tierKnown is a tier and how long it counts, behind a mutex that whoever asks GitHub
// for it holds.
type tierKnown struct {
	sync.Mutex
	standing nod.Standing
	until    time.Time
}

func (c *Client) tierKnown(key string) *tierKnown {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.tiers[key]
	if k == nil {
		if c.tiers == nil || len(c.tiers) >= maxTiers {
			c.tiers = map[string]*tierKnown{}
		}
		k = &tierKnown{}
		c.tiers[key] = k
	}
	return k
}

// askTier asks GitHub. sure is false where another answer may come in a moment.
func (c *Client) askTier(ctx context.Context, installation int64, repo nod.Repo, a nod.Actor) (s nod.Standing, sure bool) {
	out := func(tier nod.Tier, reason string) (nod.Standing, bool) {
		return nod.Standing{Actor: a, Tier: tier, Reason: reason}, true
	}
	unsure := func(reason string) (nod.Standing, bool) {
		return nod.Standing{Actor: a, Tier: nod.Outsider, Reason: reason}, false
	}
	client, err := c.in(ctx, installation, repo, permMeta)
	if err != nil {
		return unsure("GitHub could not be asked: " + nod.PublicMessage(err))
	}
	if a.Login == "" {
		u, _, err := client.Users.GetByID(ctx, a.ID)
		if err != nil {
			return unsure(unresolved(c.fault("read an account", err)))
		}
		a.Login = u.GetLogin()
	}
	if !validLogin(a.Login) {
		return out(nod.Outsider, "the login is not one that GitHub gives out")
	}
	level, _, err := client.Repositories.GetPermissionLevel(ctx, repo.Owner, repo.Name, a.Login)
	if err != nil {
		if statusOf(err) == http.StatusNotFound {
			return unsure("GitHub knows no permission of this account here (404)")
		}
		return unsure(unresolved(c.fault("read a permission", err)))
	}
	u := level.GetUser()
	if u.GetID() != a.ID {
		return out(nod.Outsider, "the login belongs to another account now")
	}
	if u.GetType() != "User" {
		a.Bot = true
		return out(nod.Bot, "GitHub says that the account is not a user")
	}
	tier, reason := tierOf(level.GetPermission(), level.GetRoleName(), u.Permissions)
	return out(tier, reason)
}

func unresolved(err error) string { return "GitHub could not say: " + nod.PublicMessage(err) }

// tierOf maps a collaborator permission to a tier. permission is GitHub's resolved
// base permission (admin, write, read or none); role may be one that an
// organization made up, and then says nothing. Where permission and a standard role
// disagree, the lower one counts.
func tierOf(permission, role string, may map[string]bool) (nod.Tier, string) {
	said := fmt.Sprintf("permission %q, role %q", tidy(permission), tidy(role))
	base := nod.Outsider
	switch permission {
	case "admin", "maintain", "write":
		base = nod.Writer
	case "triage":
		base = nod.Triager
	case "read":
		if role == "triage" || may["triage"] {
			base = nod.Triager
		}
	}
	switch role {
	case "none", "read":
		base = nod.Outsider
	case "triage":
		if base == nod.Writer {
			base = nod.Triager
		}
	}
	return base, said
}
