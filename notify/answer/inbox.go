package answer

import (
	"net/http"
	"strings"

	"nod"
)

type inboxView struct {
	frame
	Heading string
	Open    []openItem
	More    int // decisions that are not listed
	Tasks   []taskItem
}

type openItem struct {
	ID, Title, Where, About string
	Clock                   *clock
}

type taskItem struct {
	Task         nod.Task
	State, Class string
}

// inboxCap is how many decisions the inbox lists; blocking ones come first.
const inboxCap = 100

func (s *Server) inboxPage(w http.ResponseWriter, r *http.Request, by nod.Session) error {
	open, err := s.decisions.OpenDecisions(r.Context())
	if err != nil {
		return err
	}
	tasks, err := s.streams.Tasks(r.Context(), nod.TaskQueued, nod.TaskRunning, nod.TaskAwaitingGuidance, nod.TaskReadyForReview)
	if err != nil {
		return err
	}
	v := inboxView{frame: s.frame("Inbox", true), Heading: heading(len(open))}
	v.Page = "inbox"
	where := map[string]string{}
	for _, t := range tasks {
		if !by.Covers(t.Repo) {
			continue
		}
		where[t.ID] = t.Where()
		label, class := stateLabel(t)
		v.Tasks = append(v.Tasks, taskItem{t, label, class})
	}
	for _, d := range open {
		if d.Late(s.now()) {
			continue // about to be expired
		}
		if _, covered := where[d.Task]; !covered && len(by.Repos) > 0 {
			continue
		}
		if len(v.Open) == inboxCap {
			v.More++
			continue
		}
		words := words(d)
		v.Open = append(v.Open, openItem{ID: d.ID, Title: words.Title, Where: where[d.Task], About: about(d), Clock: s.clock(d, "")})
	}
	v.Heading = heading(len(v.Open) + v.More)
	return s.render(w, http.StatusOK, "inbox", v)
}

func heading(n int) string {
	switch n {
	case 0:
		return "Nothing needs you"
	case 1:
		return "One thing needs you"
	case 2:
		return "Two things need you"
	case 3:
		return "Three things need you"
	}
	return plural(n, "", "things need you")
}

// about is one line on what d is about. It is a help for finding, never the thing
// that is answered.
func about(d nod.Decision) string {
	text := d.Subject
	if fields, ok := object(d.Input); ok && d.Cause == nod.CauseTool {
		for _, f := range fields {
			if s, isText := f.text(); isText && (f.key == "command" || f.key == "file_path" || f.key == "url") {
				text = s
				break
			}
		}
	}
	text, _, more := strings.Cut(text, "\n")
	if runes := []rune(text); len(runes) > 80 {
		text, more = string(runes[:80]), true
	}
	if more {
		text += "…"
	}
	return text
}
