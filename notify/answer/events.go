package answer

import (
	"context"
	"errors"
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
	if err := out.write(begins); err != nil {
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

// follow writes events until ctx ends, the reader goes or the session ends. It looks
// at the session again whenever one may have ended: when the supervisor's events tell
// of something, when somebody signs out here, when it may be idle, at each heartbeat.
func (s *Server) follow(ctx context.Context, out *stream, task string, after int64, session string) error {
	seq, id, err := s.catchUp(ctx, out, task, &after)
	if err != nil {
		return err
	}
	events, doors := s.join(task, seq, id), s.join(nod.SupervisorStream, 0, id)
	defer s.leave(task, events)
	defer s.leave(nod.SupervisorStream, doors)
	beat := time.NewTimer(heartbeat)
	defer beat.Stop()
	var until time.Time
	for known := int64(-1); ; {
		turn, ended, err := doors.changes()
		if err != nil {
			return err
		}
		lines, more, reaches, over := events.after(after)
		if turn != known || len(lines) > 0 && !s.now().Before(until) {
			if until, err = s.until(ctx, session); err != nil {
				return err
			}
			known = turn
		}
		switch {
		case !reaches:
			if _, _, err := s.catchUp(ctx, out, task, &after); err != nil {
				return err
			}
			continue
		case len(lines) > 0:
			if err := out.write(lines...); err != nil {
				return errReaderGone
			}
			after = lines[len(lines)-1].seq
			beat.Reset(heartbeat)
			continue
		case over != nil:
			return over
		}
		select {
		case <-more:
		case <-ended:
		case <-beat.C:
			if until, err = s.until(ctx, session); err != nil {
				return err
			}
			if err := out.write(stillHere); err != nil {
				return errReaderGone
			}
			beat.Reset(heartbeat)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// catchUp writes what the store has after *after, which it moves on, and returns the
// place of the newest event.
func (s *Server) catchUp(ctx context.Context, out *stream, task string, after *int64) (seq, id int64, err error) {
	const page = 200
	// The one before is read again, because only it tells where to wait from.
	for from := max(0, *after-1); ; {
		events, err := s.streams.Events(ctx, task, from, page)
		if err != nil {
			return 0, 0, err
		}
		var lines []sent
		for _, e := range events {
			if seq, id, from = e.Seq, e.ID, e.Seq; e.Seq <= *after {
				continue
			}
			line, err := lineOf(e)
			if err != nil {
				return 0, 0, err
			}
			lines = append(lines, sent{e.Seq, line})
			*after = e.Seq
		}
		if len(lines) > 0 && out.write(lines...) != nil {
			return 0, 0, errReaderGone
		}
		switch {
		case seq == 0 && from > 0: // the browser knows of more than there is
			from = 0
		case len(events) < page:
			return seq, id, nil
		}
	}
}

type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

var (
	begins    = sent{line: []byte("retry: 2000\n\n")}
	stillHere = sent{line: []byte(": still here\n\n")}
)

// write writes within writeTimeout, so that a reader who stopped reading holds
// nothing for long.
func (s *stream) write(lines ...sent) error {
	if err := s.rc.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	for _, l := range lines {
		if _, err := s.w.Write(l.line); err != nil {
			return err
		}
	}
	return s.rc.Flush()
}
