package githubsim

import (
	"net/http"
	"slices"
)

// contents are the reactions that GitHub knows.
var contents = []string{"+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes"}

// createReaction answers 200 when the same one is there already.
func createReaction(c *call) (int, any, error) {
	_, cm, err := c.comment()
	if err != nil {
		return 0, nil, err
	}
	var in struct{ Content string }
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if !slices.Contains(contents, in.Content) {
		return 0, nil, invalid("Reaction", "content", "invalid", "")
	}
	for _, r := range cm.reactions {
		if r.by == c.by && r.content == in.Content {
			return http.StatusOK, c.reactionJSON(r), nil
		}
	}
	made := &reaction{c.Server.id(), c.by, in.Content, c.stamp()}
	cm.reactions = append(cm.reactions, made)
	return http.StatusCreated, c.reactionJSON(made), nil
}

func (s *Server) reactionJSON(r *reaction) obj {
	return obj{"id": r.id, "node_id": nodeID("REA", r.id), "user": s.userJSON(r.by), "content": r.content, "created_at": when(r.at)}
}
