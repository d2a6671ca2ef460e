package claude

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"nod"
	"nod/agent"
)

// ending is why a session ends.
type ending string

const (
	orderly  ending = "orderly" // its turn is done and nothing is queued
	stopped  ending = "stopped" // by Stop
	timedOut ending = "timeout" // a turn outlasted its limit
	broken   ending = "broken"  // see session.broken
	lost     ending = "lost"    // the program's output ended
)

// conduct owns the session's life: it waits until it is to end, ends it step by
// step, each step within a limit, and proves that no process is left.
func (s *session) conduct() {
	why := s.live()
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	s.void(false)
	s.cancel()
	if why == stopped || why == timedOut {
		if raw, err := controlRequest(interruptID, map[string]any{"subtype": "interrupt"}); err == nil {
			s.settle(raw)
		}
	}
	s.once.shut.Do(func() { close(s.shut) })
	exit, exited := s.leave(why)
	err := s.kill(exited)
	s.conclude(why, exit, exited, err)
}

// live returns when the session is to end, and why.
func (s *session) live() ending {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		why, wait := s.due(now())
		if why != "" {
			return why
		}
		timer.Reset(wait)
		select {
		case <-s.wake:
		case <-timer.C:
		case <-s.stopping:
			return stopped
		case <-s.eof:
			s.mu.Lock()
			defer s.mu.Unlock()
			switch {
			case s.broken != nil:
				return broken
			case s.idle && len(s.unanswered) == 0:
				return orderly
			}
			return lost
		}
	}
}

// due says whether the session is to end at t, or how long it may go on as it is.
func (s *session) due(t time.Time) (ending, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return broken, 0
	}
	at, why := s.turn.Add(s.cfg.TurnTimeout), timedOut
	switch {
	case !s.isOpen:
		at, why = s.started.Add(s.cfg.StartTimeout), broken
	case s.idle && len(s.unanswered) == 0 && s.background > 0:
		at, why = s.since.Add(s.cfg.BackgroundGrace), orderly
	case s.idle && len(s.unanswered) == 0 && s.lingers:
		at, why = s.since.Add(linger), orderly
	case s.idle && len(s.unanswered) == 0:
		at, why = t, orderly
	}
	if wait := at.Sub(t); wait > 0 {
		return "", wait
	}
	if why == broken {
		s.broken = nod.E(nod.Unavailable, "the agent did not open a session in time", nil)
	}
	s.ending = true // under the same lock: a message is taken before this or refused after it
	return why, 0
}

// settle sends the interrupt and waits for the turn to end.
func (s *session) settle(interrupt []byte) {
	limit := time.NewTimer(s.cfg.StopGrace)
	defer limit.Stop()
	select {
	case s.out <- interrupt:
	case <-s.unwritable:
		return
	case <-s.hurry:
		return
	case <-limit.C: // the program does not read: words will not end it
		return
	}
	for {
		s.mu.Lock()
		idle := s.idle
		s.mu.Unlock()
		if idle {
			return
		}
		select {
		case <-s.wake:
		case <-s.eof:
			return
		case <-s.hurry:
			return
		case <-limit.C:
			return
		}
	}
}

// leave waits for the process to end by itself. exited is closed when it has,
// which may be later than the return.
func (s *session) leave(why ending) (exit *nod.ExitStatus, exited chan struct{}) {
	exit, exited = &nod.ExitStatus{}, make(chan struct{})
	s.work.Go(func() {
		defer close(exited)
		<-s.eof
		status, err := s.proc.Wait()
		if err != nil {
			status = nod.ExitStatus{Code: -1}
		}
		*exit = status
	})
	if why == broken {
		return exit, exited
	}
	limit := time.NewTimer(s.cfg.StopGrace)
	defer limit.Stop()
	select {
	case <-exited:
	case <-s.hurry:
	case <-limit.C:
	}
	return exit, exited
}

// kill ends what is left and proves it: the program's own children may have made
// themselves independent of it. It then waits for everything that served the
// process.
func (s *session) kill(exited <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.KillTimeout)
	defer cancel()
	err := s.proc.Kill(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.work.Wait()
	}()
	limit := time.NewTimer(s.cfg.StopGrace)
	defer limit.Stop()
	select {
	case <-ended: // the reader of Events has kept up
	case <-limit.C:
		s.abandon()
		select {
		case <-ended:
		case <-ctx.Done():
			err = errors.Join(err, errors.New("the process's streams did not end"))
		}
	}
	if err != nil {
		return nod.E(nod.Unavailable, "the agent cannot be proven to be gone", err)
	}
	return nil
}

// conclude writes down how it ended and closes Events.
func (s *session) conclude(why ending, exit *nod.ExitStatus, exited <-chan struct{}, killed error) {
	code := "unknown"
	select {
	case <-exited:
		code = fmt.Sprint(exit.Code)
	default:
	}
	said := s.tail.String()
	s.mu.Lock()
	midTurn := !s.idle || len(s.unanswered) > 0
	switch {
	case why == broken:
		s.result = nod.Result{Reason: agent.ReasonRefused, Text: nod.PublicMessage(s.broken)}
		s.err = s.broken
	case why == timedOut:
		s.result.OK, s.result.Reason = false, agent.ReasonTimeout
	case why == stopped && (midTurn || !s.result.OK):
		s.result.OK, s.result.Reason = false, agent.ReasonInterrupted
	case why == lost:
		s.result = nod.Result{Reason: agent.ReasonNoResult}
		s.err = nod.E(nod.Unavailable, "the agent's process ended in the middle of its work (exit "+code+")", lastLine(said))
	}
	if killed != nil {
		s.err, s.unproven = killed, killed // whatever else there is to say, this is worse
	}
	id := s.id
	s.mu.Unlock()
	if why == lost && said != "" {
		s.emit(nod.EventAgentError, nod.AgentError{Text: said})
	}
	s.abandon()
	s.emitMu.Lock()
	s.silent = true
	close(s.events)
	s.emitMu.Unlock()
	close(s.done)
	s.end()
	s.cfg.Log.Info("agent ended", "agent", s.cfg.Name, "session", id, "state", string(why), "exit", code, "err", s.err)
}

// lastLine is the last line of what the program wrote to stderr, for the log.
func lastLine(said string) error {
	if said == "" {
		return nil
	}
	return errors.New(clean(said[strings.LastIndexByte(said, '\n')+1:], 200))
}

// Stop interrupts the turn, waits for its result, ends the input, waits for the
// exit, and kills what is left. The first two waits are bounded by StopGrace each
// and cut short when ctx ends; the kill always happens. The error says that the
// environment must be treated as tainted.
func (s *session) Stop(ctx context.Context) error {
	s.once.stop.Do(func() { close(s.stopping) })
	select {
	case <-s.done:
	case <-ctx.Done():
		s.once.hurry.Do(func() { close(s.hurry) })
		<-s.done
	}
	return s.unproven
}
