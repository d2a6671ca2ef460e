package agent

import (
	"time"

	"nod"
)

// Limits are how long each part of a session may take. Zero means the default.
type Limits struct {
	// StartTimeout bounds the time until the session is open; a minute when 0.
	StartTimeout time.Duration
	// TurnTimeout bounds the time from the last message sent to the end of the
	// last turn, waiting for answers included; four hours when 0.
	TurnTimeout time.Duration
	// StopGrace bounds each orderly step of ending a session; 5 seconds when 0.
	StopGrace time.Duration
	// BackgroundGrace is how long a finished turn waits for commands that it left
	// running in the background; two minutes when 0.
	BackgroundGrace time.Duration
	// KillTimeout bounds the final kill; 15 seconds when 0.
	KillTimeout time.Duration
}

// linger is how long an idle process may take to begin the turn that follows a
// background task (20 ms were measured).
const linger = 2 * time.Second

// Fill puts in the defaults. A negative limit is Invalid.
func (l *Limits) Fill() error {
	for d, std := range map[*time.Duration]time.Duration{&l.StartTimeout: time.Minute, &l.TurnTimeout: 4 * time.Hour,
		&l.StopGrace: 5 * time.Second, &l.BackgroundGrace: 2 * time.Minute, &l.KillTimeout: 15 * time.Second} {
		if *d == 0 {
			*d = std
		}
		if *d < 0 {
			return nod.E(nod.Invalid, "a time limit of the agent is negative", nil)
		}
	}
	return nil
}
