package github_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"nod"
	"nod/bot/github"
)

// elsewhere answers in GitHub's place as if one side of each pull request were another
// repository of the same network of forks.
type elsewhere struct {
	next http.RoundTripper
	side string // "head" or "base"
	sent *[]string
}

func (e elsewhere) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := e.next.RoundTrip(r)
	if err != nil || !strings.HasSuffix(r.URL.Path, "/pulls") {
		return res, err
	}
	*e.sent = append(*e.sent, r.Method+" "+r.URL.Path)
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	var one map[string]any
	var many []map[string]any
	if json.Unmarshal(raw, &many) == nil {
		for _, p := range many {
			p[e.side].(map[string]any)["repo"].(map[string]any)["full_name"] = "mallory/web"
		}
		raw, err = json.Marshal(many)
	} else if err = json.Unmarshal(raw, &one); err == nil && one[e.side] != nil {
		one[e.side].(map[string]any)["repo"].(map[string]any)["full_name"] = "mallory/web"
		raw, err = json.Marshal(one)
	}
	res.Body, res.ContentLength = io.NopCloser(bytes.NewReader(raw)), int64(len(raw))
	res.Header.Del("Content-Length")
	return res, err
}

// TestPullRequestStaysInItsRepository: in a network of forks GitHub may name another
// base than was meant, and may list a stranger's branch of the same name.
func TestPullRequestStaysInItsRepository(t *testing.T) {
	for side, want := range map[string]nod.Code{"base": nod.Conflict, "head": ""} {
		t.Run(side, func(t *testing.T) {
			var sent []string
			w := newWorld(t, func(c *github.Config) { c.HTTP = elsewhere{c.HTTP, side, &sent} })
			intent := nod.OpenPullRequest{Title: "x", Body: "y", Head: w.task.Branch, Base: "main", SHA: w.branch()}
			out, err := w.client.OpenPulls().Lookup(t.Context(), w.task, w.effect(nod.EffectOpenPR, intent))
			if err != nil || out != nil {
				t.Errorf("before there is any: %s, %v", out, err)
			}
			_, err = w.client.OpenPulls().Perform(t.Context(), w.task, w.effect(nod.EffectOpenPR, intent))
			if want != "" {
				w.wantCode(err, want)
			} else {
				w.ok(err)
			}
			if out, err := w.client.OpenPulls().Lookup(t.Context(), w.task, w.effect(nod.EffectOpenPR, intent)); side == "head" && (err != nil || out != nil) {
				t.Errorf("a stranger's pull request is taken for nod's: %s, %v", out, err)
			}
			for _, s := range sent {
				if !strings.HasSuffix(s, "/repos/"+full+"/pulls") {
					t.Errorf("asked %s", s)
				}
			}
		})
	}
}
