package agent

import "time"

// hearingTime is how long Ask waits for an answer to be in the program's input. One
// that does not read holds nothing else up any longer.
const hearingTime = time.Second

// queued is a line for the program, or a mark that is closed once everything queued
// before it is written.
type queued struct {
	line    []byte
	written chan struct{}
}

// Send queues a line. When the program's input is gone there is nobody to tell:
// it has taken the loss as a refusal.
func (l *Live) Send(raw []byte) {
	select {
	case l.out <- queued{line: raw}:
	case <-l.unwritable:
	}
}

// heard returns when what is queued is in the program's input, can get there no more,
// or takes too long.
func (l *Live) heard() {
	limit := time.NewTimer(hearingTime)
	defer limit.Stop()
	mark := queued{written: make(chan struct{})}
	select {
	case l.out <- mark:
	case <-l.unwritable:
		return
	case <-limit.C:
		return
	}
	select {
	case <-mark.written:
	case <-l.unwritable:
	case <-limit.C:
	}
}

// write is the only writer of the program's input. It ends it when shut is closed
// and everything queued is written.
func (l *Live) write() {
	defer close(l.unwritable)
	in := l.proc.Stdin()
	defer func() { _ = in.Close() }() // the process is gone or told to go; nothing depends on it
	for {
		var next queued
		select {
		case next = <-l.out:
		default:
			select {
			case next = <-l.out:
			case <-l.shut:
				return
			}
		}
		if next.written != nil {
			close(next.written)
		} else if _, err := in.Write(next.line); err != nil {
			return
		}
	}
}
