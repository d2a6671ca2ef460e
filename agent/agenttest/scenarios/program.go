//go:build linux

package scenarios

import (
	"context"
	"io"
	"path/filepath"
	"sync"
	"time"

	"nod"
	"nod/agent"
	"nod/agent/agenttest/modelserver"
)

// Program is one agent program.
type Program struct {
	Variable string                   // of the environment: the path of the program on this machine
	Root     func(path string) string // the directory to show inside
	// Model starts the mock of its model API, with certificates for hosts.
	Model func(steps []Step, hosts ...string) (*modelserver.Server, error)
	// Adapter makes its adapter.
	Adapter func(o Options) (agent.Adapter, error)
	// File is the tool that writes a file, as it is asked about.
	File string
	// Resets says that a quota's end is told.
	Resets bool
	// WrongID turns an answer to a prompt into one that nobody waits for, Malformed
	// into one that is no answer; nil when the line answers no prompt.
	WrongID, Malformed func(line []byte) []byte
	// Plant is what a repository ("workspace/…") and an earlier session ("home/…")
	// could leave to be read: each program that runs says so by ran, each text holds
	// Planted, and each address is evil's.
	Plant func(ran func(what string) string, evil string) map[string]string
	// Key is what Adapter gives as the key of the model.
	Key string
	// Plans says that the program has a mode for plans that ends with an approval.
	Plans bool
	// Terminal is how a person runs the program in a terminal of the environment with
	// these settings. Nil when its prompts reach nobody but that person.
	Terminal func(ctx context.Context, ex nod.Executor, o Options, settings string) (nod.Command, error)
	// OwnBudget says that the program has a limit of its own and ends the turn there.
	OwnBudget bool
}

// Planted are words that must never reach the model.
const Planted = "PLANTED-WORDS"

// Options are what one scenario wants of an adapter.
type Options struct {
	Program string // its path inside
	URL     string // https address of the model's host
	CA      string // path inside of the authority to trust
	Limits  agent.Limits
	// SignedIn uses a login of a person, so that the model's quota is told.
	SignedIn bool
	// Budget, when set, is the program's own limit in US dollars.
	Budget float64
}

// Step is what the model says for one request.
type Step struct {
	Say        string
	Bash       []string // commands, at once
	Background string   // a command that the turn does not wait for
	Path, Text string   // a file to write
	Read       string   // a file to read, where the program has a tool for it
	Question   bool     // which colour? Blue or Red
	Plan       string   // a plan to approve, with what comes before it

	Status int       // an error answer
	Reset  time.Time // of a status 429 for a quota that is used up
	Sticky bool      // every later request too
	Cut    bool      // the connection is dropped in the middle
	Hang   bool      // nothing follows
}

// tap is an executor that sees what the session writes.
type tap struct {
	nod.Executor
	edit func(line []byte) [][]byte

	mu    sync.Mutex
	stdin io.WriteCloser
}

func (p *tap) Exec(ctx context.Context, c nod.Command) (nod.Process, error) {
	proc, err := p.Executor.Exec(ctx, c)
	if err != nil || filepath.Base(c.Argv[0]) == "sh" {
		return proc, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stdin = proc.Stdin()
	return tapped{proc, p}, nil
}

// cut ends the program's input behind the session's back.
func (p *tap) cut() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stdin.Close()
}

type tapped struct {
	nod.Process
	tap *tap
}

func (p tapped) Stdin() io.WriteCloser { return p }
func (p tapped) Close() error          { return p.Process.Stdin().Close() }

// Write gets whole lines: that is how sessions write.
func (p tapped) Write(line []byte) (int, error) {
	lines := [][]byte{line}
	if p.tap.edit != nil {
		lines = p.tap.edit(line)
	}
	for _, l := range lines {
		if _, err := p.Process.Stdin().Write(l); err != nil {
			return 0, err
		}
	}
	return len(line), nil
}
