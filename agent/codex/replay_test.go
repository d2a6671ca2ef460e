package codex

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"nod"
	"nod/agent/agenttest/golden"
)

// Each testdata/recordings/*.txt is one process of the real program, 0.171.0, with
// what it wrote ("< ") and what it was told ("> "); the file beside it is what that
// means. The session is told the same at the same place: messages, the answers to
// prompts, and a stop where the recording has an interrupt. What it asks for and
// the recording did not is answered as by a program that is set up as required.
func TestRecordingsBecomeEvents(t *testing.T) {
	golden.Each(t, "testdata/recordings/*.txt", 20, *update, replay)
}

// recording is one that is played to a session.
type recording struct {
	f        *fake
	recorded map[string]bool // methods that it has answers for
	code     int
	session  chan *session
	answers  map[string]chan nod.ApprovalAnswer // by the id of the prompt

	mu    sync.Mutex
	asked map[string][]string // ids of the session's requests that are open, by method
}

// hostLine is what the replay reads of a line that the program was told.
type hostLine struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Thread string `json:"threadId"`
		Input  []struct{ Text string }
	}
	Result struct {
		Decision string
		Answers  map[string]struct{ Answers []string }
	}
}

// replay plays a recording and renders the events and the result, one a line.
func replay(t *testing.T, text string) []byte {
	lines := strings.Split(text, "\n")
	var out []byte
	synctest.Test(t, func(t *testing.T) {
		r := &recording{f: newFake(t), recorded: map[string]bool{}, session: make(chan *session, 1), answers: map[string]chan nod.ApprovalAnswer{}, asked: map[string][]string{}}
		r.f.silent.Store(true)
		var messages []string
		resumes := ""
		for _, raw := range lines {
			switch what, rest, _ := strings.Cut(raw, " "); what {
			case "#":
				if _, value, _ := strings.Cut(rest, " "); value != "" {
					code, err := strconv.Atoi(value)
					if err != nil {
						t.Fatal(err)
					}
					r.code = code
				}
			case ">":
				var l hostLine
				if !decode([]byte(rest), &l) {
					continue // recorded on purpose
				}
				switch l.Method {
				case "":
					r.answers[string(l.ID)] = make(chan nod.ApprovalAnswer, 8)
				case "turn/start":
					if len(l.Params.Input) > 0 {
						messages = append(messages, l.Params.Input[0].Text)
					}
				case "thread/resume":
					resumes = l.Params.Thread
				}
				r.recorded[l.Method] = true
			}
		}
		a, err := New(config(nil))
		if err != nil {
			t.Fatal(err)
		}
		go r.listen()
		go r.play(t, lines)
		s, err := a.Start(t.Context(), r.f, nod.AgentSpec{Prompt: "Go.", Session: resumes, Approve: r.approve})
		if err != nil {
			r.session <- nil
			out = golden.Failure(err)
			return
		}
		for _, m := range messages[min(1, len(messages)):] { // all at once, so that the session does not end before the last
			if err := s.Instruct(t.Context(), m); err != nil {
				t.Error(err)
			}
		}
		r.session <- s.(*session)
		out = golden.Session(t, drain(s), s)
	})
	return out
}

// approve answers a prompt when and as the recording does.
func (r *recording) approve(ctx context.Context, q nod.ApprovalRequest) nod.ApprovalAnswer {
	select {
	case a := <-r.answers[q.ID]: // nil where it was never answered
		return a
	case <-ctx.Done():
		return nod.ApprovalAnswer{}
	}
}

// listen notes what the session asks its program for.
func (r *recording) listen() {
	for raw := range r.f.heard {
		var l line
		if !decode([]byte(raw), &l) || l.Method == "" || !l.hasID() {
			continue
		}
		if result := greeting()[l.Method]; !r.recorded[l.Method] && result != "" {
			r.f.say(fmt.Sprintf(`{"id":%s,"result":%s}`, l.ID, result))
			continue
		}
		r.mu.Lock()
		r.asked[l.Method] = append(r.asked[l.Method], string(l.ID))
		r.mu.Unlock()
	}
}

// play is the program's part, and whoever told it something.
func (r *recording) play(t *testing.T, lines []string) {
	var s *session
	ours := map[string]string{} // the session's id of a request, by the recorded one
	for _, raw := range lines {
		synctest.Wait() // everything that follows from the line before has happened
		what, rest, _ := strings.Cut(raw, " ")
		switch what {
		case ">":
			var l hostLine
			switch {
			case !decode([]byte(rest), &l):
			case l.Method == "":
				a := nod.ApprovalAnswer{Allow: strings.HasPrefix(l.Result.Decision, accept) || len(l.Result.Answers) > 0, Answers: map[string]string{}}
				for id, said := range maps.All(l.Result.Answers) {
					a.Answers[id] = strings.Join(said.Answers, ", ")
				}
				r.answers[string(l.ID)] <- a
			default:
				if l.Method == "turn/interrupt" {
					if s == nil {
						s = <-r.session
					}
					go func() {
						if err := s.Stop(t.Context()); err != nil {
							t.Error(err)
						}
					}()
					synctest.Wait()
				}
				r.mu.Lock()
				if open := r.asked[l.Method]; len(open) > 0 {
					ours[string(l.ID)], r.asked[l.Method] = open[0], open[1:]
				}
				r.mu.Unlock()
			}
		case "<":
			var l line
			if decode([]byte(rest), &l) && l.Method == "" && l.hasID() {
				id, ok := ours[string(l.ID)]
				if !ok {
					continue // to a request that the session does not make
				}
				rest = strings.Replace(rest, `"id":`+string(l.ID), `"id":`+id, 1)
				if l.Error != nil { // whose id is the last member
					i := strings.LastIndex(rest, `"id":`)
					rest = rest[:i] + `"id":` + id + "}"
				}
			}
			r.f.say(rest)
		}
	}
	synctest.Wait()
	r.f.exit(r.code)
}
