package webhooks_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nod"
	"nod/webhooks"
)

// history is what GitHub remembers.
type history struct {
	mu       sync.Mutex
	past     []webhooks.Past // newest first
	payloads map[int64][]byte
	since    []time.Time // of each look
	fetched  []int64
	err      error
}

func (h *history) add(id int64, guid, event string, at time.Time, payload []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.past = slices.Insert(h.past, 0, webhooks.Past{ID: id, GUID: guid, Event: event, At: at})
	if h.payloads == nil {
		h.payloads = map[int64][]byte{}
	}
	if payload != nil {
		h.payloads[id] = payload
	}
}

func (h *history) Past(_ context.Context, since time.Time, limit int) ([]webhooks.Past, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.since = append(h.since, since)
	if h.err != nil {
		return nil, h.err
	}
	var out []webhooks.Past
	for _, p := range h.past {
		if !p.At.Before(since) && len(out) < limit {
			out = append(out, p)
		}
	}
	return out, nil
}

func (h *history) Payload(_ context.Context, id int64) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fetched = append(h.fetched, id)
	if h.payloads[id] == nil {
		return nil, nod.E(nod.NotFound, "gone", nil)
	}
	return h.payloads[id], nil
}

// fail makes every look fail with err.
func (h *history) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.err = err
}

// looks returns since when each look went.
func (h *history) looks() []time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.since)
}

// fail makes every write fail with err.
func (s *shelf) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// count returns how many rows there are.
func (s *shelf) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rows)
}

func (s *shelf) Mark(_ context.Context, name string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.marks[name], s.err
}

func (s *shelf) SetMark(_ context.Context, name, mark string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.marks == nil {
		s.marks = map[string]string{}
	}
	if s.err == nil {
		s.marks[name] = mark
	}
	return s.err
}

func (s *shelf) Known(_ context.Context, guids ...string) (map[string]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := map[string]bool{}
	for _, g := range guids {
		known[g] = s.seen["g"+g]
	}
	return known, nil
}

func poller(t *testing.T, h *history) (*webhooks.Poller, *webhooks.Receiver, *shelf, *bytes.Buffer) {
	t.Helper()
	rc, s, _ := receiver(t, func(c *webhooks.Config) { c.Now = time.Now })
	log := &bytes.Buffer{}
	p, err := webhooks.NewPoller(webhooks.PollerConfig{History: h, Known: s, Marks: s, Receiver: rc, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return p, rc, s, log
}

func id(n int) string { return fmt.Sprintf("%08d-1551-11f1-8000-0242ac120002", n) }

// R03: GitHub delivered while nobody listened, and does not try again.
func TestDeliveriesThatNeverArrivedAreFetchedOnceAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &history{}
		p, rc, s, log := poller(t, h)
		ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
		h.add(1, id(1), "issues", ago(80*time.Hour), payload(t, "issues.closed")) // beyond reach
		h.add(2, id(2), "issues", ago(50*time.Hour), payload(t, "issues.labeled"))
		h.add(3, id(3), "fork", ago(40*time.Hour), []byte(`{}`))
		h.add(4, id(4), "issue_comment", ago(30*time.Hour), payload(t, "issue_comment.created"))
		h.add(5, id(5), "issue_comment", ago(20*time.Hour), payload(t, "issue_comment.created.own"))
		h.add(6, id(2), "issues", ago(19*time.Hour), payload(t, "issues.labeled")) // redelivered
		h.add(7, id(7), "issues", ago(10*time.Hour), nil)                          // payload gone
		h.add(8, id(8), "issues", ago(9*time.Hour), []byte(`[]`))                  // nonsense
		h.add(9, id(9), "pull_request", ago(time.Hour), payload(t, "pull_request.closed"))
		send(rc, delivery(id(9), "pull_request", payload(t, "pull_request.closed"))) // this one did arrive

		n, err := p.Poll(t.Context())
		if err != nil || n != 2 {
			t.Fatalf("stored %d, %v", n, err)
		}
		var got []string
		for _, d := range s.rows {
			got = append(got, d.GUID)
		}
		if want := []string{id(9), id(2), id(4)}; !slices.Equal(got, want) {
			t.Errorf("stored %v, want %v", got, want)
		}
		if !strings.Contains(log.String(), "late_ms=") || strings.Count(log.String(), "delivery is lost") != 2 {
			t.Errorf("log: %s", log)
		}
		fetched := len(h.fetched)
		if n, err := p.Poll(t.Context()); n != 0 || err != nil || len(h.fetched) != fetched {
			t.Errorf("the second look stored %d and fetched %v, %v", n, h.fetched[fetched:], err)
		}
		if reach := time.Since(h.since[0]); reach != webhooks.DefaultReach {
			t.Errorf("the first look went back %v", reach)
		}
	})
}

func TestPollerLooksAgainAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &history{}
		h.fail(nod.E(nod.Unavailable, "GitHub is down", nil))
		p, _, s, _ := poller(t, h)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.Run(ctx) }()
		time.Sleep(30 * time.Minute)
		if looks := len(h.looks()); looks < 4 || looks > 8 {
			t.Errorf("%d looks in half an hour of failures", looks)
		}
		h.fail(nil)
		h.add(1, id(1), "issues", h.looks()[0].Add(time.Hour), payload(t, "issues.labeled"))
		time.Sleep(16 * time.Minute)
		if s.count() != 1 {
			t.Fatalf("%d rows", s.count())
		}
		// A store that fails loses nothing either.
		s.fail(nod.E(nod.Unavailable, "disk full", nil))
		h.add(2, id(2), "issues", time.Now(), payload(t, "issues.closed"))
		time.Sleep(5 * time.Minute)
		s.fail(nil)
		time.Sleep(20 * time.Minute)
		if s.count() != 2 {
			t.Fatalf("%d rows", s.count())
		}
		cancel()
		<-done
	})
}
