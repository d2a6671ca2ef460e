package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"nod"
)

const (
	eventsAhead = 64       // events that wait for the reader of Events
	linesAhead  = 32       // lines that wait for the program to read them
	stderrTail  = 64 << 10 // bytes of stderr kept for the reason of an end
)

// Dialect is what one program speaks over a Live.
type Dialect interface {
	// Line handles one line that begins with a brace, on the reader's goroutine.
	// False means that it is no JSON object.
	Line(raw []byte) bool
	// Interrupt is called once, when a turn is to end early, and returns the line
	// that says so, if there is one.
	Interrupt() []byte
	// Over is called once, when the process and its output have ended and Events
	// still takes events.
	Over()
}

// State is where a session stands. A Dialect changes it inside Change.
type State struct {
	ID         string          // the agent's own session id
	Open       bool            // the handshake is done
	Unanswered map[string]bool // messages sent that no turn has taken up and ended
	Idle       bool            // between turns
	Since      time.Time       // of Idle, or of the last background change
	Background int             // commands running in the background
	Lingers    bool            // a background command's turn may still come
	Turn       time.Time       // when the last message was sent
	Result     nod.Result      // of the last turn
	Err        error           // at the end, what Wait says beside Result

	broken error // why the session cannot go on
	ending bool  // no message and no prompt is taken any more
}

// Live is one live agent process, whatever it speaks: its lines in and out, its
// events, the prompts that wait, and the order in which it ends. Four goroutines
// belong to it: conduct, which owns its life and waits for the others; a reader of
// its lines; a writer; a reader of its stderr. Each prompt that waits adds one.
type Live struct {
	name    string
	limits  Limits
	log     *slog.Logger
	approve nod.Approver
	dialect Dialect
	proc    nod.Process

	events     chan nod.Event
	gone       chan struct{} // closed when events no longer wait for a reader
	out        chan queued
	shut       chan struct{} // closed to end the program's input
	unwritable chan struct{} // closed when the writer has ended
	eof        chan struct{} // closed when the program's output ended
	wake       chan struct{} // conduct looks again
	stopping   chan struct{} // closed by the first Stop
	hurry      chan struct{} // closed when a Stop may wait no longer
	done       chan struct{} // closed last

	ctx     context.Context // of the prompts; ended when nothing may be allowed any more
	cancel  context.CancelFunc
	ended   context.Context // ends with the session
	end     context.CancelFunc
	work    sync.WaitGroup
	once    struct{ shut, stop, hurry, gone sync.Once }
	emitMu  sync.Mutex
	held    []happened // not yet in events; under emitMu
	silent  bool       // Events is closed; under emitMu
	started time.Time

	mu       sync.Mutex
	state    State
	prompts  map[string]*prompt
	unproven error // the kill could not be proven
	tail     tail
}

