package ntfytest

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// Fault is what goes wrong with one publish.
type Fault struct {
	Status     int    // answer with this and keep nothing
	Code       int    // ntfy's error code in the body; 0 means Status and two zeros
	RetryAfter string // header of the answer
	Location   string // header of the answer
	Body       string // instead of ntfy's error body; with Status 200, instead of the message
	Hang       bool   // never answer: until the client goes or the server is closed
	Truncate   bool   // keep the message, and break the answer off in its middle
	Slow       bool   // keep the message, and answer as Hang does
}

// Fail makes the next publishes go wrong, one fault each, in this order.
func (s *Server) Fail(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, faults...)
}

func (s *Server) nextFault() Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.faults) == 0 {
		return Fault{}
	}
	f := s.faults[0]
	s.faults = s.faults[1:]
	return f
}

// before answers in the server's place when f says so.
func (f Fault) before(w http.ResponseWriter, r *http.Request, done <-chan struct{}) bool {
	if f.Hang {
		f.hang(w, r, done)
		return true
	}
	if f.Status == 0 {
		return false
	}
	for name, value := range map[string]string{"Retry-After": f.RetryAfter, "Location": f.Location, "Content-Type": "application/json"} {
		if value != "" {
			w.Header().Set(name, value)
		}
	}
	body := []byte(f.Body)
	if f.Body == "" {
		code := f.Code
		if code == 0 {
			code = f.Status * 100
		}
		body, _ = json.Marshal(problem{Code: code, HTTP: f.Status, Error: "injected fault"}) // three plain fields
	}
	w.WriteHeader(f.Status)
	_, _ = w.Write(body) // the client may have gone
	return true
}

// hang gives no answer at all, not even an empty one.
func (f Fault) hang(w http.ResponseWriter, r *http.Request, done <-chan struct{}) {
	select {
	case <-r.Context().Done():
	case <-done:
	}
	hangUp(w)
}

// truncate promises the whole answer and sends half of it.
func truncate(w http.ResponseWriter, m Message) {
	body, _ := json.Marshal(m) // it came from JSON or headers
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body[:len(body)/2])
	hangUp(w)
}

// hangUp closes the connection. What was written has reached it.
func hangUp(w http.ResponseWriter) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // HTTP/2 has no connection to take; net/http resets the stream
	}
	_ = buffered.Flush()
	_ = conn.Close()
}
