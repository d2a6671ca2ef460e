package answer

import (
	"net/http"

	"nod"
)

type tapView struct {
	frame
	Token  string
	Tapped bool
}

// tapPage is where a test push leads. Whoever opens it has got the push; the page's
// script says so at once, and its button does where there is no script.
func (s *Server) tapPage(w http.ResponseWriter, r *http.Request) error {
	v := tapView{frame: s.frame("Test push", false), Token: r.PathValue("token")}
	v.Page = "tap"
	var err error
	if v.Tapped, err = s.witness.Tappable(r.Context(), tapDigest(v.Token)); err != nil {
		return lateTap(err)
	}
	return s.render(w, http.StatusOK, "tap", v)
}

func (s *Server) tap(w http.ResponseWriter, r *http.Request) error {
	if err := s.stranger(); err != nil {
		return err
	}
	token := r.PathValue("token")
	if err := s.witness.Tap(r.Context(), tapDigest(token)); err != nil {
		return lateTap(err)
	}
	http.Redirect(w, r, "/tap/"+token, http.StatusSeeOther)
	return nil
}

func tapDigest(token string) string { return nod.Digest([]byte(token)) }

func lateTap(err error) error {
	if nod.CodeOf(err) == nod.NotFound {
		return &nod.Error{Code: nod.NotFound, Msg: "this test push is too old", Hint: "run nod setup notify again"}
	}
	return err
}
