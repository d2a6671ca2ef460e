package answer_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"nod"
	"nod/notify/answer"
)

func newRecorder() *httptest.ResponseRecorder { return httptest.NewRecorder() }

// listen opens a task's event stream and returns its lines.
func (w *world) listen(path, cookie, last string) (*http.Response, *bufio.Scanner) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.url+path, nil)
	w.must(err)
	r.Header.Set("Cookie", cookie)
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	resp, err := (&http.Client{Transport: dial}).Do(r)
	w.must(err)
	w.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp, bufio.NewScanner(resp.Body)
}

type told struct {
	Seq  int64
	Text []struct {
		T, M string
	}
	What, Who string
}

func next(t *testing.T, s *bufio.Scanner) told {
	t.Helper()
	for s.Scan() {
		if data, ok := strings.CutPrefix(s.Text(), "data: "); ok {
			var e told
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatal(err)
			}
			return e
		}
	}
	t.Fatalf("the stream ended: %v", s.Err())
	return told{}
}

func say(w *world, task, text string) {
	w.store.commit(nod.NewEvent(task, nod.Transcript, nod.EventMessage, nod.Actor{Kind: nod.ActorAgent}, nod.Message{Text: text}))
}

func TestTheStreamGoesOnWhereTheBrowserWas(t *testing.T) {
	w := newWorld(t)
	cookie := w.cookieOf(w.owner())
	task := w.task("t00000000000000aa", "x").ID
	for _, text := range []string{"one", "two", "three"} {
		say(w, task, text)
	}
	say(w, "t00000000000000bb", "another task's")
	resp, stream := w.listen("/t/"+task+"/events?after=0", cookie, "1")
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Errorf("the type is %q", got)
	}
	for i, want := range []string{"two", "three"} {
		if e := next(t, stream); e.Seq != int64(i+2) || e.Text[0].T != want || e.Who != "agent" {
			t.Errorf("event %d is %+v", i, e)
		}
	}
	say(w, task, "fo\u202eur")
	e := next(t, stream)
	if e.Seq != 4 || len(e.Text) != 3 || e.Text[1].M != "U+202E" {
		t.Errorf("the live event is %+v", e)
	}
}

func TestTheStreamStartsAfterTheNewestWithoutRepeatingIt(t *testing.T) {
	w := newWorld(t)
	cookie := w.cookieOf(w.owner())
	task := w.task("t00000000000000aa", "x").ID
	say(w, task, "old")
	_, stream := w.listen("/t/"+task+"/events?after=1", cookie, "")
	say(w, task, "new")
	if e := next(t, stream); e.Seq != 2 {
		t.Errorf("the first event is %+v", e)
	}
}

func TestTheStreamEndsWithItsSession(t *testing.T) {
	w := newWorld(t)
	cookie := w.cookieOf(w.owner())
	task := w.task("t00000000000000aa", "x").ID
	_, stream := w.listen("/t/"+task+"/events", cookie, "")
	say(w, task, "one")
	next(t, stream)
	w.revokeAll()
	for stream.Scan() { // it ends though nothing else happens
	}
	if resp, _ := w.listen("/t/"+task+"/events", cookie, ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("opening it again is %s", resp.Status)
	}
}

func TestSigningADeviceOutEndsItsStreams(t *testing.T) {
	w := newWorld(t)
	owner := w.owner()
	lost := w.cookieOf(owner)
	task := w.task("t00000000000000aa", "x").ID
	_, streamOfLost := w.listen("/t/"+task+"/events", lost, "")
	w.must(owner.SignIn(t.Context()))
	_, stream := w.listen("/t/"+task+"/events", w.cookieOf(owner), "")
	say(w, task, "one")
	next(t, streamOfLost)
	next(t, stream)
	_, token, _ := strings.Cut(lost, "=")
	w.must(owner.Form(t.Context(), "/devices/signout", map[string]string{"session": nod.Digest([]byte(token))}))
	for streamOfLost.Scan() {
	}
	say(w, task, "two")
	if e := next(t, stream); e.Seq != 2 {
		t.Errorf("the other device's stream goes on with %+v", e)
	}
}

