package ntfytest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const topicName = "Zq3f8Lk0vB7nXw2RtY6s"

// serve starts a server on loopback and checks at the end that nothing is left.
func serve(t *testing.T, c Config) (*Server, string) {
	t.Helper()
	s := New(c)
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		web.Close()
		// The goroutine of a connection that was taken over may still be returning.
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			left := handlers()
			if left == "" {
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("still running after Close:\n%s", left)
				break
			}
		}
	})
	return s, web.URL
}

// handlers returns the stacks of goroutines that still serve a request.
func handlers() string {
	buf := make([]byte, 1<<20)
	var found []string
	for stack := range strings.SplitSeq(string(buf[:goruntime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(stack, "ntfytest.(*Server)") && !strings.Contains(stack, "testing.(*") {
			found = append(found, stack)
		}
	}
	return strings.Join(found, "\n\n")
}

func do(t *testing.T, method, url, body string, header map[string]string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(all)
}

func TestBothWaysToPublishKeepTheSameMessage(t *testing.T) {
	s, url := serve(t, Config{})
	want := Message{Event: "message", Topic: topicName, Title: "Ready to push?", Message: "Task t1 waits.", Priority: 4,
		Tags: []string{"eyes", "x"}, Click: "https://nod.test/d/1", Actions: []Action{{Action: "view", Label: "Open", URL: "https://nod.test/d/1", Clear: true}}}
	body, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if status, answer := do(t, "POST", url+"/", string(body), nil); status != 200 {
		t.Fatal(status, answer)
	}
	header := map[string]string{"Title": want.Title, "X-Priority": "high", "Tags": "eyes, x", "Click": want.Click, "Actions": "view, Open, https://nod.test/d/1, clear=true"}
	status, answer := do(t, "PUT", url+"/"+topicName, want.Message, header)
	if status != 200 {
		t.Fatal(status, answer)
	}
	got := s.Messages(topicName)
	ignore := cmp.Options{cmpopts.IgnoreFields(Message{}, "ID", "Time", "Expires"), cmpopts.IgnoreFields(Action{}, "ID")}
	if diff := cmp.Diff([]Message{want, want}, got, ignore); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	var told Message
	if err := json.Unmarshal([]byte(answer), &told); err != nil || told.ID != got[1].ID || len(told.ID) != 12 || told.Expires <= told.Time {
		t.Errorf("answer %s, %v", answer, err)
	}
}

func TestMessagesThatBreakTheRulesAreRefusedAsNtfyDoes(t *testing.T) {
	s, url := serve(t, Config{})
	for name, c := range map[string]struct {
		path, body string
		code       int
	}{
		"no json":         {"/", "{", 40017},
		"no topic":        {"/", `{"message":"x"}`, 40009},
		"bad topic":       {"/", `{"topic":"a b"}`, 40009},
		"reserved topic":  {"/v1", "x", 40010},
		"priority":        {"/", `{"topic":"abc","priority":6}`, 40007},
		"long message":    {"/abc", strings.Repeat("x", messageCap+1), 41301},
		"long body":       {"/", strings.Repeat("x", bodyCap+1), 41303},
		"unknown action":  {"/", `{"topic":"abc","actions":[{"action":"http","label":"x","url":"http://x"}]}`, 40018},
		"too many action": {"/", `{"topic":"abc","actions":[{},{},{},{}]}`, 40018},
		"no utf-8":        {"/abc", "\xff", 40011},
		"no page":         {"/a/b/c", "", 40401},
	} {
		status, answer := do(t, "POST", url+c.path, c.body, nil)
		var p problem
		if err := json.Unmarshal([]byte(answer), &p); err != nil || p.Code != c.code || status != c.code/100 || p.HTTP != status {
			t.Errorf("%s: %d %s, %v; want code %d", name, status, answer, err, c.code)
		}
	}
	if got := s.Messages("abc"); got != nil {
		t.Errorf("kept %v", got)
	}
}

func TestTokenIsNeededToPublishAndToSubscribe(t *testing.T) {
	_, url := serve(t, Config{Token: "tk_right"})
	for name, c := range map[string]struct {
		auth   string
		status int
	}{
		"none":  {"", 403},
		"wrong": {"Bearer tk_wrong", 401},
		"right": {"Bearer tk_right", 200},
		"basic": {"Basic OnRrX3JpZ2h0", 200}, // ":tk_right"
	} {
		header := map[string]string{}
		if c.auth != "" {
			header["Authorization"] = c.auth
		}
		if status, answer := do(t, "POST", url+"/"+topicName, "x", header); status != c.status {
			t.Errorf("%s: publish %d %s", name, status, answer)
		}
		if status, answer := do(t, "GET", url+"/"+topicName+"/json?poll=1", "", header); status != c.status {
			t.Errorf("%s: subscribe %d %s", name, status, answer)
		}
	}
	if status, answer := do(t, "GET", url+"/v1/health", "", nil); status != 200 || answer != "{\"healthy\":true}\n" {
		t.Errorf("health: %d %s", status, answer)
	}
}

func TestSinceChoosesTheCachedMessages(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	s, url := serve(t, Config{Now: func() time.Time { return now }})
	for i := range 4 {
		now = now.Add(time.Minute)
		do(t, "POST", url+"/"+topicName, fmt.Sprint("m", i), nil)
	}
	all := s.Messages(topicName)
	for since, want := range map[string]string{
		"":                          "m0 m1 m2 m3",
		"all":                       "m0 m1 m2 m3",
		"none":                      "",
		"latest":                    "m3",
		all[1].ID:                   "m2 m3",
		"90s":                       "m2 m3",
		"1m":                        "m2 m3",
		"2d":                        "m0 m1 m2 m3",
		fmt.Sprint(all[3].Time):     "m3",
		fmt.Sprint(all[3].Time + 1): "",
		"forgotten":                 "m0 m1 m2 m3",
	} {
		_, answer := do(t, "GET", url+"/"+topicName+"/json?poll=1&since="+since, "", nil)
		var got []string
		for line := range strings.Lines(answer) {
			var m Message
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatal(err)
			}
			got = append(got, m.Message)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("since=%q: %q; want %q", since, got, want)
		}
	}
}

func TestStreamHasOpenCachedLiveAndKeepalive(t *testing.T) {
	_, url := serve(t, Config{Keepalive: 30 * time.Millisecond})
	do(t, "POST", url+"/"+topicName, "before", nil)
	for _, path := range []string{"/json", "/sse"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		req, err := http.NewRequestWithContext(ctx, "GET", url+"/"+topicName+path+"?since=all", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(resp.Body)
		next := func() Message {
			t.Helper()
			for lines.Scan() {
				line := strings.TrimPrefix(lines.Text(), "data: ")
				var m Message
				if strings.HasPrefix(line, "{") {
					if err := json.Unmarshal([]byte(line), &m); err != nil {
						t.Fatal(err)
					}
					return m
				}
			}
			t.Fatal("the stream ended: ", lines.Err())
			return Message{}
		}
		if m := next(); m.Event != "open" || m.Topic != topicName || m.ID == "" {
			t.Errorf("%s begins with %+v", path, m)
		}
		if m := next(); m.Message != "before" {
			t.Errorf("%s goes on with %+v", path, m)
		}
		for m := next(); m.Event != "keepalive"; m = next() {
			if m.Message != "live" { // of the stream before this one
				t.Errorf("%s has %+v before a keepalive", path, m)
			}
		}
		do(t, "POST", url+"/"+topicName, "live", nil)
		m := next()
		for m.Event == "keepalive" {
			m = next()
		}
		if m.Message != "live" {
			t.Errorf("%s has %+v", path, m)
		}
		cancel()
		_ = resp.Body.Close()
	}
}

func TestMemoryIsBounded(t *testing.T) {
	s, url := serve(t, Config{Keep: 3, Subscribers: 1})
	for i := range 10 {
		do(t, "POST", url+"/"+topicName, fmt.Sprint("m", i), nil)
	}
	if got := s.Messages(topicName); len(got) != 3 || got[0].Message != "m7" {
		t.Errorf("kept %v", got)
	}
	refused := 0
	for i := range maxTopics + 5 {
		if status, _ := do(t, "POST", fmt.Sprint(url, "/topic", i), "x", nil); status == 429 {
			refused++
		}
	}
	if refused != 6 { // one topic was there before
		t.Errorf("%d topics refused", refused)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", url+"/"+topicName+"/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if status, _ := do(t, "GET", url+"/"+topicName+"/json", "", nil); status != 429 {
		t.Errorf("a second subscriber: %d", status)
	}
}

func TestSlowReaderSeesWhatIsStillKept(t *testing.T) {
	top := newTopic()
	for i := range 5 {
		top.add(Message{ID: fmt.Sprint(i)}, 2)
	}
	got, next := top.from(1) // 1 and 2 are forgotten
	if len(got) != 2 || got[0].ID != "3" || next != 5 {
		t.Errorf("%v, %d", got, next)
	}
	if got, next = top.from(next); len(got) != 0 || next != 5 {
		t.Errorf("%v, %d", got, next)
	}
}

func TestFaultsComeInOrderAndOnce(t *testing.T) {
	s, url := serve(t, Config{})
	s.Fail(Fault{Status: 429, Code: 42901, RetryAfter: "7"}, Fault{Status: 500}, Fault{Status: 200, Body: "hello"})
	for _, want := range []int{429, 500, 200, 200} {
		if status, answer := do(t, "POST", url+"/"+topicName, "x", nil); status != want {
			t.Errorf("%d %s; want %d", status, answer, want)
		}
	}
	if got := s.Messages(topicName); len(got) != 1 {
		t.Errorf("kept %v", got)
	}
	s.Fail(Fault{Truncate: true})
	resp, err := http.Post(url+"/"+topicName, "text/plain", strings.NewReader("x"))
	if err == nil {
		_, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	if err == nil {
		t.Error("the truncated answer is whole")
	}
	if got := s.Messages(topicName); len(got) != 2 {
		t.Errorf("the message of a truncated answer was lost: %v", got)
	}
}

func TestCloseEndsStreamsAndHangingPublishes(t *testing.T) {
	s := New(Config{})
	web := httptest.NewServer(s)
	defer web.Close()
	resp, err := http.Get(web.URL + "/" + topicName + "/json")
	if err != nil {
		t.Fatal(err)
	}
	s.Fail(Fault{Hang: true})
	hung := make(chan error, 1)
	go func() {
		r, err := http.Post(web.URL+"/"+topicName, "text/plain", strings.NewReader("x"))
		if err == nil {
			_ = r.Body.Close()
		}
		hung <- err
	}()
	for s.waiting() {
		goruntime.Gosched()
	}
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-hung; err == nil {
		t.Error("the hanging publish was answered")
	}
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Errorf("the stream broke: %v", err)
	}
	_ = resp.Body.Close()
	if status, _ := do(t, "GET", web.URL+"/v1/health", "", nil); status != 503 {
		t.Errorf("closed server answers %d", status)
	}
}

// waiting reports whether faults are still unused.
func (s *Server) waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.faults) > 0
}
