package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"nod"
)

// ending is why a session ends.
type ending string

const (
	orderly  ending = "orderly" // its turn is done and nothing is queued
	stopped  ending = "stopped" // by Stop
	timedOut ending = "timeout" // a turn outlasted its limit
	broken   ending = "broken"  // see State.broken
	lost     ending = "lost"    // the program's output ended
)

// conduct owns the session's life: it waits until it is to end, ends it step by
// step, each step within a limit, and proves that no process is left.
func (l *Live) conduct() {
	why := l.live()
	l.mu.Lock()
	l.state.ending = true
	l.mu.Unlock()
	l.Void(nil)
	l.cancel()
	if why == stopped || why == timedOut {
		l.settle(l.dialect.Interrupt())
	}
	l.once.shut.Do(func() { close(l.shut) })
	exit, exited := l.leave(why)
	err := l.kill(exited)
	l.conclude(why, exit, exited, err)
}

// live returns when the session is to end, and why.
func (l *Live) live() ending {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		why, wait := l.due(now())
		if why != "" {
			return why
		}
		timer.Reset(wait)
		select {
		case <-l.wake:
		case <-timer.C:
		case <-l.stopping:
			return stopped
		case <-l.eof:
			l.mu.Lock()
			defer l.mu.Unlock()
			switch {
			case l.state.broken != nil:
				return broken
			case l.state.Idle && len(l.state.Unanswered) == 0:
				return orderly
			}
			return lost
		}
	}
}

// due says whether the session is to end at t, or how long it may go on as it is.
func (l *Live) due(t time.Time) (ending, time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.broken != nil {
		return broken, 0
	}
	at, why := l.state.Turn.Add(l.limits.TurnTimeout), timedOut
	switch {
	case !l.state.Open:
		at, why = l.started.Add(l.limits.StartTimeout), broken
	case l.state.Idle && len(l.state.Unanswered) == 0 && l.state.Background > 0:
		at, why = l.state.Since.Add(l.limits.BackgroundGrace), orderly
	case l.state.Idle && len(l.state.Unanswered) == 0 && l.state.Lingers:
		at, why = l.state.Since.Add(linger), orderly
	case l.state.Idle && len(l.state.Unanswered) == 0:
		at, why = t, orderly
	}
	if wait := at.Sub(t); wait > 0 {
		return "", wait
	}
	if why == broken {
		l.state.broken = nod.E(nod.Unavailable, "the agent did not open a session in time", nil)
	}
	l.state.ending = true // under the same lock: a message is taken before this or refused after it
	return why, 0
}

// settle sends the interrupt and waits for the turn to end.
func (l *Live) settle(interrupt []byte) {
	limit := time.NewTimer(l.limits.StopGrace)
	defer limit.Stop()
	if interrupt != nil {
		select {
		case l.out <- queued{line: interrupt}:
		case <-l.unwritable:
			return
		case <-l.hurry:
			return
		case <-limit.C: // the program does not read: words will not end it
			return
		}
	}
	for !l.State().Idle {
		select {
		case <-l.wake:
		case <-l.eof:
			return
		case <-l.hurry:
			return
		case <-limit.C:
			return
		}
	}
}

// leave waits for the process to end by itself. exited is closed when it has,
// which may be later than the return.
func (l *Live) leave(why ending) (exit *nod.ExitStatus, exited chan struct{}) {
	exit, exited = &nod.ExitStatus{}, make(chan struct{})
	l.work.Go(func() {
		defer close(exited)
		<-l.eof
		status, err := l.proc.Wait()
		if err != nil {
			status = nod.ExitStatus{Code: -1}
		}
		*exit = status
		l.dialect.Over()
	})
	if why == broken {
		return exit, exited
	}
	limit := time.NewTimer(l.limits.StopGrace)
	defer limit.Stop()
	select {
	case <-exited:
	case <-l.hurry:
	case <-limit.C:
	}
	return exit, exited
}

// kill ends what is left and proves it: the program's own children may have made
// themselves independent of it. It then waits for everything that served the
// process.
func (l *Live) kill(exited <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), l.limits.KillTimeout)
	defer cancel()
	err := l.proc.Kill(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.work.Wait()
	}()
	limit := time.NewTimer(l.limits.StopGrace)
	defer limit.Stop()
	select {
	case <-ended: // the reader of Events has kept up
	case <-limit.C:
		l.abandon()
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
func (l *Live) conclude(why ending, exit *nod.ExitStatus, exited <-chan struct{}, killed error) {
	code := "unknown"
	select {
	case <-exited:
		code = fmt.Sprint(exit.Code)
	default:
	}
	said := l.tail.String()
	l.mu.Lock()
	midTurn := !l.state.Idle || len(l.state.Unanswered) > 0
	switch {
	case why == broken:
		l.state.Result = nod.Result{Reason: ReasonRefused, Text: nod.PublicMessage(l.state.broken)}
		l.state.Err = l.state.broken
	case why == timedOut:
		l.state.Result.OK, l.state.Result.Reason = false, ReasonTimeout
	case why == stopped && (midTurn || !l.state.Result.OK):
		l.state.Result.OK, l.state.Result.Reason = false, ReasonInterrupted
	case why == lost:
		l.state.Result = nod.Result{Reason: ReasonNoResult}
		l.state.Err = nod.E(nod.Unavailable, "the agent's process ended in the middle of its work (exit "+code+")", lastLine(said))
	}
	if killed != nil {
		l.state.Err, l.unproven = killed, killed // whatever else there is to say, this is worse
	}
	id := l.state.ID
	l.mu.Unlock()
	if why == lost && said != "" {
		l.Emit(nod.EventAgentError, nod.AgentError{Text: said})
	}
	l.abandon()
	l.release()
	l.emitMu.Lock()
	l.silent = true
	close(l.events)
	l.emitMu.Unlock()
	close(l.done)
	l.end()
	l.log.Info("agent ended", "agent", l.name, "session", id, "state", string(why), "exit", code, "err", l.state.Err)
}

// Stop interrupts the turn, waits for its result, ends the input, waits for the
// exit, and kills what is left. The first two waits are bounded by StopGrace each
// and cut short when ctx ends; the kill always happens. The error says that the
// environment must be treated as tainted.
func (l *Live) Stop(ctx context.Context) error {
	l.once.stop.Do(func() { close(l.stopping) })
	select {
	case <-l.done:
	case <-ctx.Done():
		l.once.hurry.Do(func() { close(l.hurry) })
		<-l.done
	}
	return l.unproven
}
