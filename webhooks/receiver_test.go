package webhooks_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"nod"
	"nod/webhooks"
)

const (
	appID   = 1000
	botUser = 88
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// shelf is the table of deliveries, with its two unique columns.
type shelf struct {
	mu    sync.Mutex
	rows  []nod.Delivery
	seen  map[string]bool
	marks map[string]string
	err   error
}

func (s *shelf) AcceptDelivery(_ context.Context, d nod.Delivery) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return false, s.err
	}
	if s.seen == nil {
		s.seen = map[string]bool{}
	}
	if s.seen["g"+d.GUID] || s.seen["k"+d.SemanticKey] {
		return false, nil
	}
	s.seen["g"+d.GUID], s.seen["k"+d.SemanticKey] = true, true
	s.rows = append(s.rows, d)
	return true, nil
}

func receiver(t testing.TB, change func(*webhooks.Config)) (*webhooks.Receiver, *shelf, *bytes.Buffer) {
	t.Helper()
	s, log := &shelf{}, &bytes.Buffer{}
	cfg := webhooks.Config{Secrets: []nod.Secret{nod.NewSecret("s3cret")}, Accept: s, AppID: appID, BotUserID: botUser, Host: "github.com",
		Log: slog.New(slog.NewTextHandler(log, nil)), Now: func() time.Time { return now }}
	if change != nil {
		change(&cfg)
	}
	rc, err := webhooks.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return rc, s, log
}

func sign(secret string, body []byte) string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write(body)
	return "sha256=" + hex.EncodeToString(h.Sum(nil))
}

// delivery is a request as GitHub sends it.
func delivery(guid, event string, body []byte) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/webhooks/github", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-GitHub-Delivery", guid)
	r.Header.Set("X-GitHub-Event", event)
	r.Header.Set("X-Hub-Signature-256", sign("s3cret", body))
	return r
}

func send(rc http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	rc.ServeHTTP(w, r)
	return w
}

func payload(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Without a secret nobody can prove who they are by HTTP; what is polled is taken.
func TestWithoutASecretNothingIsTakenByHTTP(t *testing.T) {
	rc, s, _ := receiver(t, func(c *webhooks.Config) { c.Secrets = nil })
	r := delivery(guid, "issues", payload(t, "issues.labeled"))
	r.Header.Set("X-Hub-Signature-256", sign("", payload(t, "issues.labeled")))
	if w := send(rc, r); w.Code != http.StatusNotFound || len(s.rows) != 0 {
		t.Errorf("answered %d, %d rows", w.Code, len(s.rows))
	}
	if o, err := rc.Take(t.Context(), "poll:1", "issues", payload(t, "issues.labeled")); o != webhooks.Accepted || err != nil {
		t.Errorf("%s, %v", o, err)
	}
}

const guid = "6f9c1c40-1551-11f1-8000-0242ac120002"

func TestDeliveryIsStoredBeforeItIsAnswered(t *testing.T) {
	rc, s, log := receiver(t, nil)
	body := payload(t, "issues.labeled")
	if w := send(rc, delivery(guid, "issues", body)); w.Code != http.StatusAccepted {
		t.Fatalf("answered %d %s", w.Code, w.Body)
	}
	want := []nod.Delivery{{GUID: guid, SemanticKey: "github.com/acme/site#12/labeled/nod/2026-03-01T10:00:05Z", Event: "issues", Action: "labeled",
		Order: "github.com/acme/site#12", Payload: body, ReceivedAt: now, State: nod.DeliveryPending}}
	if diff := cmp.Diff(want, s.rows); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "issue=12") || !strings.Contains(log.String(), "outcome=accepted") {
		t.Errorf("%d log lines: %s", n, log)
	}
	if strings.Contains(log.String(), "footer") || strings.Contains(log.String(), "s3cret") {
		t.Errorf("the log holds a body or a secret: %s", log)
	}
}

func TestDeliveryThatWasNotStoredIsNotAcknowledged(t *testing.T) {
	rc, s, log := receiver(t, nil)
	s.err = errors.New("disk full at sector 7")
	w := send(rc, delivery(guid, "issues", payload(t, "issues.labeled")))
	if w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "disk") {
		t.Fatalf("answered %d %s", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), "disk full") || !strings.Contains(log.String(), "level=ERROR") {
		t.Errorf("log: %s", log)
	}
	s.err = nil
	if w := send(rc, delivery(guid, "issues", payload(t, "issues.labeled"))); w.Code != http.StatusAccepted {
		t.Fatalf("the redelivery was answered %d", w.Code)
	}
}

