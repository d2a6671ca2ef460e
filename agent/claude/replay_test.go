package claude

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"nod"
	"nod/agent/agenttest/golden"
)

// Each testdata/recordings/*.txt is one process of the real program, 2.1.332, with
// what it wrote ("< ") and what it was told ("> "); the file beside it is what that
// means. The session is told the same at the same place: messages, the answers to
// prompts, and a stop where the recording has an interrupt of a turn.
func TestRecordingsBecomeEvents(t *testing.T) {
	golden.Each(t, "testdata/recordings/*.txt", 30, *update, replay)
}

// recording is one that is played to a session.
type recording struct {
	f       *fake
	tools   []string // that the program says it has
	resumes string
	code    int

	session chan *session
	answers map[string]chan nod.ApprovalAnswer // by the id of the prompt
	uuids   chan string                        // of the messages, as they were told
	taken   []string                           // messages that no result has named
	running bool                               // a turn is under way
}

// hostLine is what the replay reads of a line that the program was told.
type hostLine struct {
	Type    string
	Message struct{ Content string }
	Request struct{ Subtype string }
	ID      string `json:"request_id"`
	Answer  struct {
		ID       string `json:"request_id"`
		Response struct {
			Behavior string
			Message  string
			Input    struct{ Answers map[string]string } `json:"updatedInput"`
		}
	} `json:"response"`
}

func read(t *testing.T, raw string) (l hostLine) {
	t.Helper()
	if err := json.Unmarshal([]byte(raw), &l); err != nil {
		t.Logf("%v: %s", err, raw) // recorded on purpose
	}
	return l
}

// replay plays a recording and renders the events and the result, one a line.
func replay(t *testing.T, text string) []byte {
	lines := strings.Split(text, "\n")
	var out []byte
	synctest.Test(t, func(t *testing.T) {
		r := &recording{f: newFake(t), session: make(chan *session, 1), answers: map[string]chan nod.ApprovalAnswer{}, uuids: make(chan string, 64)}
		var messages []string
		for _, raw := range lines {
			what, rest, _ := strings.Cut(raw, " ")
			switch {
			case what == "#":
				name, value, _ := strings.Cut(rest, " ")
				if name == "resume" {
					r.resumes = value
				} else if code, err := strconv.Atoi(value); err == nil {
					r.code = code
				}
			case what == ">":
				switch l := read(t, rest); l.Type {
				case "user":
					messages = append(messages, l.Message.Content)
				case "control_response":
					r.answers[l.Answer.ID] = make(chan nod.ApprovalAnswer, 8)
				}
			default:
				if l, ok := parse([]byte(rest)); ok && l.Subtype == "init" && l.Tools != nil {
					r.tools = append(r.tools, *l.Tools...)
				}
			}
		}
		a, err := New(config(func(c *Config) { c.Tools = append(r.tools, "Bash") }))
		if err != nil {
			t.Fatal(err)
		}
		go r.listen()
		go r.play(t, lines)
		s, err := a.Start(t.Context(), r.f, nod.AgentSpec{Prompt: "Go.", Session: r.resumes, Approve: r.approve})
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

// listen reads what the session says to its program.
func (r *recording) listen() {
	for raw := r.f.told(); raw != ""; raw = r.f.told() {
		if strings.Contains(raw, `"type":"user"`) {
			r.uuids <- uuidOf(raw)
		}
	}
}

// play is the program's part, and whoever told it something.
func (r *recording) play(t *testing.T, lines []string) {
	var s *session
	greeted := false
	for _, raw := range lines {
		synctest.Wait() // everything that follows from the line before has happened
		what, rest, _ := strings.Cut(raw, " ")
		switch what {
		case ">":
			l := read(t, rest)
			switch {
			case l.Type == "user":
				r.taken = append(r.taken, "")
			case l.Type == "control_response" && !greeted:
			case l.Type == "control_response":
				v := l.Answer.Response
				r.answers[l.Answer.ID] <- nod.ApprovalAnswer{Allow: v.Behavior == "allow", Reason: v.Message, Answers: v.Input.Answers}
			case l.Request.Subtype == "interrupt" && r.running:
				if s == nil {
					s = <-r.session
				}
				go func() {
					if err := s.Stop(t.Context()); err != nil {
						t.Error(err)
					}
				}()
			}
		case "<":
			l, ok := parse([]byte(rest))
			switch {
			case !ok:
			case l.Response != nil && l.Response.RequestID == "init-1" && !greeted:
				greeted = true
				rest = strings.Replace(rest, `"init-1"`, `"`+initializeID+`"`, 1)
			case l.Subtype == "init":
				r.running = true
			case l.Type == "result":
				r.running = false
				rest = r.name(l, rest)
			}
			r.f.say(rest)
		}
	}
	synctest.Wait()
	r.f.exit(r.code)
}

// name gives a result the names of the messages that it answers: the program says
// them where messages have names, as the session's do and the recorded ones did not.
func (r *recording) name(l line, raw string) string {
	if l.Origin != nil || len(r.taken) == 0 {
		return raw
	}
	var names []string
	for range r.taken {
		select {
		case uuid := <-r.uuids:
			names = append(names, uuid)
		default:
		}
	}
	r.taken = nil
	list, err := json.Marshal(names)
	if err != nil {
		panic(err) // it is made of strings
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(raw), &members); err != nil {
		panic(err) // it was parsed before
	}
	delete(members, "user_message_uuid")
	members["user_message_uuids"] = list
	out, err := json.Marshal(members)
	if err != nil {
		panic(err) // they were JSON before
	}
	return string(out)
}
