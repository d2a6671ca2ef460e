package ntfytest

import (
	"bufio"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

func phoneConfig() Config { return Config{Topic: topicName} }

func TestPhoneListsPushesNewestFirstWithTheirLinks(t *testing.T) {
	_, url := serve(t, phoneConfig())
	if status, page := do(t, "GET", url+"/phone", "", nil); status != 200 || !strings.Contains(page, "All quiet") {
		t.Errorf("empty phone: %d\n%s", status, page)
	}
	do(t, "POST", url+"/", `{"topic":"`+topicName+`","title":"First","message":"one","click":"https://nod.test/d/1"}`, nil)
	do(t, "POST", url+"/", `{"topic":"`+topicName+`","title":"Second","message":"two","click":"https://nod.test/d/2","priority":4}`, nil)
	do(t, "POST", url+"/", `{"topic":"another-topic","title":"Third","message":"three"}`, nil)
	_, page := do(t, "GET", url+"/phone", "", nil)
	first, second := strings.Index(page, "First"), strings.Index(page, "Second")
	if first < 0 || second < 0 || second > first || strings.Contains(page, "Third") {
		t.Errorf("order or content is wrong:\n%s", page)
	}
	for _, want := range []string{`href="https://nod.test/d/1"`, `href="https://nod.test/d/2"`, "<title>(2) Phone", `http-equiv="refresh"`} {
		if !strings.Contains(page, want) {
			t.Errorf("page lacks %s", want)
		}
	}
}

func TestPhoneShowsHostilePushesAsText(t *testing.T) {
	_, url := serve(t, phoneConfig())
	do(t, "POST", url+"/", `{"topic":"`+topicName+`","title":"<script>alert(1)</script>","message":"\"><img src=x>","click":"javascript:alert(1)"}`, nil)
	do(t, "POST", url+"/", `{"topic":"`+topicName+`","title":"x","message":"y","click":"https://nod.test/\"onclick=\"alert(1)"}`, nil)
	_, page := do(t, "GET", url+"/phone", "", nil)
	for _, bad := range []string{"<script>alert", "<img src=x", "javascript:", `"onclick="`} {
		if strings.Contains(page, bad) {
			t.Errorf("page holds %q:\n%s", bad, page)
		}
	}
}

// TestPhoneHasNothingInline: the policy forbids it, so the page must not need it.
func TestPhoneHasNothingInline(t *testing.T) {
	_, url := serve(t, phoneConfig())
	do(t, "POST", url+"/"+topicName, "x", nil)
	resp, err := http.Get(url + "/phone")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if csp := resp.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
		t.Errorf("policy %q", csp)
	}
	_, page := do(t, "GET", url+"/phone", "", nil)
	if m := regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|<script(?:>| [^>]*[^r]>)[^<]`).FindString(page); m != "" {
		t.Errorf("inline part %q", m)
	}
	if strings.Contains(page, topicName) {
		t.Error("the page gives the topic away")
	}
	for _, m := range regexp.MustCompile(`(?:src|href)="(/phone/[^"]+)"`).FindAllStringSubmatch(page, -1) {
		if status, body := do(t, "GET", url+m[1], "", nil); status != 200 || body == "" {
			t.Errorf("%s: %d", m[1], status)
		}
	}
	for _, path := range []string{"/phone/phone.html", "/phone/../server.go", "/phone/x"} {
		if status, _ := do(t, "GET", url+path, "", nil); status == 200 {
			t.Errorf("%s is served", path)
		}
	}
}

func TestPhoneStreamRingsWithoutSayingWhat(t *testing.T) {
	_, url := serve(t, phoneConfig())
	do(t, "POST", url+"/"+topicName, "before", nil)
	resp, err := http.Get(url + "/phone/events")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	lines.Scan()
	if lines.Text() != ": open" {
		t.Errorf("begins with %q", lines.Text())
	}
	do(t, "POST", url+"/"+topicName, "hello there", nil)
	for lines.Scan() && lines.Text() == "" {
	}
	if lines.Text() != "data: push" {
		t.Errorf("goes on with %q", lines.Text())
	}
}

func TestWithoutATopicThereIsNoPhone(t *testing.T) {
	_, url := serve(t, Config{})
	if status, _ := do(t, "GET", url+"/phone", "", nil); status != 404 {
		t.Errorf("phone without a topic: %d", status)
	}
}