// R01
func TestDuplicateDeliveryIsAnsweredOnce(t *testing.T) {
	rc, s, _ := receiver(t, nil)
	body := payload(t, "issues.labeled")
	for i, want := range []int{http.StatusAccepted, http.StatusOK, http.StatusOK} {
		if w := send(rc, delivery(guid, "issues", body)); w.Code != want {
			t.Fatalf("time %d: answered %d", i, w.Code)
		}
	}
	if len(s.rows) != 1 {
		t.Fatalf("%d rows", len(s.rows))
	}
}

// R01: a stranger who knows a GUID cannot take it.
func TestGUIDIsClaimedOnlyAfterTheSignatureCheck(t *testing.T) {
	rc, s, _ := receiver(t, nil)
	r := delivery(guid, "issues", []byte(`{"action":"labeled"}`))
	r.Header.Set("X-Hub-Signature-256", sign("wrong", []byte(`{"action":"labeled"}`)))
	if w := send(rc, r); w.Code != http.StatusUnauthorized || len(s.rows) != 0 {
		t.Fatalf("answered %d, %d rows", w.Code, len(s.rows))
	}
	if w := send(rc, delivery(guid, "issues", payload(t, "issues.labeled"))); w.Code != http.StatusAccepted {
		t.Fatalf("the true delivery was answered %d", w.Code)
	}
}

// R02
func TestOneEventUnderTwoGUIDsIsStoredOnce(t *testing.T) {
	for _, name := range []string{"issues.labeled", "issues.unlabeled", "issues.closed", "issue_comment.created", "issue_comment.created.pull", "pull_request.closed"} {
		t.Run(name, func(t *testing.T) {
			rc, s, _ := receiver(t, nil)
			event, _, _ := strings.Cut(name, ".")
			body := payload(t, name)
			send(rc, delivery(guid, event, body))
			w := send(rc, delivery("00000000-1551-11f1-8000-0242ac120002", event, body))
			if w.Code != http.StatusOK || len(s.rows) != 1 {
				t.Fatalf("answered %d, %d rows", w.Code, len(s.rows))
			}
		})
	}
}

// R02: what the repository's own hook sent is of no use, so it may not displace
// what the App's hook sent.
func TestDeliveryWithoutInstallationDisplacesNothing(t *testing.T) {
	rc, s, _ := receiver(t, nil)
	body := payload(t, "issues.labeled")
	hook := bytes.Replace(body, []byte(`"installation"`), []byte(`"x"`), 1)
	send(rc, delivery("00000000-1551-11f1-8000-0242ac120002", "issues", hook))
	if w := send(rc, delivery(guid, "issues", body)); w.Code != http.StatusAccepted {
		t.Fatalf("answered %d", w.Code)
	}
	parse := webhooks.Parser("github.com")
	if _, err := parse(s.rows[0]); nod.CodeOf(err) != nod.Invalid || !strings.Contains(err.Error(), "issues.labeled: no installation") {
		t.Errorf("parsed with %v", err)
	}
	if o, err := parse(s.rows[1]); err != nil || o.Installation != 4242 {
		t.Errorf("parsed as %v, %v", o, err)
	}
}

// R10
func TestEachLabelEventIsItsOwn(t *testing.T) {
	rc, s, _ := receiver(t, nil)
	body := payload(t, "issues.labeled")
	send(rc, delivery(guid, "issues", body))
	send(rc, delivery("00000000-1551-11f1-8000-0242ac120001", "issues", payload(t, "issues.unlabeled")))
	again := bytes.ReplaceAll(body, []byte("10:00:05Z"), []byte("10:02:00Z"))
	send(rc, delivery("00000000-1551-11f1-8000-0242ac120002", "issues", again))
	other := bytes.ReplaceAll(body, []byte(`"number": 12`), []byte(`"number": 14`))
	send(rc, delivery("00000000-1551-11f1-8000-0242ac120003", "issues", other))
	if len(s.rows) != 4 {
		t.Fatalf("%d rows", len(s.rows))
	}
	folded := bytes.ReplaceAll(body, []byte(`"Nod"`), []byte(`"nOD"`))
	folded = bytes.ReplaceAll(folded, []byte(`Acme/Site`), []byte(`acme/SITE`))
	send(rc, delivery("00000000-1551-11f1-8000-0242ac120004", "issues", folded))
	if len(s.rows) != 4 {
		t.Error("case makes another event of the same")
	}
}

