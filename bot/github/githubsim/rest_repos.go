package githubsim

import (
	"net/http"
	"strings"
)

func getRepo(c *call) (int, any, error) { return http.StatusOK, c.repoJSON(c.repo), nil }

// getPermission answers for every account that exists; a stranger's permission is
// read where the repository is public, none where it is not.
func getPermission(c *call) (int, any, error) {
	u := c.users[strings.ToLower(c.r.PathValue("login"))]
	if u == nil {
		return 0, nil, &apiError{status: http.StatusNotFound, msg: c.r.PathValue("login") + " is not a user"}
	}
	role := c.repo.roleOf(u)
	shown := c.userJSON(u).(obj)
	n := role.level()
	shown["permissions"] = map[string]bool{"pull": n >= 1, "triage": n >= 2, "push": n >= 3, "maintain": n >= 4, "admin": n >= 5}
	shown["role_name"] = role.name
	return http.StatusOK, obj{"permission": role.legacy(), "role_name": role.name, "user": shown}, nil
}

func listLabels(c *call) (int, any, error) {
	return http.StatusOK, c.labelsJSON(c.repo, paginate(c, c.repo.labels)), nil
}

func getLabel(c *call) (int, any, error) {
	l := c.repo.label(c.r.PathValue("name"))
	if l == nil {
		return 0, nil, errNotFound
	}
	return http.StatusOK, c.labelJSON(c.repo, l), nil
}

func createLabel(c *call) (int, any, error) {
	var in struct{ Name, Color, Description string }
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if in.Name == "" {
		return 0, nil, invalid("Label", "name", "missing_field", "")
	}
	if c.repo.label(in.Name) != nil {
		return 0, nil, invalid("Label", "name", "already_exists", "")
	}
	l, err := c.newLabel(c.repo, in.Name)
	if err != nil {
		return 0, nil, err
	}
	if in.Color != "" {
		l.color = in.Color
	}
	l.description = in.Description
	return http.StatusCreated, c.labelJSON(c.repo, l), nil
}

// maxLabel is how long a label's name may be, in characters.
const maxLabel = 50

// newLabel makes a label of r. The caller holds s.mu.
func (s *Server) newLabel(r *repo, name string) (*label, error) {
	name = strings.TrimSpace(name)
	if name == "" || len([]rune(name)) > maxLabel {
		return nil, invalid("Label", "name", "invalid", "name is too long (maximum is 50 characters)")
	}
	l := &label{id: s.id(), name: name, color: "ededed"}
	r.labels = append(r.labels, l)
	return l, nil
}