// A reader who is further behind than the shared feed reaches gets everything all the
// same, once and in order, while others follow.
func TestWhoIsFarBehindMissesNothing(t *testing.T) {
	w := newWorld(t)
	cookie := w.cookieOf(w.owner())
	task := w.task("t00000000000000aa", "x").ID
	say(w, task, "first")
	_, ahead := w.listen("/t/"+task+"/events?after=1", cookie, "")
	const events = 1500
	for i := range events {
		say(w, task, fmt.Sprint(i))
	}
	for i := range events {
		if e := next(t, ahead); e.Seq != int64(i+2) {
			t.Fatalf("event %d is %+v", i, e)
		}
	}
	var all sync.WaitGroup
	for _, after := range []int{0, 1, 700, events, events + 1, events + 500} {
		_, stream := w.listen(fmt.Sprintf("/t/%s/events?after=%d", task, after), cookie, "")
		all.Go(func() {
			for want := after + 1; want <= events+2 && stream.Scan(); {
				id, ok := strings.CutPrefix(stream.Text(), "id: ")
				if ok && id != strconv.Itoa(want) {
					t.Errorf("after %d: event %s, want %d", after, id, want)
				}
				if ok {
					want++
				}
			}
			if err := stream.Err(); err != nil {
				t.Errorf("after %d: %v", after, err)
			}
		})
	}
	say(w, task, "last")
	all.Wait()
	if e := next(t, ahead); e.Seq != events+2 {
		t.Errorf("the last event is %+v", e)
	}
}

func TestClosingTheServerEndsItsStreams(t *testing.T) {
	w := newWorld(t)
	cookie := w.cookieOf(w.owner())
	task := w.task("t00000000000000aa", "x").ID
	_, stream := w.listen("/t/"+task+"/events", cookie, "")
	say(w, task, "one")
	next(t, stream)
	w.server.Close()
	for stream.Scan() {
		if strings.HasPrefix(stream.Text(), "data:") {
			t.Errorf("after closing: %s", stream.Text())
		}
	}
}

func TestStreamsAreBounded(t *testing.T) {
	w := newWorld(t)
	owner := w.owner()
	task := w.task("t00000000000000aa", "x").ID
	say(w, task, "one")
	refused := func(why, cookie string) {
		t.Helper()
		if resp, _ := w.listen("/t/"+task+"/events", cookie, ""); resp.StatusCode != http.StatusTooManyRequests {
			t.Errorf("%s: %s", why, resp.Status)
		}
	}
	var cookie string
	for range 4 { // sessions
		w.must(owner.SignIn(t.Context()))
		cookie = w.cookieOf(owner)
		for range 8 {
			_, stream := w.listen("/t/"+task+"/events", cookie, "")
			next(t, stream)
		}
		refused("one more of a session", cookie)
	}
	w.must(owner.SignIn(t.Context()))
	refused("one more of all", w.cookieOf(owner))
	for _, bad := range []string{"x", "-1"} {
		if resp, _ := w.listen("/t/"+task+"/events", cookie, bad); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("id %s is %s", bad, resp.Status)
		}
	}
}

func TestTheSessionBoundsTheStream(t *testing.T) {
	w := newWorld(t)
	cookie := w.cookieOf(w.owner())
	task := w.task("t00000000000000aa", "x").ID
	w.pass(24*time.Hour - 50*time.Millisecond)
	_, stream := w.listen("/t/"+task+"/events", cookie, "")
	for stream.Scan() { // ends by itself
	}
}

// In a bubble time is free, so the handler is called without a socket.
func TestAQuietStreamBeatsAndEndsAfterItsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newFakeStore(time.Now)
		s, err := answer.New(answer.Config{Decisions: store, Witness: store, Streams: store, Passkeys: store, Sessions: store, PublicURL: "https://nod.example", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		token := strings.Repeat("t", 43)
		store.passkeys["k"] = nod.Passkey{ID: "k"}
		store.sessions[nod.Digest([]byte(token))] = nod.Session{TokenDigest: nod.Digest([]byte(token)), Passkey: "k", SeenAt: time.Now(), Idle: time.Hour, ExpiresAt: time.Now().Add(time.Hour)}
		store.cases["t1"] = nod.Case{Task: nod.Task{ID: "t1"}}
		store.commit(nod.NewEvent("t1", nod.Audit, nod.EventTaskCreated, nod.Supervisor(), nil))
		r := httptest.NewRequest(http.MethodGet, "https://nod.example/t/t1/events", nil)
		r.AddCookie(&http.Cookie{Name: "__Host-nod", Value: token})
		w := newRecorder()
		started := time.Now()
		s.ServeHTTP(w, r)
		if lived := time.Since(started); lived != 30*time.Minute {
			t.Errorf("the stream lived %v", lived)
		}
		body := w.Body.String()
		if beats := strings.Count(body, ": still here"); beats < 110 || beats > 120 || strings.Count(body, "\nid: ") != 1 {
			t.Errorf("%d beats:\n%s", beats, body[:200])
		}
	})
}