// R04
func TestOwnEventsAreDroppedBeforeAnythingIsQueued(t *testing.T) {
	own := payload(t, "issue_comment.created.own")
	labelled := payload(t, "issues.labeled")
	byID := func(b []byte, sender string) []byte {
		i := bytes.LastIndex(b, []byte(`"sender"`))
		return append(append([]byte{}, b[:i]...), []byte(`"sender": `+sender+`, "installation": {"id": 4242}}`)...)
	}
	for name, tc := range map[string]struct {
		event   string
		body    []byte
		botUser int64
		want    int
	}{
		"comment, by App id":                 {"issue_comment", own, 0, http.StatusOK},
		"label, by account id":               {"issues", byID(labelled, `{"id":88,"login":"renamed","type":"Bot"}`), botUser, http.StatusOK},
		"another bot":                        {"issues", byID(labelled, `{"id":89,"login":"acme-nod[bot]","type":"Bot"}`), botUser, http.StatusAccepted},
		"a user with our App":                {"issue_comment", byID(own, `{"id":31,"login":"otto","type":"User"}`), botUser, http.StatusAccepted},
		"another App's comment":              {"issue_comment", bytes.ReplaceAll(own, []byte(`"id": 1000`), []byte(`"id": 1001`)), 0, http.StatusAccepted},
		"a user whose name looks like a bot": {"issues", byID(labelled, `{"id":90,"login":"acme-nod[bot]","type":"User"}`), botUser, http.StatusAccepted},
	} {
		t.Run(name, func(t *testing.T) {
			rc, s, log := receiver(t, func(c *webhooks.Config) { c.BotUserID = tc.botUser })
			w := send(rc, delivery(guid, tc.event, tc.body))
			if w.Code != tc.want || len(s.rows) != map[int]int{http.StatusOK: 0, http.StatusAccepted: 1}[tc.want] {
				t.Fatalf("answered %d %s, %d rows", w.Code, w.Body, len(s.rows))
			}
			if tc.want == http.StatusOK && !strings.Contains(log.String(), "outcome=own") {
				t.Errorf("log: %s", log)
			}
		})
	}
}

func TestPingIsAnsweredAndNotStored(t *testing.T) {
	rc, s, _ := receiver(t, nil)
	if w := send(rc, delivery(guid, "ping", []byte(`{"zen":"Design for failure."}`))); w.Code != http.StatusOK || len(s.rows) != 0 {
		t.Fatalf("answered %d, %d rows", w.Code, len(s.rows))
	}
}

func TestBothSecretsAreTakenWhileTheyAreChanged(t *testing.T) {
	rc, _, _ := receiver(t, func(c *webhooks.Config) { c.Secrets = []nod.Secret{nod.NewSecret("new"), nod.NewSecret("old")} })
	for i, secret := range []string{"new", "old", "s3cret"} {
		body := payload(t, "issues.labeled")
		r := delivery(fmt.Sprintf("0000000%d-1551-11f1-8000-0242ac120002", i), "issues", body)
		r.Header.Set("X-Hub-Signature-256", sign(secret, body))
		if w := send(rc, r); (w.Code == http.StatusUnauthorized) != (secret == "s3cret") {
			t.Errorf("%s: answered %d", secret, w.Code)
		}
	}
}

