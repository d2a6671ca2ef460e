package ntfytest

import (
	"bytes"
	"embed"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

//go:embed assets
var assets embed.FS

var phonePage = template.Must(template.ParseFS(assets, "assets/phone.html"))

// assetTypes are the files that the page may load.
var assetTypes = map[string]string{
	"phone.css": "text/css; charset=utf-8", "phone.js": "text/javascript; charset=utf-8", "phone.svg": "image/svg+xml",
}

const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// shown is how many pushes the page lists.
const shown = 50

// push is a message as the page shows it.
type push struct {
	Title, Text, Link, Label string
	Stamp, Clock             string
	Urgent                   bool
}

// phone adds the page, its files and its stream.
func (s *Server) phone() {
	s.mux.HandleFunc("GET /phone", s.phoneHTML)
	s.mux.HandleFunc("GET /phone/events", func(w http.ResponseWriter, r *http.Request) {
		s.stream(w, r, s.cfg.Topic, "none", false, format{eventStream, writeRing})
	})
	for name, kind := range assetTypes {
		s.mux.HandleFunc("GET /phone/"+name, func(w http.ResponseWriter, _ *http.Request) {
			body, err := assets.ReadFile("assets/" + name)
			if err != nil {
				s.fail(w, bad(50001, "internal server error"))
				return
			}
			s.page(w, kind, body)
		})
	}
}

// writeRing tells the page that a push came, never which: it fetches itself again.
func writeRing(w io.Writer, m Message) error {
	line := ": " + m.Event + "\n\n" // a comment
	if m.Event == "message" {
		line = "data: push\n\n"
	}
	_, err := io.WriteString(w, line)
	return err
}

func (s *Server) phoneHTML(w http.ResponseWriter, _ *http.Request) {
	messages := s.Messages(s.cfg.Topic)
	slices.Reverse(messages)
	var list []push
	newer := map[string]bool{}
	for _, m := range messages {
		if len(list) == shown {
			break
		}
		if m.Sequence == "" || !newer[m.Sequence] {
			list = append(list, show(m))
		}
		newer[m.Sequence] = true
	}
	var b bytes.Buffer
	if err := phonePage.Execute(&b, list); err != nil {
		s.cfg.Log.Error("render the phone page", "err", err)
		s.fail(w, bad(50001, "internal server error"))
		return
	}
	s.page(w, "text/html; charset=utf-8", b.Bytes())
}

func show(m Message) push {
	at := time.Unix(m.Time, 0)
	p := push{Title: m.Title, Text: m.Message, Label: "Open", Urgent: m.Priority >= 4,
		Stamp: at.UTC().Format(time.RFC3339), Clock: at.Format("15:04")}
	if p.Title == "" {
		p.Title, p.Text = m.Message, ""
	}
	if u, err := url.Parse(m.Click); err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") {
		p.Link = m.Click
	}
	for _, a := range m.Actions {
		if a.URL == m.Click && strings.TrimSpace(a.Label) != "" {
			p.Label = a.Label
		}
	}
	return p
}

func (s *Server) page(w http.ResponseWriter, kind string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	if _, err := w.Write(body); err != nil {
		s.cfg.Log.Debug("page not read", "err", err)
	}
}
