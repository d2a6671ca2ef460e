package nod

import (
	"fmt"
	"time"
)

// RunState is where one execution of an agent stands.
type RunState string

const (
	RunStarting    RunState = "starting"
	RunRunning     RunState = "running"
	RunPaused      RunState = "paused"
	RunInterrupted RunState = "interrupted" // the process is gone and nobody asked for that
	RunStopped     RunState = "stopped"     // ended as it should
	RunFailed      RunState = "failed"
)

// RunEvent moves a run.
type RunEvent string

const (
	RunReady     RunEvent = "ready" // the agent's session is open
	RunPause     RunEvent = "pause"
	RunContinue  RunEvent = "continue" // the same process goes on; cooperative pause only
	RunRestart   RunEvent = "restart"  // a new process resumes the session
	RunInterrupt RunEvent = "interrupt"
	RunStop      RunEvent = "stop"
	RunFail      RunEvent = "fail"
)

// RunMachine is every transition of a run. Two of them hold for a cooperative
// pause only; Run.On guards those.
var RunMachine = Machine[RunState, RunEvent]{
	Noun: "run", Start: RunStarting,
	Table: map[RunState]map[RunEvent]RunState{
		RunStarting:    {RunReady: RunRunning, RunStop: RunStopped, RunFail: RunFailed, RunInterrupt: RunInterrupted},
		RunRunning:     {RunPause: RunPaused, RunStop: RunStopped, RunFail: RunFailed, RunInterrupt: RunInterrupted},
		RunPaused:      {RunRestart: RunStarting, RunContinue: RunRunning, RunStop: RunStopped, RunInterrupt: RunInterrupted},
		RunInterrupted: {RunRestart: RunStarting, RunStop: RunStopped, RunFail: RunFailed},
	},
}

// Run is one execution of an agent for a task. Terminal runs are never reused.
type Run struct {
	ID          string    `json:"id"`
	Version     int64     `json:"version"`
	Task        string    `json:"task"`
	Number      int       `json:"number"` // 1, 2, … within the task
	Environment string    `json:"environment"`
	Agent       string    `json:"agent"`
	State       RunState  `json:"state"`
	Cooperative bool      `json:"cooperative"`      // the pause was a promise of a live process
	Session     string    `json:"session"`          // the agent's own session id, to resume by
	Attempt     int       `json:"attempt"`          // processes started for it
	Prompt      string    `json:"prompt"`           // digest of the blob with its first message
	Reason      string    `json:"reason,omitempty"` // how it ended: the agent's last words, or what went wrong; untrusted
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
}

// On applies event on, or returns a Conflict error and leaves r unchanged.
func (r *Run) On(on RunEvent) error {
	to, err := RunMachine.Next(r.State, on)
	if err != nil {
		return err
	}
	if r.State == RunPaused && (on == RunContinue || on == RunInterrupt) && !r.Cooperative {
		return &Error{Code: Conflict, Msg: fmt.Sprintf("a run whose process was ended by its pause cannot %q", on)}
	}
	r.State = to
	return nil
}

// Done reports whether nothing can happen to r any more.
func (r Run) Done() bool { return RunMachine.Terminal(r.State) }

// Live reports whether an agent process should exist for r.
func (r Run) Live() bool {
	return r.State == RunStarting || r.State == RunRunning || r.State == RunPaused && r.Cooperative
}