func TestRefusals(t *testing.T) {
	object := []byte(`{"action":"labeled"}`)
	for name, tc := range map[string]struct {
		body   []byte
		change func(r *http.Request)
		want   int
		text   string
	}{
		"method":              {object, func(r *http.Request) { r.Method = http.MethodGet }, http.StatusMethodNotAllowed, "POST"},
		"no content type":     {object, func(r *http.Request) { r.Header.Del("Content-Type") }, http.StatusUnsupportedMediaType, "application/json"},
		"form":                {object, func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, http.StatusUnsupportedMediaType, "set the content type of the webhook"},
		"compressed":          {object, func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }, http.StatusUnsupportedMediaType, "compressed"},
		"no signature":        {object, func(r *http.Request) { r.Header.Del("X-Hub-Signature-256") }, http.StatusUnauthorized, "set a secret"},
		"only SHA-1":          {object, func(r *http.Request) { r.Header.Del("X-Hub-Signature-256"); r.Header.Set("X-Hub-Signature", "sha1=00") }, http.StatusUnauthorized, "set a secret"},
		"signature form":      {object, func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", "sha256=zz") }, http.StatusUnauthorized, "not one HMAC"},
		"two signatures":      {object, func(r *http.Request) { r.Header.Add("X-Hub-Signature-256", sign("s3cret", object)) }, http.StatusUnauthorized, "not one HMAC"},
		"other body":          {object, func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", sign("s3cret", []byte("{}"))) }, http.StatusUnauthorized, "none of the webhook secrets"},
		"no GUID":             {object, func(r *http.Request) { r.Header.Del("X-GitHub-Delivery") }, http.StatusBadRequest, "X-GitHub-Delivery"},
		"GUID of a poll":      {object, func(r *http.Request) { r.Header.Set("X-GitHub-Delivery", "poll:1234567890") }, http.StatusBadRequest, "X-GitHub-Delivery"},
		"no event":            {object, func(r *http.Request) { r.Header.Del("X-GitHub-Event") }, http.StatusBadRequest, "X-GitHub-Event"},
		"strange event":       {object, func(r *http.Request) { r.Header.Set("X-GitHub-Event", "Issues; drop") }, http.StatusBadRequest, "X-GitHub-Event"},
		"array":               {[]byte(`[1]`), nil, http.StatusBadRequest, "not a JSON object"},
		"null":                {[]byte(`null`), nil, http.StatusBadRequest, "not a JSON object"},
		"cut off":             {[]byte(`{"action":"lab`), nil, http.StatusBadRequest, "not a JSON object"},
		"empty":               {nil, nil, http.StatusBadRequest, "not a JSON object"},
		"too large":           {[]byte(`{"a":"` + strings.Repeat("x", 3<<20) + `"}`), nil, http.StatusRequestEntityTooLarge, "bytes"},
		"too large, unstated": {[]byte(`{"a":"` + strings.Repeat("x", 3<<20) + `"}`), func(r *http.Request) { r.ContentLength = -1 }, http.StatusRequestEntityTooLarge, "bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			rc, s, log := receiver(t, func(c *webhooks.Config) { c.MaxBody = 2 << 20 })
			r := delivery(guid, "issues", tc.body)
			if tc.change != nil {
				tc.change(r)
			}
			w := send(rc, r)
			if w.Code != tc.want || !strings.Contains(w.Body.String(), tc.text) {
				t.Errorf("answered %d %s, want %d with %q", w.Code, w.Body, tc.want, tc.text)
			}
			if len(s.rows) != 0 || strings.Count(log.String(), "\n") != 1 {
				t.Errorf("%d rows, log %s", len(s.rows), log)
			}
		})
	}
}

func TestLargeDeliveriesWithinTheCapAreTaken(t *testing.T) {
	rc, s, _ := receiver(t, nil)
	body := []byte(`{"a":"` + strings.Repeat("x", 5<<20) + `"}`)
	for i := range 10 { // more than there are slots: each is given back
		if w := send(rc, delivery(fmt.Sprintf("0000000%d-1551-11f1-8000-0242ac120002", i), "push", body)); w.Code != http.StatusAccepted {
			t.Fatalf("answered %d %s", w.Code, w.Body)
		}
	}
	if !bytes.Equal(s.rows[9].Payload, body) {
		t.Error("the body was changed")
	}
}

