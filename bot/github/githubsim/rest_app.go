package githubsim

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

func getApp(c *call) (int, any, error) {
	out := c.appJSON()
	out["installations_count"] = len(c.installations)
	return http.StatusOK, out, nil
}

// appJSON is the App as everybody sees it. GitHub owns it, as far as anyone can tell.
func (s *Server) appJSON() obj {
	return obj{"id": s.app.id, "slug": s.app.slug, "name": s.app.slug, "node_id": nodeID("A", s.app.id), "client_id": "Iv1." + itoa(int(s.app.id)),
		"owner": s.userJSON(s.appOwner), "permissions": s.asked, "events": s.told, "description": nil,
		"html_url": s.base + "/apps/" + s.app.slug, "external_url": s.base, "created_at": when(epoch), "updated_at": when(epoch)}
}

// appEvents is what the App is told of.
var appEvents = []string{"issues", "issue_comment", "pull_request", "pull_request_review", "pull_request_review_comment", "check_suite", "push"}

func listInstallations(c *call) (int, any, error) {
	out := []obj{}
	for _, in := range paginate(c, c.installations) {
		out = append(out, c.installationJSON(in))
	}
	return http.StatusOK, out, nil
}

func (c *call) installation() (*installation, error) {
	for _, in := range c.installations {
		if in.id == int64(c.int("id")) {
			return in, nil
		}
	}
	return nil, errNotFound
}

func getInstallation(c *call) (int, any, error) {
	in, err := c.installation()
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, c.installationJSON(in), nil
}

func repoInstallation(c *call) (int, any, error) {
	in := c.installationOf(c.repo.owner)
	if in == nil {
		return 0, nil, errNotFound
	}
	return http.StatusOK, c.installationJSON(in), nil
}

// createToken mints an installation token, narrowed as asked. What was not granted
// cannot be asked for.
func createToken(c *call) (int, any, error) {
	in, err := c.installation()
	if err != nil {
		return 0, nil, err
	}
	if in.suspended {
		return 0, nil, &apiError{status: http.StatusForbidden, msg: "This installation has been suspended"}
	}
	var ask struct {
		Repositories  []string `json:"repositories"`
		RepositoryIDs []int64  `json:"repository_ids"`
		Permissions   grant    `json:"permissions"`
	}
	if err := c.decode(&ask); err != nil {
		return 0, nil, err
	}
	t := token{inst: in, user: c.app.user, perms: maps.Clone(in.perms)}
	if len(ask.Permissions) > 0 {
		for name, level := range ask.Permissions {
			if !in.perms.covers(name, level) {
				return 0, nil, &apiError{status: http.StatusUnprocessableEntity, msg: "The permissions requested are not granted to this installation."}
			}
		}
		t.perms = ask.Permissions
	}
	t.perms["metadata"] = "read"
	reposOut := []obj{}
	for _, r := range c.reposOf(in.account) {
		named := slices.ContainsFunc(ask.Repositories, func(n string) bool { return strings.EqualFold(n, r.name) })
		if named || slices.Contains(ask.RepositoryIDs, r.id) {
			t.repos = append(t.repos, r.id)
			reposOut = append(reposOut, c.repoJSON(r))
		}
	}
	if len(t.repos) < len(ask.Repositories)+len(ask.RepositoryIDs) {
		return 0, nil, &apiError{status: http.StatusUnprocessableEntity,
			msg: "There is at least one repository that does not exist or is not accessible to the parent installation."}
	}
	made := c.mint("ghs", t)
	out := obj{"token": made.value, "expires_at": when(made.expires), "permissions": made.perms, "repository_selection": "all"}
	if made.repos != nil {
		out["repository_selection"], out["repositories"] = "selected", reposOut
	}
	return http.StatusCreated, out, nil
}

// reposOf lists the repositories of an account in the order of their ids.
func (s *Server) reposOf(owner *user) []*repo {
	var out []*repo
	for _, r := range s.repos {
		if r.owner == owner {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *repo) int { return int(a.id - b.id) })
	return out
}

func (c *call) installationToken() (*token, error) {
	if c.id.token == nil || c.id.token.inst == nil {
		return nil, errRequiresAuth
	}
	return c.id.token, nil
}

func installationRepos(c *call) (int, any, error) {
	t, err := c.installationToken()
	if err != nil {
		return 0, nil, err
	}
	out := []obj{}
	for _, r := range c.reposOf(t.inst.account) {
		if t.repos == nil || slices.Contains(t.repos, r.id) {
			out = append(out, c.repoJSON(r))
		}
	}
	total := len(out)
	return http.StatusOK, obj{"total_count": total, "repositories": paginate(c, out), "repository_selection": "all"}, nil
}

func revokeToken(c *call) (int, any, error) {
	t, err := c.installationToken()
	if err != nil {
		return 0, nil, err
	}
	delete(c.tokens, t.value)
	return http.StatusNoContent, nil, nil
}

func getUser(c *call) (int, any, error) {
	u := c.users[strings.ToLower(c.r.PathValue("login"))]
	if u == nil {
		return 0, nil, errNotFound
	}
	return http.StatusOK, c.accountJSON(u), nil
}

func getUserByID(c *call) (int, any, error) {
	for _, u := range c.users {
		if u.id == int64(c.int("id")) {
			return http.StatusOK, c.accountJSON(u), nil
		}
	}
	return 0, nil, errNotFound
}
