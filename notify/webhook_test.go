package notify

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"nod"
)

func TestWebhookPostsFixedWordsAndAKey(t *testing.T) {
	var bodies [][]byte
	var heads []http.Header
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		bodies, heads = append(bodies, body), append(heads, r.Header)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer web.Close()
	h, err := NewWebhook(WebhookConfig{URL: nod.NewSecret(web.URL + "/hook/s3cret?x=1"), Token: nod.NewSecret(token)})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	d := hostileDecision(nod.CauseTool, nod.Approval, true)
	opened := Tell(d, hostileTask(), nod.Telling{Second: true}, "https://nod.test")
	opened.Sequence = "d01-second"
	d.State = nod.DecisionAnswered
	closed := Tell(d, hostileTask(), nod.Telling{Second: true, Closed: true}, "https://nod.test")
	closed.Sequence = opened.Sequence
	for _, p := range []nod.Push{opened, opened, closed} {
		if id, err := h.Send(t.Context(), p); err != nil || id != "" {
			t.Errorf("Send = %q, %v", id, err)
		}
	}
	if keys := [3]string{heads[0].Get("Idempotency-Key"), heads[1].Get("Idempotency-Key"), heads[2].Get("Idempotency-Key")}; keys[0] == "" || keys[0] != keys[1] || keys[0] == keys[2] {
		t.Errorf("keys %q", keys)
	}
	if heads[0].Get("Authorization") != "Bearer "+token {
		t.Error("the token is missing")
	}
	var out bytes.Buffer
	for _, body := range [][]byte{bodies[0], bodies[2]} {
		if err := json.Indent(&out, body, "", "  "); err != nil {
			t.Fatal(err)
		}
		out.WriteByte('\n')
	}
	golden(t, "webhook.golden.json", out.Bytes())
	if strings.Contains(out.String(), "evil") {
		t.Error("somebody else's words were posted")
	}
	if h.Sent(t.Context(), opened, 0) != "" {
		t.Error("a webhook claims to know what it was sent")
	}
}

func TestWebhookThatFailsSaysHowAndGivesNothingAway(t *testing.T) {
	for status, want := range map[int]nod.Code{500: nod.Unavailable, 429: nod.RateLimited, 401: nod.Unauthenticated, 403: nod.Forbidden,
		404: nod.Failed, 302: nod.Failed, 413: nod.TooLarge, 0: nod.Unavailable} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "https://elsewhere.example/")
			w.WriteHeader(status)
		}))
		if status == 0 {
			web.Close()
		}
		h, err := NewWebhook(WebhookConfig{URL: nod.NewSecret(web.URL + "/hook/s3cret")})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Send(t.Context(), hello); nod.CodeOf(err) != want || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%d: %v, want %s", status, err, want)
		}
		web.Close()
	}
	for _, url := range []string{"", "http://hook.example/", "ftp://hook.example/", "https://u:p@hook.example/", "https:///x"} {
		if _, err := NewWebhook(WebhookConfig{URL: nod.NewSecret(url)}); nod.CodeOf(err) != nod.Invalid {
			t.Errorf("%s: %v", url, err)
		}
	}
}
