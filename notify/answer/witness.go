package answer

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"nod"
)

// seen records that a signed-in person opened a decision, which ends the reminders.
// The page's script says so: a GET changes nothing, and whatever fetches links without
// running scripts has not looked at them.
func (s *Server) seen(w http.ResponseWriter, r *http.Request, by nod.Session) error {
	var in struct {
		Decision string `json:"decision"`
	}
	if err := decode(w, r, &in); err != nil {
		return err
	}
	d, err := s.decisionOf(r.Context(), in.Decision, by)
	if err != nil {
		return err
	}
	if err := s.witness.See(r.Context(), d.ID, by.Passkey); err != nil {
		return err
	}
	return reply(w, struct{}{})
}

// refused records an answer that came no further than the page. What is not worth a
// trace (an unreadable request, trouble of nod's own) is left out, and so is what
// comes faster than a person, or a crowd of them, would.
func (s *Server) refused(ctx context.Context, decision, answer string, by nod.Session, err error) {
	var why *nod.Error
	if !errors.As(err, &why) || why.Code.HTTPStatus() >= http.StatusInternalServerError || why.Code == nod.NotFound || why.Code == nod.TooLarge {
		return
	}
	if !s.refusals.AllowN(s.now(), 1) {
		s.log.Warn("answer refused, not recorded", "decision", decision, "err", err)
		return
	}
	if err := s.witness.RefuseAnswer(ctx, decision, answer, by.Passkey, why); err != nil {
		s.log.Error("record a refused answer", "decision", decision, "err", err)
	}
}

// slots bounds what is open at once, in all and for each session.
type slots struct {
	all, each int

	mu   sync.Mutex
	n    int
	open map[string]int
}

func (l *slots) take(session string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n >= l.all || l.open[session] >= min(l.each, l.all) {
		return false
	}
	l.n++
	l.open[session]++
	return true
}

func (l *slots) free(session string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n--
	if l.open[session]--; l.open[session] == 0 {
		delete(l.open, session)
	}
}