func TestReceiverNeedsItsParts(t *testing.T) {
	good := webhooks.Config{Secrets: []nod.Secret{nod.NewSecret("x")}, Accept: &shelf{}, AppID: 1, Host: "github.com", Log: slog.New(slog.DiscardHandler)}
	for name, change := range map[string]func(*webhooks.Config){
		"empty secret":  func(c *webhooks.Config) { c.Secrets = []nod.Secret{nod.NewSecret("x"), {}} },
		"three secrets": func(c *webhooks.Config) { c.Secrets = make([]nod.Secret, 3) },
		"no store":      func(c *webhooks.Config) { c.Accept = nil },
		"no App":        func(c *webhooks.Config) { c.AppID = 0 },
		"no host":       func(c *webhooks.Config) { c.Host = "" },
		"no logger":     func(c *webhooks.Config) { c.Log = nil },
	} {
		cfg := good
		change(&cfg)
		if _, err := webhooks.New(cfg); nod.CodeOf(err) != nod.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := webhooks.New(good); err != nil {
		t.Error(err)
	}
}

// Deliveries come late, twice, out of order and at once. Whatever happens, each
// event has one row.
func TestReplayedAndReorderedDeliveriesHaveOneRowEach(t *testing.T) {
	names := []string{"issues.labeled", "issues.unlabeled", "issues.closed", "issue_comment.created", "issue_comment.created.pull",
		"pull_request.closed", "installation.created", "installation_repositories.removed", "issue_comment.created.own"}
	var bodies [][]byte
	for _, n := range names {
		bodies = append(bodies, payload(t, n))
	}
	rapid.Check(t, func(rt *rapid.T) {
		rc, s, _ := receiver(t, nil)
		sent := rapid.SliceOfN(rapid.IntRange(0, len(names)-1), 1, 60).Draw(rt, "sent")
		want := map[string]bool{}
		var wg sync.WaitGroup
		for i, n := range sent {
			event, _, _ := strings.Cut(names[n], ".")
			g := fmt.Sprintf("%08d-1551-11f1-8000-0242ac120002", n)
			if strings.HasPrefix(names[n], "iss") && i%3 == 0 { // the twin of another hook
				g = fmt.Sprintf("%08d-1551-11f1-8000-0242ac129999", n)
			}
			if n != len(names)-1 {
				want[names[n]] = true
			}
			wg.Go(func() { send(rc, delivery(g, event, bodies[n])) })
		}
		wg.Wait()
		if len(s.rows) != len(want) {
			rt.Fatalf("%d rows for %d events", len(s.rows), len(want))
		}
	})
}

func TestPolledDeliveryIsTheSameAsTheReceivedOne(t *testing.T) {
	rc, s, _ := receiver(t, nil)
	body := payload(t, "issues.labeled")
	if o, err := rc.Take(t.Context(), guid, "issues", body); err != nil || o != webhooks.Accepted {
		t.Fatal(o, err)
	}
	if w := send(rc, delivery(guid, "issues", body)); w.Code != http.StatusOK {
		t.Fatalf("answered %d", w.Code)
	}
	if o, err := rc.Take(t.Context(), "poll:issue/12", "issues", body); err != nil || o != webhooks.Duplicate {
		t.Fatal(o, err)
	}
	if _, err := rc.Take(t.Context(), "", "issues", body); nod.CodeOf(err) != nod.Invalid {
		t.Fatal(err)
	}
	if len(s.rows) != 1 {
		t.Fatalf("%d rows", len(s.rows))
	}
}

func FuzzSignatureHeader(f *testing.F) {
	body := []byte(`{"action":"labeled"}`)
	f.Add(sign("s3cret", body))
	f.Add("sha256=")
	f.Add("sha1=" + strings.Repeat("0", 64))
	f.Add(strings.ToUpper(sign("s3cret", body)))
	rc, _, _ := receiver(f, func(c *webhooks.Config) { c.Log = slog.New(slog.DiscardHandler) })
	f.Fuzz(func(t *testing.T, header string) {
		r := delivery(guid, "issues", body)
		r.Header["X-Hub-Signature-256"] = []string{header}
		w := send(rc, r)
		digits, ok := strings.CutPrefix(header, "sha256=")
		good := ok && strings.EqualFold("sha256="+digits, sign("s3cret", body))
		if (w.Code < 300) != good {
			t.Fatalf("%q answered %d", header, w.Code)
		}
	})
}

func BenchmarkAccept(b *testing.B) {
	body := payload(b, "issues.labeled")
	s := &shelf{}
	rc, _, _ := receiver(b, func(c *webhooks.Config) { c.Log, c.Accept = slog.New(slog.DiscardHandler), s })
	b.SetBytes(int64(len(body)))
	for i := 0; b.Loop(); i++ {
		if w := send(rc, delivery(fmt.Sprintf("%08d-1551-11f1-8000-0242ac120002", i), "issues", body)); w.Code >= 300 {
			b.Fatal(w.Code)
		}
	}
}
