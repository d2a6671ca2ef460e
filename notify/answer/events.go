package answer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"nod"
)

const (
	heartbeat    = 15 * time.Second
	streamLife   = 30 * time.Minute // then the browser comes again
	writeTimeout = 10 * time.Second
)

// taskEvents is the live transcript: server-sent events whose id is the event's
// sequence number. It goes on after Last-Event-ID, or after the query's "after".
// It ends with the session, when the server closes, and after streamLife.
func (s *Server) taskEvents(w http.ResponseWriter, r *http.Request, session nod.Session) error {
	id := r.PathValue("id")
	if _, err := s.caseOf(r.Context(), id, session); err != nil {
		return err
	}
	last := r.Header.Get("Last-Event-ID")
	if last == "" {
		last = r.FormValue("after")
	}
	after, err := strconv.ParseInt(last, 10, 64)
	if last != "" && (err != nil || after < 0) {
		return nod.E(nod.Invalid, "the last event id is not a number", err)
	}
	if !s.live.take(session.TokenDigest) {
		return nod.E(nod.RateLimited, "too many pages are open", nil)
	}
	defer s.live.free(session.TokenDigest)
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), min(streamLife, session.ExpiresAt.Sub(s.now())))
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	out := stream{w: w, rc: http.NewResponseController(w)}
	if err := out.write("retry: 2000\n\n"); err != nil {
		return nil
	}
	defer func() {
		if err := out.rc.SetWriteDeadline(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
			s.log.Debug("write deadline stays", "err", err)
		}
	}()
	if err := s.follow(ctx, &out, id, after, session.TokenDigest); err != nil && ctx.Err() == nil {
		// The headers are gone: all that is left is to end the stream and log.
		s.log.Warn("event stream ended", "task", id, "err", err)
	}
	return nil
}

var errReaderGone = errors.New("reader is gone")

// follow writes events until ctx ends, the reader goes or the session ends.
func (s *Server) follow(ctx context.Context, out *stream, task string, after int64, session string) error {
	var position int64 // global id of the last event seen
	// The one before is read again, because only it tells where to wait from.
	for from := max(0, after-1); ; {
		events, err := s.streams.Events(ctx, task, from, 200)
		if err != nil {
			return err
		}
		for _, e := range events {
			position, from = max(position, e.ID), e.Seq
			if e.Seq <= after {
				continue
			}
			if err := out.event(entryOf(e)); err != nil {
				return errReaderGone
			}
			after = e.Seq
		}
		if len(events) == 200 {
			continue
		}
		from = after
		for {
			newest, err := s.waitFor(ctx, task, position)
			if err != nil {
				return err
			}
			if newest > position {
				position = newest
				break
			}
			if err := s.still(ctx, session); err != nil {
				return err
			}
			if err := out.write(": still here\n\n"); err != nil {
				return errReaderGone
			}
		}
		if err := s.still(ctx, session); err != nil {
			return err
		}
	}
}

// waitFor waits for an event after position, for one heartbeat at most, and returns
// the newest position it heard of.
func (s *Server) waitFor(ctx context.Context, task string, position int64) (int64, error) {
	beat, cancel := context.WithTimeout(ctx, heartbeat)
	defer cancel()
	events, err := s.streams.Wait(beat, task, position)
	if err != nil && ctx.Err() == nil && beat.Err() != nil {
		return position, nil
	}
	for _, e := range events {
		position = max(position, e.ID)
	}
	return position, err
}

type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func (s *stream) event(e entry) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return s.write(fmt.Sprintf("id: %d\ndata: %s\n\n", e.Seq, data))
}

// write writes within writeTimeout, so that a reader who stopped reading holds
// nothing for long.
func (s *stream) write(text string) error {
	if err := s.rc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if _, err := s.w.Write([]byte(text)); err != nil {
		return err
	}
	return s.rc.Flush()
}
