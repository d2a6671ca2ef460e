package githubsim_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	gh "github.com/google/go-github/v66/github"
)

func (w *world) page(path string) (string, http.Header) {
	w.Helper()
	res, err := http.Get(w.base + path)
	w.ok(err)
	defer func() { w.ok(res.Body.Close()) }()
	raw, err := io.ReadAll(res.Body)
	w.ok(err)
	if res.StatusCode != http.StatusOK {
		w.Fatalf("%s: %d %s", path, res.StatusCode, raw)
	}
	return string(raw), res.Header
}

func (w *world) post(path string, form url.Values, change func(*http.Request)) int {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), http.MethodPost, w.base+path, strings.NewReader(form.Encode()))
	w.ok(err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", w.base)
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	if change != nil {
		change(req)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	w.ok(err)
	w.ok(res.Body.Close())
	return res.StatusCode
}

func TestPagesShowUntrustedTextAsText(t *testing.T) {
	w := newWorld(t)
	evil := `<script>alert(1)</script><img src=x onerror=alert(1)> "'`
	n, err := w.sim.CreateIssue("out", full, evil, evil)
	w.ok(err)
	_, err = w.sim.Comment("out", full, n, evil)
	w.ok(err)
	w.ok(w.sim.Label("wil", full, n, `"><script>x`))
	for _, path := range []string{"/", "/ada/web", "/ada/web/issues/1"} {
		body, header := w.page(path)
		if strings.Contains(body, "<script") || strings.Contains(body, "<img") || strings.Contains(body, "style=") || strings.Contains(body, "onerror=alert(1)>") {
			t.Errorf("%s is not inert:\n%s", path, body)
		}
		if csp := header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", path, csp)
		}
	}
}

func TestFormsActAsTheWebUserFromTheirOwnOriginOnly(t *testing.T) {
	w := newWorld(t)
	n, err := w.sim.CreateIssue("out", full, "t", "")
	w.ok(err)
	form := url.Values{"name": {"nod"}}
	for name, change := range map[string]func(*http.Request){
		"other site":        func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"other origin":      func(r *http.Request) { r.Header.Del("Sec-Fetch-Site"); r.Header.Set("Origin", "https://evil.example") },
		"name made to fit":  func(r *http.Request) { r.Host = "evil.example" },
		"made to fit, port": func(r *http.Request) { r.Host = "evil.example:80" },
	} {
		if got := w.post("/ada/web/issues/1/labels", form, change); got != http.StatusForbidden {
			t.Errorf("%s: %d", name, got)
		}
	}
	if got := w.view(n).Labels; len(got) != 0 {
		t.Fatalf("got %v", got)
	}
	steps := []struct {
		path string
		form url.Values
	}{
		{"/ada/web/issues/1/labels", form}, {"/ada/web/issues/1/labels", url.Values{"name": {"bug"}}},
		{"/ada/web/issues/1/labels", url.Values{"name": {"bug"}, "do": {"remove"}}}, {"/ada/web/issues/1/comments", url.Values{"body": {"hello"}}},
		{"/ada/web/issues/1/state", url.Values{"do": {"close"}}}, {"/ada/web/issues", url.Values{"title": {"another"}}},
	}
	for _, s := range steps {
		if got := w.post(s.path, s.form, nil); got != http.StatusSeeOther {
			t.Errorf("%s: %d", s.path, got)
		}
	}
	got := w.view(n)
	if strings.Join(got.Labels, " ") != "nod" || len(got.Comments) != 1 || got.Comments[0].Author != "ada" || got.Open {
		t.Errorf("got %+v", got)
	}
}

func TestPullPageShowsVerifiedCommitsAndMergesWhatWasSeen(t *testing.T) {
	w := newWorld(t)
	text := "first\n--- looks like a header\n+++ so does this\n"
	_, err := w.sim.Commit("wil", full, "fix", "fix: plain\n", map[string]*string{"a \"b\" ü.txt": &text, "run.sh": nil})
	w.ok(err)
	c := w.asApp(map[string]string{"contents": "write", "pull_requests": "write"})
	at, err := w.sim.Head(full, "fix")
	w.ok(err)
	parent, _, err := c.Git.GetCommit(t.Context(), "ada", "web", at)
	w.ok(err)
	made, _, err := c.Git.CreateCommit(t.Context(), "ada", "web", &gh.Commit{Message: gh.String("fix: signed"), Tree: parent.Tree, Parents: []*gh.Commit{parent}}, nil)
	w.ok(err)
	_, _, err = c.Git.UpdateRef(t.Context(), "ada", "web", &gh.Reference{Ref: gh.String("refs/heads/fix"), Object: &gh.GitObject{SHA: made.SHA}}, false)
	w.ok(err)
	_, _, err = c.PullRequests.Create(t.Context(), "ada", "web", &gh.NewPullRequest{Title: gh.String("fix"), Head: gh.String("fix"), Base: gh.String("main"), Draft: gh.Bool(true)})
	w.ok(err)
	body, _ := w.page("/ada/web/pull/1")
	for _, want := range []string{`<span class="pill good">Verified</span>`, `<span class="pill">unsigned</span>`, "a &#34;b&#34; ü.txt", "+--- looks like a header", "&#43;3 −0", "Merge pull request"} {
		if !strings.Contains(body, want) && !strings.Contains(body, strings.ReplaceAll(want, "&#43;", "+")) && !strings.Contains(body, strings.ReplaceAll(want, "+", "&#43;")) {
			t.Errorf("%q is missing in\n%s", want, body)
		}
	}
	if got := w.post("/ada/web/pull/1/merge", url.Values{"head": {at}}, nil); got != http.StatusConflict {
		t.Errorf("merge of a head that moved: %d", got)
	}
	if got := w.post("/ada/web/pull/1/merge", url.Values{"head": {made.GetSHA()}}, nil); got != http.StatusSeeOther {
		t.Errorf("merge: %d", got)
	}
	v := w.view(1)
	if !v.Pull.Merged || v.Open {
		t.Errorf("got %+v", v)
	}
	head, err := w.sim.Head(full, "main")
	w.ok(err)
	if ok, reason, err := w.sim.Verification(full, head); err != nil || !ok {
		t.Errorf("the merge commit is not verified: %s, %v", reason, err)
	}
	body, _ = w.page("/ada/web/pull/1")
	if !strings.Contains(body, "Merged") || !strings.Contains(body, "looks like a header") || strings.Contains(body, "Merge pull request</button>") {
		t.Errorf("after the merge:\n%s", body)
	}
}
