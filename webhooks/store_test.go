package webhooks_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"nod"
	"nod/store"
	"nod/webhooks"
)

// open opens the real store.
func open(t testing.TB) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Path: filepath.Join(t.TempDir(), "nod.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// post sends a delivery over a real connection.
func post(t testing.TB, server *httptest.Server, guid, event string, body []byte) int {
	t.Helper()
	from := delivery(guid, event, body)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = from.Header
	res, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode
}

// R01 and R02, with the real store behind a real listener: one label event, told
// many times at once under two GUIDs and by the poller, is worked on once.
func TestOneLabelEventIsLeasedOnce(t *testing.T) {
	s := open(t)
	rc, _, _ := receiver(t, func(c *webhooks.Config) { c.Accept, c.Log, c.Now = s, slog.New(slog.DiscardHandler), time.Now })
	server := httptest.NewServer(rc)
	defer server.Close()
	body := payload(t, "issues.labeled")
	var mu sync.Mutex
	codes := map[int]int{}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			code := 0
			if i%5 == 0 {
				o, err := rc.Take(t.Context(), id(i%2), "issues", body)
				if err != nil {
					t.Error(err)
				}
				code = map[webhooks.Outcome]int{webhooks.Accepted: http.StatusAccepted, webhooks.Duplicate: http.StatusOK}[o]
			} else {
				code = post(t, server, id(i%2), "issues", body)
			}
			mu.Lock()
			defer mu.Unlock()
			codes[code]++
		})
	}
	wg.Wait()
	if codes[http.StatusAccepted] != 1 || codes[http.StatusOK] != 19 {
		t.Errorf("answered %v", codes)
	}
	d, err := s.LeaseDelivery(t.Context(), time.Minute)
	if err != nil || !bytes.Equal(d.Payload, body) {
		t.Fatalf("%+v, %v", d, err)
	}
	if o, err := webhooks.Parser("github.com")(d); err != nil || o.Kind != nod.IssueLabeled || o.Issue != 12 {
		t.Errorf("%+v, %v", o, err)
	}
	if d, err := s.LeaseDelivery(t.Context(), time.Minute); nod.CodeOf(err) != nod.NotFound {
		t.Errorf("leased again: %+v, %v", d, err)
	}
}

// Deliveries of one issue are worked on in the order in which they arrived; other
// issues do not wait for them.
func TestDeliveriesOfOneIssueStayInOrder(t *testing.T) {
	s := open(t)
	rc, _, _ := receiver(t, func(c *webhooks.Config) { c.Accept, c.Now = s, time.Now })
	for i, name := range []string{"issues.labeled", "issues.unlabeled", "pull_request.closed"} {
		event, _, _ := strings.Cut(name, ".")
		if w := send(rc, delivery(id(i), event, payload(t, name))); w.Code != http.StatusAccepted {
			t.Fatalf("%s: answered %d", name, w.Code)
		}
	}
	var got []string
	for range 2 {
		d, err := s.LeaseDelivery(t.Context(), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, d.Action)
	}
	if fmt.Sprint(got) != "[labeled closed]" {
		t.Errorf("leased %v", got)
	}
	if d, err := s.LeaseDelivery(t.Context(), time.Minute); nod.CodeOf(err) != nod.NotFound {
		t.Errorf("overtook: %+v, %v", d, err)
	}
}

func TestPollerKnowsWhatTheStoreHas(t *testing.T) {
	s := open(t)
	rc, _, _ := receiver(t, func(c *webhooks.Config) { c.Accept, c.Now = s, time.Now })
	h := &history{}
	h.add(1, id(1), "issues", time.Now().Add(-2*time.Hour), payload(t, "issues.labeled"))
	h.add(2, id(2), "issues", time.Now().Add(-time.Hour), payload(t, "issues.closed"))
	send(rc, delivery(id(1), "issues", payload(t, "issues.labeled")))
	p, err := webhooks.NewPoller(webhooks.PollerConfig{History: h, Known: s, Marks: s, Receiver: rc, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := p.Poll(t.Context()); n != 1 || err != nil || fmt.Sprint(h.fetched) != "[2]" {
		t.Fatalf("stored %d, fetched %v, %v", n, h.fetched, err)
	}
}
