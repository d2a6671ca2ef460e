package agenttest

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Dispatch runs the scripted agent when args (os.Args) name its role, and reports
// whether it did. It ends the process itself when the agent's exit code is not 0.
func Dispatch(args []string) bool {
	if len(args) < 2 || args[1] != Role {
		return false
	}
	if code := playScript(args[2:], os.Stdin, os.Stdout, os.Stderr); code != 0 {
		os.Exit(code)
	}
	return true
}

// playScript is the scripted agent's whole life.
func playScript(args []string, in io.Reader, out, errs io.Writer) int {
	p := &player{out: out, in: make(chan input, 64), code: 0}
	file, resume := "", ""
	for i, a := range args {
		if v, ok := strings.CutPrefix(a, "--resume="); ok {
			resume = v
		}
		if v, ok := strings.CutPrefix(a, "--script="); ok {
			file = v
		}
		if a == "--script" && i+1 < len(args) {
			file = args[i+1]
		}
	}
	if err := p.load(file, resume); err != nil {
		fmt.Fprintln(errs, err)
		if errors.Is(err, errNoSession) {
			p.put(map[string]any{"type": "result", "subtype": "error_during_execution", "is_error": true, "num_turns": 0,
				"session_id": resume, "total_cost_usd": 0, "errors": []string{err.Error()}, "result_index": 0})
		}
		return 1
	}
	go p.listen(in)
	for {
		m, ok := <-p.in
		if !ok {
			return p.code
		}
		if m.Type == "user" {
			p.take(m)
			if exit := p.play(); exit != nil {
				return *exit
			}
			continue
		}
		p.control(m)
	}
}

// input is a line from the host.
type input struct {
	Type      string `json:"type"`
	RequestID string `json:"request_id"`
	UUID      string `json:"uuid"`
	Request   struct {
		Subtype string `json:"subtype"`
	} `json:"request"`
	Response struct {
		RequestID string          `json:"request_id"`
		Subtype   string          `json:"subtype"`
		Response  json.RawMessage `json:"response"`
	} `json:"response"`
	Message struct {
		Content string `json:"content"`
	} `json:"message"`
}

// player plays one script. Only listen runs beside it.
type player struct {
	out     io.Writer
	in      chan input // closed at the end of the input
	script  Script
	session string
	file    string // progress
	done    progress
	code    int

	messages []string           // uuids of the messages of this turn
	heard    []string           // texts that came while the turn ran
	told     int                // of those, the ones that no step has awaited
	answers  map[string]*answer // permission requests that wait
	calls    int
	results  int
	said     string
	closed   bool // the input has ended
}

func (p *player) listen(in io.Reader) {
	defer close(p.in)
	r := bufio.NewReaderSize(in, 1<<20)
	for {
		raw, err := r.ReadBytes('\n')
		if len(raw) > 0 {
			var m input
			if json.Unmarshal(raw, &m) != nil {
				fmt.Fprintln(os.Stderr, "scripted agent: a line that is not JSON")
				os.Exit(1) // as the program does that it stands for
			}
			p.in <- m
		}
		if err != nil {
			return
		}
	}
}

// put writes one line. When nobody reads any more the process ends by SIGPIPE.
func (p *player) put(v map[string]any) {
	raw, err := json.Marshal(v)
	if err != nil {
		raw = []byte(`{"type":"system","subtype":"marshal_error"}`)
	}
	_, _ = p.out.Write(append(raw, '\n'))
}

// control answers a control request; it reports whether it was an interrupt.
func (p *player) control(m input) bool {
	if m.Type != "control_request" {
		return false
	}
	body := map[string]any{"subtype": "success", "request_id": m.RequestID}
	switch m.Request.Subtype {
	case "initialize":
		body["response"] = map[string]any{"claude_code_version": scriptedVersion, "current_permission_mode": "default"}
	case "interrupt":
		for id := range p.answers {
			p.put(map[string]any{"type": "control_cancel_request", "request_id": id})
			delete(p.answers, id)
		}
		body["response"] = map[string]any{"still_queued": []string{}}
	default:
		body = map[string]any{"subtype": "error", "request_id": m.RequestID, "error": "unsupported"}
	}
	p.put(map[string]any{"type": "control_response", "response": body})
	return m.Request.Subtype == "interrupt"
}

// take takes a message into the turn.
func (p *player) take(m input) {
	if m.UUID != "" {
		p.messages = append(p.messages, m.UUID)
		p.put(map[string]any{"type": "command_lifecycle", "command_uuid": m.UUID, "state": "started", "session_id": p.session})
	}
}

func newID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
