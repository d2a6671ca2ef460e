package answer

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"nod"
)

// feedKeeps is how many of its newest events a feed keeps at least for whoever is a
// little behind; who is further behind reads the store.
const feedKeeps = 256

// feed is what everyone who follows one stream of events shares: one wait on the
// store, and each event put into its bytes once. It runs while somebody follows.
type feed struct {
	users int // under feeds.mu
	end   context.CancelFunc
	ended chan struct{}

	mu     sync.Mutex
	recent []sent
	since  int64 // recent has every event after this one that is known
	turn   int64 // grows with each change
	more   chan struct{}
	err    error // why nothing will come any more
}

// sent is one event as browsers get it.
type sent struct {
	seq  int64
	line []byte
}

// feeds are the feeds of a server, by stream.
type feeds struct {
	mu sync.Mutex
	of map[string]*feed
}

// join returns the feed of a stream, which begins, when it is new, after the event
// with seq in the stream and id among all. Whoever joins must leave.
func (s *Server) join(stream string, seq, id int64) *feed {
	s.feeds.mu.Lock()
	defer s.feeds.mu.Unlock()
	f := s.feeds.of[stream]
	if f != nil {
		if _, _, err := f.changes(); err != nil {
			f = nil
		}
	}
	if f == nil {
		ctx, cancel := context.WithCancel(context.Background())
		f = &feed{end: cancel, ended: make(chan struct{}), since: seq, more: make(chan struct{})}
		s.feeds.of[stream] = f
		go f.run(ctx, s.streams, stream, id)
	}
	f.users++
	return f
}

// leave ends f, and waits for its end, when nobody else follows it.
func (s *Server) leave(stream string, f *feed) {
	s.feeds.mu.Lock()
	f.users--
	last := f.users == 0
	if last && s.feeds.of[stream] == f {
		delete(s.feeds.of, stream)
	}
	s.feeds.mu.Unlock()
	if last {
		f.end()
		<-f.ended
	}
}

// stir makes whoever follows a stream look again.
func (s *Server) stir(stream string) {
	s.feeds.mu.Lock()
	defer s.feeds.mu.Unlock()
	if f := s.feeds.of[stream]; f != nil {
		f.put(nil, nil)
	}
}

func (f *feed) run(ctx context.Context, from Streams, stream string, id int64) {
	defer close(f.ended)
	for {
		events, err := from.Wait(ctx, stream, id)
		lines := make([]sent, 0, len(events))
		for _, e := range events {
			var line []byte
			if line, err = lineOf(e); err != nil {
				break
			}
			id, lines = e.ID, append(lines, sent{e.Seq, line})
		}
		f.put(lines, err)
		if err != nil {
			return
		}
	}
}

// put adds lines and wakes everyone.
func (f *feed) put(lines []sent, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return
	}
	if f.recent = append(f.recent, lines...); len(f.recent) > 2*feedKeeps {
		gone := len(f.recent) - feedKeeps
		f.since = f.recent[gone-1].seq
		f.recent = append(make([]sent, 0, 2*feedKeeps), f.recent[gone:]...)
	}
	f.err = err
	f.turn++
	close(f.more)
	f.more = make(chan struct{})
}

// after returns the events after seq, and what is closed by the next change. ok is
// false when the feed does not reach that far back.
func (f *feed) after(seq int64) (lines []sent, more <-chan struct{}, ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := len(f.recent)
	for i > 0 && f.recent[i-1].seq > seq {
		i--
	}
	return f.recent[i:len(f.recent):len(f.recent)], f.more, seq >= f.since, f.err
}

// changes returns how often f has changed, what is closed by the next change, and why
// there will be none.
func (f *feed) changes() (turn int64, more <-chan struct{}, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.turn, f.more, f.err
}

// lineOf is an event as the event stream tells it.
func lineOf(e nod.Event) ([]byte, error) {
	data, err := json.Marshal(entryOf(e))
	if err != nil {
		return nil, nod.E(nod.Internal, "an event cannot be written as JSON", err)
	}
	return fmt.Appendf(nil, "id: %d\ndata: %s\n\n", e.Seq, data), nil
}
