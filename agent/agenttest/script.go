package agenttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"nod"
)

const (
	scriptCap = 96 << 10 // bytes: one environment variable holds at most 128 KiB on Linux
	stepsCap  = 1000
)

// Script is what the scripted agent does.
type Script struct {
	// Steps are played for the first message of a session.
	Steps []Step `json:"steps"`
	// Resume is played for each later message that finds all Steps done. A session
	// resumed before that goes on with what is left of Steps.
	Resume []Step `json:"resume,omitempty"`
}

// Step is one thing the agent does: exactly one of its verbs.
type Step struct {
	Say      string `json:"say,omitempty"`      // text by the agent
	Bash     string `json:"bash,omitempty"`     // asks, then runs it with sh -c in the workspace
	Write    string `json:"write,omitempty"`    // asks, then writes Content to this path in the workspace
	Sleep    string `json:"sleep,omitempty"`    // waits: a Go duration
	Await    bool   `json:"await,omitempty"`    // waits for another message
	Fail     string `json:"fail,omitempty"`     // ends the turn with this error
	Line     string `json:"line,omitempty"`     // writes this line as it is
	Exit     *int   `json:"exit,omitempty"`     // ends the process in the middle of the turn
	Together []Step `json:"together,omitempty"` // bash and write steps that ask at the same time

	Content string `json:"content,omitempty"` // of Write
	Status  int    `json:"status,omitempty"`  // of Fail: the HTTP status a model API would have answered
	OnDeny  string `json:"on_deny,omitempty"` // of Bash and Write: "continue" (default), "stop" or "fail"
}

// Parse reads a script: one JSON object with no unknown keys.
func Parse(raw []byte) (Script, error) {
	var s Script
	if len(raw) > scriptCap {
		return s, nod.E(nod.TooLarge, fmt.Sprintf("the script is over %d KiB", scriptCap>>10), nil)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return s, nod.E(nod.Invalid, "the script is not valid: "+err.Error(), nil)
	}
	if _, err := dec.Token(); err != io.EOF {
		return s, nod.E(nod.Invalid, "the script is followed by something else", nil)
	}
	return s, s.Validate()
}

// Validate returns an Invalid error that names the first step that is wrong.
func (s Script) Validate() error {
	if len(s.Steps) == 0 {
		return nod.E(nod.Invalid, "the script has no steps", nil)
	}
	if len(s.Steps)+len(s.Resume) > stepsCap {
		return nod.E(nod.TooLarge, fmt.Sprintf("the script has over %d steps", stepsCap), nil)
	}
	for part, steps := range map[string][]Step{"steps": s.Steps, "resume": s.Resume} {
		for i, step := range steps {
			if err := step.validate(); err != nil {
				return nod.E(nod.Invalid, fmt.Sprintf("%s[%d]: %s", part, i, err), nil)
			}
		}
	}
	return nil
}

func (s Step) validate() error {
	verbs := s.verbs()
	if len(verbs) != 1 {
		return fmt.Errorf("has %d verbs %v, wants one of say, bash, write, sleep, await, fail, line, exit, together", len(verbs), verbs)
	}
	switch {
	case s.Content != "" && s.Write == "":
		return fmt.Errorf("content belongs to write")
	case s.Status != 0 && s.Fail == "":
		return fmt.Errorf("status belongs to fail")
	case s.Status != 0 && (s.Status < 400 || s.Status > 599):
		return fmt.Errorf("status %d is not an error", s.Status)
	case s.OnDeny != "" && s.Bash == "" && s.Write == "":
		return fmt.Errorf("on_deny belongs to bash and write")
	case s.OnDeny != "" && s.OnDeny != "continue" && s.OnDeny != "stop" && s.OnDeny != "fail":
		return fmt.Errorf("on_deny is %q, wants continue, stop or fail", s.OnDeny)
	case s.Write != "" && !filepath.IsLocal(s.Write):
		return fmt.Errorf("write wants a path inside the workspace, not %q", s.Write)
	case s.Exit != nil && (*s.Exit < 0 || *s.Exit > 125):
		return fmt.Errorf("exit wants 0 to 125")
	}
	if s.Sleep != "" {
		if d, err := time.ParseDuration(s.Sleep); err != nil || d < 0 {
			return fmt.Errorf("sleep wants a duration such as \"1s\", not %q", s.Sleep)
		}
	}
	for i, t := range s.Together {
		if t.Bash == "" && t.Write == "" {
			return fmt.Errorf("together[%d]: wants bash or write", i)
		}
		if err := t.validate(); err != nil {
			return fmt.Errorf("together[%d]: %w", i, err)
		}
	}
	return nil
}

func (s Step) verbs() []string {
	var out []string
	for _, v := range []struct {
		name string
		set  bool
	}{{"say", s.Say != ""}, {"bash", s.Bash != ""}, {"write", s.Write != ""}, {"sleep", s.Sleep != ""}, {"await", s.Await},
		{"fail", s.Fail != ""}, {"line", s.Line != ""}, {"exit", s.Exit != nil}, {"together", len(s.Together) > 0}} {
		if v.set {
			out = append(out, v.name)
		}
	}
	return out
}
