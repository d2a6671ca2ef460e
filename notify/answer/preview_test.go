package answer_test

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"nod"
	"nod/notify/answer"
	"nod/notify/answer/answertest"
	"nod/store"
)

// R30: a messenger's preview bot fetches the single-use link before the person does.
// Reading spends nothing: only the passkey's POST does, once. With the real store.
func TestR30PreviewBotSpendsNothing(t *testing.T) {
	s, err := store.Open(t.Context(), store.Config{Path: filepath.Join(t.TempDir(), "nod.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, url: fmt.Sprintf("http://localhost:%d", l.Addr().(*net.TCPAddr).Port)}
	page, err := answer.New(answer.Config{Decisions: s, Witness: s, Streams: s, Passkeys: s, Sessions: s, Acts: s, PublicURL: w.url, Log: slog.New(slog.DiscardHandler)})
	w.must(err)
	defer page.Close()
	server := httptest.NewUnstartedServer(page)
	w.must(server.Listener.Close())
	server.Listener = l
	server.Start()
	defer server.Close()

	const token = "0123456789abcdef0123456789abcdef"
	w.must(s.CreateEnrolment(t.Context(), nod.Enrolment{TokenDigest: nod.Digest([]byte(token)), Name: "phone", ExpiresAt: time.Now().Add(5 * time.Minute)}))
	for _, bot := range []string{"TelegramBot (like TwitterBot)", "Slackbot-LinkExpanding 1.0", "WhatsApp/2.23"} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodGet} {
			if res, _ := w.do(method, "/enrol/"+token, http.Header{"User-Agent": {bot}}, ""); res.StatusCode >= 500 {
				t.Errorf("%s by %s: %d", method, bot, res.StatusCode)
			}
		}
	}
	if keys, err := s.Passkeys(t.Context()); err != nil || len(keys) != 0 {
		t.Errorf("reading made %d passkeys, %v", len(keys), err)
	}
	enrol := func() error {
		c, err := answertest.NewClient(w.url, dial)
		w.must(err)
		return c.Enrol(t.Context(), w.url+"/enrol/"+token)
	}
	w.must(enrol())
	w.wantCode(enrol(), nod.NotFound)
	if keys, err := s.Passkeys(t.Context()); err != nil || len(keys) != 1 {
		t.Errorf("%d passkeys, %v", len(keys), err)
	}
}
