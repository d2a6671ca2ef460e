package github

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"nod"
)

// Standing resolves a's tier in repo. It never fails: what cannot be resolved is an
// outsider, with the reason. Only GitHub's collaborator permission decides, and only
// when it speaks of the same numeric account; author associations, login suffixes
// and role names that GitHub does not define are not evidence.
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
	client, err := c.in(ctx, installation, repo, permMeta)
	if err != nil {
		return out(nod.Outsider, "GitHub could not be asked: "+nod.PublicMessage(err))
	}
	if a.Login == "" {
		u, _, err := client.Users.GetByID(ctx, a.ID)
		if err != nil {
			return out(nod.Outsider, unresolved(c.fault("read an account", err)))
		}
		a.Login = u.GetLogin()
	}
	if !loginShape.MatchString(a.Login) {
		return out(nod.Outsider, "the login is not one that GitHub gives out")
	}
	level, _, err := client.Repositories.GetPermissionLevel(ctx, repo.Owner, repo.Name, a.Login)
	if err != nil {
		if statusOf(err) == http.StatusNotFound {
			return out(nod.Outsider, "GitHub knows no permission of this account here (404)")
		}
		return out(nod.Outsider, unresolved(c.fault("read a permission", err)))
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
