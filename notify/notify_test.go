package notify

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"nod"
	"nod/notify/ntfytest"
)

var update = flag.Bool("update", false, "write golden files")

const (
	topic = "Zq3f8Lk0vB7nXw2RtY6s"
	token = "tk_correcthorsebattery"
)

// golden compares got with testdata/name.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// wire is an ntfy server on loopback that also keeps what was sent to it.
type wire struct {
	*ntfytest.Server
	url string

	mu     sync.Mutex
	bodies [][]byte
	heads  []http.Header
}

func newWire(t *testing.T) *wire {
	t.Helper()
	w := &wire{Server: ntfytest.New(ntfytest.Config{Topic: topic, Token: token})}
	web := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.mu.Lock()
		w.bodies = append(w.bodies, body)
		w.heads = append(w.heads, r.Header)
		w.mu.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		w.ServeHTTP(rw, r)
	}))
	w.url = web.URL
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		web.Close()
	})
	return w
}

func (w *wire) requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.bodies)
}

func (w *wire) publisher(t *testing.T, change func(*Config)) *Publisher {
	t.Helper()
	c := Config{URL: w.url, Topic: nod.NewSecret(topic), Token: nod.NewSecret(token), Icon: "https://nod.test/assets/mark.png"}
	if change != nil {
		change(&c)
	}
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

var hello = nod.Push{Title: "Allow a tool?", Message: "Task t3f9a12c waits for your approval.", Click: "https://nod.test/d/d01", Priority: 4, Tag: "raised_hand", Sequence: "d01"}

func TestPublishIsWhatNtfyExpects(t *testing.T) {
	w := newWire(t)
	p := w.publisher(t, nil)
	id, err := p.Send(t.Context(), hello)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Send(t.Context(), nod.Push{Title: "Bare", Message: "no link"}); err != nil {
		t.Fatal(err)
	}
	kept := w.Messages(topic)
	if len(kept) != 2 || kept[0].ID != id || kept[0].Click != hello.Click || kept[0].Tags[0] != hello.Tag || kept[1].Priority != 3 {
		t.Errorf("kept %+v, id %s", kept, id)
	}
	if got := w.heads[0].Get("Authorization"); got != "Bearer "+token {
		t.Errorf("authorization is %d characters that are not the token", len(got))
	}
	var out bytes.Buffer
	for _, body := range w.bodies {
		if err := json.Indent(&out, body, "", "  "); err != nil {
			t.Fatal(err)
		}
		out.WriteByte('\n')
	}
	golden(t, "publish.golden.json", out.Bytes())
}

func TestFaultsOfTheServerBecomeCodes(t *testing.T) {
	for name, c := range map[string]struct {
		fault ntfytest.Fault
		want  nod.Code
		after time.Duration // 0: the server did not say
	}{
		"limited":              {ntfytest.Fault{Status: 429, Code: 42901}, nod.RateLimited, 0},
		"limited for a while":  {ntfytest.Fault{Status: 429, RetryAfter: "17"}, nod.RateLimited, 17 * time.Second},
		"limited for no time":  {ntfytest.Fault{Status: 429, RetryAfter: "0"}, nod.RateLimited, time.Second},
		"limited for a year":   {ntfytest.Fault{Status: 429, RetryAfter: "31536000"}, nod.RateLimited, time.Hour},
		"limited for ever":     {ntfytest.Fault{Status: 429, RetryAfter: "99999999999999999999"}, nod.RateLimited, 0},
		"limited by nonsense":  {ntfytest.Fault{Status: 429, RetryAfter: "soon"}, nod.RateLimited, 0},
		"limited until a past": {ntfytest.Fault{Status: 429, RetryAfter: "Mon, 02 Jan 2006 15:04:05 GMT"}, nod.RateLimited, time.Second},
		"down":                 {ntfytest.Fault{Status: 500}, nod.Unavailable, 0},
		"maintenance":          {ntfytest.Fault{Status: 503, RetryAfter: "30"}, nod.Unavailable, 30 * time.Second},
		"bad gateway":          {ntfytest.Fault{Status: 502, Body: "<html>"}, nod.Unavailable, 0},
		"unknown token":        {ntfytest.Fault{Status: 401, Code: 40101}, nod.Unauthenticated, 0},
		"no access":            {ntfytest.Fault{Status: 403, Code: 40301}, nod.Forbidden, 0},
		"too large":            {ntfytest.Fault{Status: 413}, nod.TooLarge, 0},
		"not found":            {ntfytest.Fault{Status: 404}, nod.Failed, 0},
		"redirect":             {ntfytest.Fault{Status: 307, Location: "/elsewhere"}, nod.Failed, 0},
		"bad request":          {ntfytest.Fault{Status: 400}, nod.Failed, 0},
		"no content":           {ntfytest.Fault{Status: 204}, nod.Unavailable, 0},
		"another page":         {ntfytest.Fault{Status: 200, Body: "<html>hello</html>"}, nod.Unavailable, 0},
		"another event":        {ntfytest.Fault{Status: 200, Body: `{"id":"abc","event":"open","topic":"` + topic + `"}`}, nod.Unavailable, 0},
		"another topic":        {ntfytest.Fault{Status: 200, Body: `{"id":"abc","event":"message","topic":"x"}`}, nod.Unavailable, 0},
		"odd id":               {ntfytest.Fault{Status: 200, Body: `{"id":"<b>","event":"message","topic":"` + topic + `"}`}, nod.Unavailable, 0},
		"endless answer":       {ntfytest.Fault{Status: 200, Body: strings.Repeat(" ", answerCap) + "{}"}, nod.Unavailable, 0},
		"broken off":           {ntfytest.Fault{Truncate: true}, nod.Unavailable, 0},
		"silence":              {ntfytest.Fault{Hang: true}, nod.Unavailable, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t)
			fault := c.fault
			p := w.publisher(t, func(c *Config) {
				if c.HTTP = new(http.Client); fault.Hang {
					c.HTTP.Timeout = 500 * time.Millisecond
				}
			})
			w.Fail(fault)
			id, err := p.Send(t.Context(), hello)
			if nod.CodeOf(err) != c.want || id != "" {
				t.Errorf("Send = %q, %v (%s); want %s", id, err, nod.CodeOf(err), c.want)
			}
			if after, ok := RetryAfter(err); after != c.after || ok != (c.after > 0) {
				t.Errorf("RetryAfter = %v, %v; want %v", after, ok, c.after)
			}
			for _, secret := range []string{topic, token} {
				if strings.Contains(fmt.Sprintf("%v %+v %s", err, err, nod.PublicMessage(err)), secret) {
					t.Error("the error holds a secret")
				}
			}
			if n := w.requests(); n > 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func TestServerThatIsNotThereIsUnavailable(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	web.Close()
	p, err := New(Config{URL: web.URL, Topic: nod.NewSecret(topic)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Send(t.Context(), hello); nod.CodeOf(err) != nod.Unavailable {
		t.Errorf("Send = %v", err)
	}
}

func TestRetryAfterDateIsMeasuredByTheServersClock(t *testing.T) {
	got, ok := parseRetryAfter("Fri, 02 Jan 2026 15:05:05 GMT", "Fri, 02 Jan 2026 15:04:05 GMT")
	if !ok || got != time.Minute {
		t.Errorf("%v, %v", got, ok)
	}
	if got, ok := parseRetryAfter("Fri, 02 Jan 2026 15:05:05 GMT", ""); ok {
		t.Errorf("without a date: %v", got)
	}
	if _, ok := RetryAfter(nil); ok {
		t.Error("nil asks for a wait")
	}
}

func TestConfigThatGivesTheTopicAwayIsRefused(t *testing.T) {
	for name, c := range map[string]Config{
		"no topic":        {URL: "https://ntfy.sh"},
		"short topic":     {URL: "https://ntfy.sh", Topic: nod.NewSecret(topic[:19])},
		"one letter":      {URL: "https://ntfy.sh", Topic: nod.NewSecret(strings.Repeat("a", 30))},
		"long topic":      {URL: "https://ntfy.sh", Topic: nod.NewSecret(strings.Repeat(topic, 4))},
		"slash":           {URL: "https://ntfy.sh", Topic: nod.NewSecret(topic + "/x")},
		"line break":      {URL: "https://ntfy.sh", Topic: nod.NewSecret(topic + "\n")},
		"no url":          {Topic: nod.NewSecret(topic)},
		"no scheme":       {URL: "ntfy.sh", Topic: nod.NewSecret(topic)},
		"other scheme":    {URL: "file:///etc", Topic: nod.NewSecret(topic)},
		"plain http":      {URL: "http://ntfy.example", Topic: nod.NewSecret(topic)},
		"topic in url":    {URL: "https://ntfy.sh/" + topic, Topic: nod.NewSecret(topic)},
		"password in url": {URL: "https://u:p@ntfy.sh", Topic: nod.NewSecret(topic)},
		"query":           {URL: "https://ntfy.sh/?x=y", Topic: nod.NewSecret(topic)},
		"broken token":    {URL: "https://ntfy.sh", Topic: nod.NewSecret(topic), Token: nod.NewSecret("tk_x\r\nX: y")},
	} {
		p, err := New(c)
		if err == nil || p != nil || nod.CodeOf(err) != nod.Invalid {
			t.Errorf("%s: %v, %v; want an Invalid error", name, p, err)
		}
		if err != nil && strings.Contains(err.Error(), topic) {
			t.Errorf("%s: the error holds the topic", name)
		}
	}
	for _, url := range []string{"https://ntfy.sh", "https://ntfy.sh/", "http://127.0.0.1:80", "http://[::1]", "http://localhost:8080"} {
		if _, err := New(Config{URL: url, Topic: nod.NewSecret(topic)}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestPushThatNodNeverMakesIsNotSent(t *testing.T) {
	w := newWire(t)
	p := w.publisher(t, nil)
	for name, change := range map[string]func(*nod.Push){
		"no title":       func(p *nod.Push) { p.Title = "" },
		"no message":     func(p *nod.Push) { p.Message = "" },
		"line break":     func(p *nod.Push) { p.Title = "a\r\nX-Click: b" },
		"escape":         func(p *nod.Push) { p.Message = "\x1b[2J" },
		"direction":      func(p *nod.Push) { p.Message = "\u202egnp.exe" },
		"no utf-8":       func(p *nod.Push) { p.Title = "\xff" },
		"long title":     func(p *nod.Push) { p.Title = strings.Repeat("a", titleCap+1) },
		"long message":   func(p *nod.Push) { p.Message = strings.Repeat("a", messageCap+1) },
		"priority":       func(p *nod.Push) { p.Priority = 6 },
		"tag":            func(p *nod.Push) { p.Tag = "a,b" },
		"script link":    func(p *nod.Push) { p.Click = "javascript:alert(1)" },
		"relative link":  func(p *nod.Push) { p.Click = "/d/1" },
		"link with user": func(p *nod.Push) { p.Click = "https://a@b/" },
		"broken link":    func(p *nod.Push) { p.Click = "https://a/\n" },
	} {
		push := hello
		change(&push)
		if id, err := p.Send(t.Context(), push); nod.CodeOf(err) != nod.Invalid || id != "" {
			t.Errorf("%s: %q, %v", name, id, err)
		}
	}
	if n := w.requests(); n != 0 {
		t.Errorf("%d pushes left", n)
	}
}

// TestLostAnswerIsLookedForBeforeItIsSentAgain: a push whose answer broke off is
// found among what the server keeps; one that never arrived is not.
func TestLostAnswerIsLookedForBeforeItIsSentAgain(t *testing.T) {
	w := newWire(t)
	p := Performer{First: w.publisher(t, nil), Now: time.Now}
	e := effect(t, hello)
	w.Fail(ntfytest.Fault{Status: 500}, ntfytest.Fault{Truncate: true})
	if _, err := p.Perform(t.Context(), nod.Task{}, e); nod.CodeOf(err) != nod.Unavailable {
		t.Fatalf("refused: %v", err)
	}
	if outcome, err := p.Lookup(t.Context(), nod.Task{}, e); outcome != nil || err != nil {
		t.Errorf("never arrived: %s, %v", outcome, err)
	}
	if _, err := p.Perform(t.Context(), nod.Task{}, e); nod.CodeOf(err) != nod.Unavailable {
		t.Fatalf("broken off: %v", err)
	}
	outcome, err := p.Lookup(t.Context(), nod.Task{}, e)
	var sent Sent
	if err != nil || json.Unmarshal(outcome, &sent) != nil || sent.ID != w.Messages(topic)[0].ID {
		t.Errorf("arrived: %s, %v", outcome, err)
	}
	for name, change := range map[string]func(*nod.Push){
		"reminder": func(p *nod.Push) { p.Message += " Reminder 1." }, "other link": func(p *nod.Push) { p.Click += "0" },
		"other name": func(p *nod.Push) { p.Sequence = "d02" }, "other title": func(p *nod.Push) { p.Title = "Answered" },
	} {
		other := hello
		change(&other)
		if outcome, err := p.Lookup(t.Context(), nod.Task{}, effect(t, other)); outcome != nil || err != nil {
			t.Errorf("%s: taken for sent: %s, %v", name, outcome, err)
		}
	}
	// Who may only write cannot look, and then sends again.
	blind := Performer{First: w.publisher(t, func(c *Config) { c.Token = nod.NewSecret("tk_another") }), Now: time.Now}
	if outcome, err := blind.Lookup(t.Context(), nod.Task{}, e); outcome != nil || err != nil {
		t.Errorf("blind: %s, %v", outcome, err)
	}
}

func effect(t *testing.T, p nod.Push) nod.Effect {
	t.Helper()
	intent, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return nod.Effect{Kind: nod.EffectNotify, Intent: intent, CreatedAt: time.Now()}
}

func TestPerformerSendsThroughTheChannelThatIsNamed(t *testing.T) {
	first, second := newWire(t), newWire(t)
	p := Performer{First: first.publisher(t, nil), Second: second.publisher(t, nil), Now: time.Now}
	push := hello
	for _, push.Second = range []bool{false, true} {
		outcome, err := p.Perform(t.Context(), nod.Task{}, effect(t, push))
		var sent Sent
		if err != nil || json.Unmarshal(outcome, &sent) != nil || sent.ID == "" {
			t.Errorf("outcome %s, %v", outcome, err)
		}
	}
	if first.requests() != 1 || second.requests() != 1 {
		t.Errorf("%d and %d requests", first.requests(), second.requests())
	}
	first.Fail(ntfytest.Fault{Status: 429, RetryAfter: "5"})
	if _, err := p.Perform(t.Context(), nod.Task{}, effect(t, hello)); nod.CodeOf(err) != nod.RateLimited {
		t.Errorf("limited: %v", err)
	}
	for name, e := range map[string]nod.Effect{
		"kind":   {Kind: nod.EffectPush, Intent: effect(t, hello).Intent},
		"intent": {Kind: nod.EffectNotify, Intent: json.RawMessage("[]")},
		"empty":  {Kind: nod.EffectNotify, Intent: json.RawMessage("{}")},
	} {
		if _, err := p.Perform(t.Context(), nod.Task{}, e); err == nil {
			t.Errorf("%s: performed", name)
		}
	}
	if _, err := (Performer{}).Lookup(t.Context(), nod.Task{}, effect(t, hello)); nod.CodeOf(err) != nod.Unsupported {
		t.Errorf("without a channel: %v", err)
	}
	p.Second = nil
	if _, err := p.Perform(t.Context(), nod.Task{}, effect(t, push)); nod.CodeOf(err) != nod.Invalid {
		t.Errorf("without a second channel: %v", err)
	}
}

// TestAccountInPlaceOfAToken: a self-hosted server may know users only.
func TestAccountInPlaceOfAToken(t *testing.T) {
	server := ntfytest.New(ntfytest.Config{User: "nod", Pass: "correct horse"})
	web := httptest.NewServer(server)
	defer web.Close()
	defer server.Close()
	send := func(c Config) error {
		c.URL, c.Topic = web.URL, nod.NewSecret(topic)
		p, err := New(c)
		if err != nil {
			return err
		}
		defer p.Close()
		_, err = p.Send(t.Context(), hello)
		return err
	}
	if err := send(Config{User: "nod", Pass: nod.NewSecret("correct horse")}); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		config Config
		want   nod.Code
	}{
		"wrong password": {Config{User: "nod", Pass: nod.NewSecret("wrong")}, nod.Unauthenticated},
		"nobody":         {Config{}, nod.Forbidden},
		"no password":    {Config{User: "nod"}, nod.Invalid},
		"no user":        {Config{Pass: nod.NewSecret("x")}, nod.Invalid},
		"both":           {Config{User: "nod", Pass: nod.NewSecret("x"), Token: nod.NewSecret("tk_x")}, nod.Invalid},
		"line break":     {Config{User: "nod", Pass: nod.NewSecret("x\n")}, nod.Invalid},
	} {
		if err := send(c.config); nod.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

func TestHealthIsAskedFor(t *testing.T) {
	w := newWire(t)
	p := w.publisher(t, nil)
	if err := p.Healthy(t.Context()); err != nil {
		t.Error(err)
	}
	if got := p.Subscribe(); got != "ntfy://"+strings.TrimPrefix(w.url, "http://")+"/"+topic {
		t.Error("the phone would subscribe to something else")
	}
	for name, c := range map[string]struct {
		status int
		body   string
		want   nod.Code
	}{"ill": {200, `{"healthy":false}`, nod.Unavailable}, "another program": {200, "<html>", nod.Failed}, "nothing there": {404, "", nod.Failed}, "down": {502, "", nod.Unavailable}} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.status); fmt.Fprint(w, c.body) }))
		p, err := New(Config{URL: web.URL, Topic: nod.NewSecret(topic)})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Healthy(t.Context()); nod.CodeOf(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		p.Close()
		web.Close()
	}
}

// TestTitlesAreUTF8: what a phone shows is what was meant, in any script.
func TestTitlesAreUTF8(t *testing.T) {
	w := newWire(t)
	p := w.publisher(t, nil)
	push := nod.Push{Title: "Darf ein Agent hier arbeiten? ¿Seguro? 本当に", Message: "Aufgabe t1 – “wartet” 🙋", Priority: 3}
	if _, err := p.Send(t.Context(), push); err != nil {
		t.Fatal(err)
	}
	if got := w.Messages(topic)[0]; got.Title != push.Title || got.Message != push.Message {
		t.Errorf("arrived as %q, %q", got.Title, got.Message)
	}
}

func TestNeitherTopicNorTokenIsLogged(t *testing.T) {
	var log bytes.Buffer
	w := newWire(t)
	p := w.publisher(t, func(c *Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	if _, err := p.Send(t.Context(), hello); err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{topic, token, hello.Click, hello.Title} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log holds %d characters that it must not", len(secret))
		}
	}
	if log.Len() == 0 {
		t.Error("nothing was logged")
	}
}

func TestCloseGivesUpTheConnection(t *testing.T) {
	server := ntfytest.New(ntfytest.Config{})
	closed := make(chan struct{}, 1)
	web := httptest.NewUnstartedServer(server)
	web.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			closed <- struct{}{}
		}
	}
	web.Start()
	defer web.Close()
	p, err := New(Config{URL: web.URL, Topic: nod.NewSecret(topic)})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // over one connection
		if _, err := p.Send(t.Context(), hello); err != nil {
			t.Fatal(err)
		}
	}
	p.Close()
	<-closed
}