// NewLive makes the session of a process that has just started; Launch runs it.
// name is the adapter's. approve may be nil only when nothing is ever asked.
func NewLive(name string, limits Limits, log *slog.Logger, approve nod.Approver, proc nod.Process, d Dialect) *Live {
	l := &Live{name: name, limits: limits, log: log, approve: approve, dialect: d, proc: proc, started: now(),
		events: make(chan nod.Event, eventsAhead), out: make(chan queued, linesAhead), wake: make(chan struct{}, 1),
		state: State{Turn: now(), Unanswered: map[string]bool{}}, prompts: map[string]*prompt{}, tail: tail{max: stderrTail}}
	for _, c := range []*chan struct{}{&l.gone, &l.shut, &l.unwritable, &l.eof, &l.stopping, &l.hurry, &l.done} {
		*c = make(chan struct{})
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.ended, l.end = context.WithCancel(context.Background())
	return l
}

// Launch starts c through ex, runs the session that begin makes of it, and opens
// it by open. ctx bounds the start only. When it fails no process is left, or the
// error says so.
func Launch(ctx context.Context, ex nod.Executor, c nod.Command, begin func(nod.Process) *Live, open func(context.Context) error) error {
	// What it starts lives on when the caller ends ctx.
	alive, cancel := context.WithCancel(context.WithoutCancel(ctx))
	detach := context.AfterFunc(ctx, cancel)
	defer detach()
	proc, err := ex.Exec(alive, c)
	if err != nil {
		cancel()
		return nod.E(nod.Unavailable, "the agent's program could not be started", err)
	}
	l := begin(proc)
	context.AfterFunc(l.ended, cancel)
	l.work.Go(l.read)
	l.work.Go(l.write)
	l.work.Go(func() { _, _ = io.Copy(&l.tail, l.proc.Stderr()) }) // an error is the end of it
	go l.conduct()
	if err := open(ctx); err != nil {
		l.abandon() // nobody reads the events of a session that did not open
		l.Fail(err)
		<-l.done
		if l.state.Err != nil {
			return l.state.Err
		}
		return err
	}
	return nil
}

// Until waits for a step of the handshake. The time limit is conduct's.
func (l *Live) Until(ctx context.Context, step <-chan struct{}) error {
	select {
	case <-step:
		return nil
	case <-l.done:
		return nod.E(nod.Unavailable, "the agent's program ended before its session was open", nil)
	case <-ctx.Done():
		return nod.E(nod.Unavailable, "the start of the agent was called off", context.Cause(ctx))
	}
}

// ID is known once the session is open.
func (l *Live) ID() string { return l.State().ID }

// Events is closed after the last event.
func (l *Live) Events() <-chan nod.Event { return l.events }

// Said reports whether the program has written words to its stderr, as far as that
// is kept.
func (l *Live) Said(words string) bool { return strings.Contains(l.tail.String(), words) }

// State is a copy; its map must not be used.
func (l *Live) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// Change changes the state, and has conduct look at it.
func (l *Live) Change(f func(s *State)) {
	l.mu.Lock()
	f(&l.state)
	l.mu.Unlock()
	l.look()
}

// Wait returns the result of the last turn. The error says that the process ended
// in the middle of a turn, broke its protocol, or cannot be proven to be gone.
func (l *Live) Wait() (nod.Result, error) {
	<-l.done
	return l.state.Result, l.state.Err
}

// Say sends a message under a key of the dialect's own: the session does not end
// in order before that key has left State.Unanswered. It is a Conflict once the
// session has begun to end.
func (l *Live) Say(ctx context.Context, key string, raw []byte) error {
	l.mu.Lock()
	if l.state.ending {
		l.mu.Unlock()
		return nod.E(nod.Conflict, "the agent's session is ending", nil)
	}
	l.state.Unanswered[key], l.state.Turn = true, now()
	l.mu.Unlock()
	l.look()
	var err error
	select {
	case l.out <- queued{line: raw}:
		return nil
	case <-l.unwritable:
		err = nod.E(nod.Unavailable, "the agent no longer reads", nil)
	case <-ctx.Done():
		err = nod.E(nod.Unavailable, "the message was called off", context.Cause(ctx))
	}
	l.Change(func(s *State) { delete(s.Unanswered, key) })
	return err
}

// read handles the program's lines until its output ends.
func (l *Live) read() {
	defer close(l.eof)
	in := NewLines(l.proc.Stdout())
	for {
		raw, err := in.Next()
		switch {
		case errors.Is(err, ErrLineTooLong):
			// It may have been a permission request, and the rest of the line is no
			// line: what the program waits for cannot be told any more.
			l.Emit(nod.EventAgentError, nod.AgentError{Text: "the agent wrote a line of more than 16 MiB"})
			l.Fail(nod.E(nod.TooLarge, "the agent wrote a line of more than 16 MiB", nil))
			_, _ = io.Copy(io.Discard, l.proc.Stdout()) // it must not block before it is killed
			return
		case err != nil:
			return
		case len(raw) == 0 || raw[0] != '{':
			continue // some builds print for people
		}
		if !l.dialect.Line(raw) {
			l.Emit(nod.EventAgentError, nod.AgentError{Text: "the agent wrote a line that is not JSON; it was skipped"})
		}
	}
}

// happened is an event that nobody was told of yet.
type happened struct {
	at   time.Time
	kind nod.EventKind
	data any
}

// Emit hands an event to the reader of Events, behind those that are held, and waits
// for it.
func (l *Live) Emit(kind nod.EventKind, data any) {
	l.hold(kind, data)
	l.release()
}

// hold puts an event before all later ones without waking anybody; release hands it on.
func (l *Live) hold(kind nod.EventKind, data any) {
	at := now()
	l.emitMu.Lock()
	defer l.emitMu.Unlock()
	l.held = append(l.held, happened{at, kind, data})
}

func (l *Live) release() {
	l.emitMu.Lock()
	defer l.emitMu.Unlock()
	for _, h := range l.held {
		if l.silent {
			break
		}
		e := nod.NewEvent("", nod.Transcript, h.kind, nod.Actor{Kind: nod.ActorAgent}, h.data)
		e.At = h.at
		select {
		case l.events <- e:
		case <-l.gone:
			select {
			case l.events <- e:
			default:
			}
		}
	}
	l.held = nil
}

// Fail ends the session without more words to the program.
func (l *Live) Fail(err error) {
	l.Change(func(s *State) {
		if s.broken == nil {
			s.broken = err
		}
	})
}

func (l *Live) look() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *Live) abandon() { l.once.gone.Do(func() { close(l.gone) }) }

func now() time.Time { return time.Now().UTC() }
