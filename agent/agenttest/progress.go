package agenttest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"nod"
)

// errNoSession has the words by which the real program says it.
//
//lint:ignore ST1005 they are not ours
var errNoSession = errors.New("No conversation found with session ID")

// progress is what the scripted agent remembers of a session, in
// $HOME/.scripted/<session>.json.
type progress struct {
	Next int     `json:"next"` // of Steps; len(Steps) when all are done
	Cost float64 `json:"cost"` // of the session so far
}

// load reads the script, and the progress of the session to resume.
func (p *player) load(file, resume string) error {
	raw := []byte(os.Getenv(ScriptEnv))
	if file != "" {
		var err error
		if raw, err = os.ReadFile(file); err != nil {
			return fmt.Errorf("scripted agent: %w", err)
		}
	}
	var err error
	if p.script, err = Parse(raw); err != nil {
		return fmt.Errorf("scripted agent: %w", err)
	}
	p.session = resume
	if resume == "" {
		p.session = newID()
	} else if len(resume) < 8 || strings.ContainsAny(resume, "/\\.") {
		return fmt.Errorf("%w: %q", errNoSession, resume)
	}
	dir := filepath.Join(os.Getenv("HOME"), ".scripted")
	p.file = filepath.Join(dir, p.session+".json")
	if resume == "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("scripted agent: %w", err)
		}
		return p.save()
	}
	raw, err = os.ReadFile(p.file)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%w: %s", errNoSession, resume)
	}
	if err == nil {
		err = json.Unmarshal(raw, &p.done)
	}
	if err != nil || p.done.Next < 0 || p.done.Next > len(p.script.Steps) {
		return nod.E(nod.Invalid, "the session's progress does not fit the script", err)
	}
	return nil
}

// save writes the progress. A step counts as done before it runs: whether a step
// that was running when the process died has had effects is for others to find
// out, and it is not repeated.
func (p *player) save() error {
	raw, err := json.Marshal(p.done)
	if err != nil {
		return err
	}
	tmp := p.file + ".new"
	if err := os.WriteFile(tmp, raw, 0o600); err != nil {
		return fmt.Errorf("scripted agent: %w", err)
	}
	return os.Rename(tmp, p.file)
}
