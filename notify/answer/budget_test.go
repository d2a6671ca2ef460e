package answer_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// pageBudget is how many bytes a decision's page may be in all, its style, script
// and mark included, before any compression.
const pageBudget = 60_000

var loaded = regexp.MustCompile(`(?:src|href)="([^"]+\.(?:css|js|svg)[^"]*)"`)

// TestDecisionPageKeepsItsBudget: small, from this site alone, and readable before
// the script has come.
func TestDecisionPageKeepsItsBudget(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	d := w.askBash("npm ci && npm test")
	html, err := c.Page(t.Context(), "/d/"+d.ID)
	w.must(err)
	total := len(html)
	seen := map[string]bool{}
	for _, m := range loaded.FindAllStringSubmatch(html, -1) {
		if seen[m[1]] {
			continue
		}
		seen[m[1]] = true
		if !strings.HasPrefix(m[1], "/assets/") {
			t.Errorf("the page loads %s", m[1])
			continue
		}
		resp, body := w.do(http.MethodGet, m[1], nil, "")
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", m[1], resp.Status)
		}
		total += len(body)
	}
	if len(seen) != 3 || total > pageBudget {
		t.Errorf("%d files, %d bytes; the budget is %d", len(seen)+1, total, pageBudget)
	}
	for _, m := range regexp.MustCompile(`<script[^>]*>`).FindAllString(html, -1) {
		if !strings.Contains(m, " defer") {
			t.Errorf("%s holds up the first paint", m)
		}
	}
	if !strings.Contains(html, "npm ci") {
		t.Error("what is asked is not in the page itself")
	}
}
