package githubsim

import (
	"net/http"
	"strings"
)

// SetRules makes the kinds of ruleset rules, such as "creation" or
// "required_signatures", apply to every branch of a repository that begins with
// prefix. creation, update and required_signatures are enforced on the API; all are
// listed.
func (s *Server) SetRules(full, prefix string, kinds ...string) error {
	return s.withRepo("", full, func(r *repo, _ *user) error {
		r.rules, r.ruled = kinds, prefix
		return nil
	})
}

func (r *repo) rulesFor(branch string) []string {
	if !strings.HasPrefix(branch, r.ruled) {
		return nil
	}
	return r.rules
}

func branchRules(c *call) (int, any, error) {
	out := []obj{}
	for _, kind := range c.repo.rulesFor(c.r.PathValue("branch")) {
		out = append(out, obj{"type": kind, "ruleset_source_type": "Repository", "ruleset_source": c.repo.full(), "ruleset_id": 1})
	}
	return http.StatusOK, paginate(c, out), nil
}

// ruleAgainst returns the refusal of a rule that moving ref from old to sha breaks.
// The caller holds s.mu.
func (s *Server) ruleAgainst(r *repo, ref, old, sha string) error {
	branch, _ := strings.CutPrefix(ref, "refs/heads/")
	for _, kind := range r.rulesFor(branch) {
		why := ""
		switch {
		case kind == "creation" && old == "":
			why = "Cannot create ref due to creations being restricted."
		case kind == "update" && old != "":
			why = "Cannot update this protected ref."
		case kind == "required_signatures":
			base := old
			if base == "" {
				base = s.head(r, r.branch)
			}
			commits, err := s.commits(r, base, sha)
			if err != nil {
				return err
			}
			for _, c := range commits {
				if !s.verify(c).ok {
					why = "Commits must have verified signatures."
				}
			}
		}
		if why != "" {
			return &apiError{status: http.StatusUnprocessableEntity, msg: "Repository rule violations found\n\n" + why}
		}
	}
	return nil
}

// requestReviewers asks people for reviews. Nobody reviews their own pull request,
// and only who can read the repository can be asked.
func requestReviewers(c *call) (int, any, error) {
	i, err := c.pull()
	if err != nil {
		return 0, nil, err
	}
	var in struct {
		Reviewers     []string `json:"reviewers"`
		TeamReviewers []string `json:"team_reviewers"`
	}
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if len(in.TeamReviewers) > 0 {
		return 0, nil, &apiError{status: http.StatusUnprocessableEntity, msg: "Could not resolve to a node with the global id of a team."}
	}
	var asked []*user
	for _, login := range in.Reviewers {
		u := c.users[strings.ToLower(login)]
		if u == nil || u == i.author || c.repo.roles[u.id].level() == 0 && u != c.repo.owner {
			return 0, nil, &apiError{status: http.StatusUnprocessableEntity, msg: "Reviews may only be requested from collaborators."}
		}
		asked = append(asked, u)
	}
	i.pull.reviewers = append(i.pull.reviewers, asked...)
	i.updated = c.stamp()
	return http.StatusCreated, c.pullJSON(c.repo, i), nil
}

func (s *Server) reviewersJSON(p *pull) []any {
	out := []any{}
	for _, u := range p.reviewers {
		out = append(out, s.userJSON(u))
	}
	return out
}
