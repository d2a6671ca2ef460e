package ntfytest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// format is how a stream is written.
type format struct {
	kind  string
	write func(io.Writer, Message) error
}

const eventStream = "text/event-stream; charset=utf-8"

var (
	asLines  = format{"application/x-ndjson; charset=utf-8", writeLine}
	asEvents = format{eventStream, writeEvent}
)

func writeLine(w io.Writer, m Message) error {
	line, err := json.Marshal(m)
	if err == nil {
		_, err = w.Write(append(line, '\n'))
	}
	return err
}

func writeEvent(w io.Writer, m Message) error {
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	name := ""
	if m.Event != "message" {
		name = "event: " + m.Event + "\n"
	}
	_, err = fmt.Fprintf(w, "id: %s\n%sdata: %s\n\n", m.ID, name, data)
	return err
}

// subscribe streams a topic: cached messages as since asks, then live ones and
// keepalives. With poll=1 it ends after the cached ones.
func (s *Server) subscribe(as format) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("topic")
		p := s.authorize(r)
		if p == nil {
			p = checkTopic(name)
		}
		if p != nil {
			s.fail(w, p)
			return
		}
		poll := param(r, "x-poll", "poll", "po") == "1"
		since := param(r, "x-since", "since", "si")
		if id := r.Header.Get("Last-Event-ID"); id != "" {
			since = id
		}
		if since == "" && poll {
			since = "all"
		}
		s.stream(w, r, name, since, poll, as)
	}
}

func (s *Server) stream(w http.ResponseWriter, r *http.Request, name, since string, poll bool, as format) {
	release, p := s.enter()
	if p != nil {
		s.fail(w, p)
		return
	}
	defer release()
	s.mu.Lock()
	t, p := s.topic(name)
	if p != nil {
		s.mu.Unlock()
		s.fail(w, p)
		return
	}
	cached := t.since(since, s.cfg.Now().Unix())
	_, seq := t.from(0)
	s.mu.Unlock()

	w.Header().Set("Content-Type", as.kind)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	out := http.NewResponseController(w)
	send := func(messages ...Message) bool {
		for _, m := range messages {
			if as.write(w, m) != nil {
				return false
			}
		}
		return out.Flush() == nil
	}
	if poll {
		send(cached...)
		return
	}
	if !send(s.event("open", name)) || !send(cached...) {
		return
	}
	keepalive := time.NewTicker(s.cfg.Keepalive)
	defer keepalive.Stop()
	for {
		s.mu.Lock()
		bell := t.bell
		fresh, next := t.from(seq)
		s.mu.Unlock()
		seq = next
		if len(fresh) > 0 && !send(fresh...) {
			return
		}
		select {
		case <-bell:
		case <-keepalive.C:
			if !send(s.event("keepalive", name)) {
				return
			}
		case <-r.Context().Done():
			return
		case <-s.done:
			return
		}
	}
}

// enter counts a subscriber.
func (s *Server) enter() (release func(), p *problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subscribers >= s.cfg.Subscribers {
		return nil, bad(42903, "limit reached: too many active subscriptions")
	}
	s.subscribers++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.subscribers--
	}, nil
}

func (s *Server) event(kind, topic string) Message {
	return Message{ID: newID(), Time: s.cfg.Now().Unix(), Event: kind, Topic: topic}
}
