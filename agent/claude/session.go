package claude

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"nod"
)

const (
	eventsAhead = 64       // events that wait for the reader of Events
	linesAhead  = 32       // lines that wait for the program to read them
	stderrTail  = 64 << 10 // bytes of stderr kept for the reason of an end
)

// session is one live process. Four goroutines belong to it: conduct, which owns
// its life and waits for the others; a reader of its lines; a writer; a reader of
// its stderr. Each prompt that waits adds one.
type session struct {
	cfg  Config
	spec nod.AgentSpec
	proc nod.Process

	events      chan nod.Event
	gone        chan struct{} // closed when events no longer wait for a reader
	out         chan []byte
	shut        chan struct{} // closed to end the program's input
	unwritable  chan struct{} // closed when the writer has ended
	initialized chan struct{}
	opened      chan struct{}
	eof         chan struct{} // closed when the program's output ended
	wake        chan struct{} // conduct looks again
	stopping    chan struct{} // closed by the first Stop
	hurry       chan struct{} // closed when a Stop may wait no longer
	done        chan struct{} // closed last

	ctx     context.Context // of the prompts; ended when nothing may be allowed any more
	cancel  context.CancelFunc
	ended   context.Context // ends with the session
	end     context.CancelFunc
	work    sync.WaitGroup
	once    struct{ shut, stop, hurry, gone sync.Once }
	emitMu  sync.Mutex
	silent  bool // Events is closed; under emitMu
	started time.Time

	mu         sync.Mutex
	id         string
	isOpen     bool
	isInit     bool
	unanswered map[string]bool    // messages sent that no result has named
	prompts    map[string]*prompt // permission requests that wait
	idle       bool               // between turns
	since      time.Time          // of idle, or of the last background change
	background int                // commands running in the background
	lingers    bool               // a background command's turn may still come
	turn       time.Time          // when the last message was sent
	ending     bool               // no message and no prompt is taken any more
	apiError   string             // the program's name for the turn's last API error
	broken     error              // why the session cannot go on
	result     nod.Result
	err        error // final, read after done; unproven too
	unproven   error // the kill could not be proven
	tail       tail
}

func newSession(cfg Config, spec nod.AgentSpec, proc nod.Process) *session {
	s := &session{cfg: cfg, spec: spec, proc: proc, started: now(), turn: now(),
		events: make(chan nod.Event, eventsAhead), out: make(chan []byte, linesAhead), wake: make(chan struct{}, 1),
		unanswered: map[string]bool{}, prompts: map[string]*prompt{}, tail: tail{max: stderrTail}}
	for _, c := range []*chan struct{}{&s.gone, &s.shut, &s.unwritable, &s.initialized, &s.opened, &s.eof, &s.stopping, &s.hurry, &s.done} {
		*c = make(chan struct{})
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.ended, s.end = context.WithCancel(context.Background())
	return s
}

func (s *session) run() {
	s.work.Go(s.read)
	s.work.Go(s.write)
	s.work.Go(func() { _, _ = io.Copy(&s.tail, s.proc.Stderr()) }) // an error is the end of it
	go s.conduct()
}

// ID is known once Start has returned.
func (s *session) ID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

func (s *session) Events() <-chan nod.Event { return s.events }

// Wait returns the result of the last turn. The error says that the process ended
// in the middle of a turn, broke its protocol, or cannot be proven to be gone.
func (s *session) Wait() (nod.Result, error) {
	<-s.done
	return s.result, s.err
}

// Instruct sends another message. While a turn runs it is folded into it. It is a
// Conflict once the session has begun to end.
func (s *session) Instruct(ctx context.Context, text string) error {
	if text == "" {
		return nod.E(nod.Invalid, "the message is empty", nil)
	}
	return s.say(ctx, text)
}

func (s *session) say(ctx context.Context, text string) error {
	uuid := newUUID()
	raw, err := userMessage(uuid, text)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.ending {
		s.mu.Unlock()
		return nod.E(nod.Conflict, "the agent's session is ending", nil)
	}
	s.unanswered[uuid], s.turn = true, now()
	s.mu.Unlock()
	s.look()
	select {
	case s.out <- raw:
		return nil
	case <-s.unwritable:
		err = nod.E(nod.Unavailable, "the agent no longer reads", nil)
	case <-ctx.Done():
		err = nod.E(nod.Unavailable, "the message was called off", context.Cause(ctx))
	}
	s.mu.Lock()
	delete(s.unanswered, uuid)
	s.mu.Unlock()
	s.look()
	return err
}

// send queues a line. When the program's input is gone there is nobody to tell:
// it has taken the loss as a refusal.
func (s *session) send(raw []byte) {
	select {
	case s.out <- raw:
	case <-s.unwritable:
	}
}

// write is the only writer of the program's input. It ends it when shut is
// closed and everything queued is written.
func (s *session) write() {
	defer close(s.unwritable)
	in := s.proc.Stdin()
	defer func() { _ = in.Close() }() // the process is gone or told to go; nothing depends on it
	for {
		select {
		case raw := <-s.out:
			if _, err := in.Write(raw); err != nil {
				return
			}
			continue
		default:
		}
		select {
		case raw := <-s.out:
			if _, err := in.Write(raw); err != nil {
				return
			}
		case <-s.shut:
			return
		}
	}
}

// read handles the program's lines until its output ends.
func (s *session) read() {
	defer close(s.eof)
	in := newLines(s.proc.Stdout())
	for {
		raw, err := in.next()
		switch {
		case errors.Is(err, errLineTooLong):
			// It may have been a permission request, and the rest of the line is no
			// line: what the program waits for cannot be told any more.
			s.emit(nod.EventAgentError, nod.AgentError{Text: "the agent wrote a line of more than 16 MiB"})
			s.fail(nod.E(nod.TooLarge, "the agent wrote a line of more than 16 MiB", nil))
			_, _ = io.Copy(io.Discard, s.proc.Stdout()) // it must not block before it is killed
			return
		case err != nil:
			return
		case len(raw) == 0 || raw[0] != '{':
			continue // some builds print for people
		}
		l, ok := parse(raw)
		if !ok {
			s.emit(nod.EventAgentError, nod.AgentError{Text: "the agent wrote a line that is not JSON; it was skipped"})
			continue
		}
		s.handle(l)
	}
}

// emit hands an event to the reader of Events and waits for it.
func (s *session) emit(kind nod.EventKind, data any) {
	e := nod.NewEvent("", nod.Transcript, kind, nod.Actor{Kind: nod.ActorAgent}, data)
	e.At = now()
	s.emitMu.Lock()
	defer s.emitMu.Unlock()
	if s.silent {
		return
	}
	select {
	case s.events <- e:
	case <-s.gone:
		select {
		case s.events <- e:
		default:
		}
	}
}

// fail ends the session without more words to the program.
func (s *session) fail(err error) {
	s.mu.Lock()
	if s.broken == nil {
		s.broken = err
	}
	s.mu.Unlock()
	s.look()
}

func (s *session) look() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *session) abandon() { s.once.gone.Do(func() { close(s.gone) }) }

// tail keeps the last max bytes written to it.
type tail struct {
	mu  sync.Mutex
	max int
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if over := len(t.buf) - t.max; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}
