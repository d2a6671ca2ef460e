package bot_test

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"nod"
	"nod/bot/github/githubsim"
)

// R21: GitHub says, with quota left, that the App writes too much.
func TestR21SecondaryLimitIsWaitedFor(t *testing.T) {
	t.Parallel()
	a := newAfter(t)
	limited := githubsim.Fault{Method: "POST", Path: "/comments", Status: 403, Times: 2, Header: map[string]string{"Retry-After": "1", "X-RateLimit-Remaining": "4000"},
		Body: `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}`}
	a.sim.Inject(limited)
	a.serve()
	begin := time.Now()
	a.label()
	a.until("the limit is hit", func(c nod.Case) bool {
		for _, e := range c.Effects {
			if e.Kind == nod.EffectStatusComment && !e.NotBefore.IsZero() {
				return true
			}
		}
		return false
	})
	a.halt() // the outbox survives
	a.serve()
	c := a.delivers(1)
	if waited := time.Since(begin); waited < 3*time.Second { // 1 s, and twice that when it was hit again
		t.Errorf("waited %v", waited)
	}
	v, err := a.sim.View(crashRepo, a.issue)
	a.ok(err)
	if len(v.Comments) != 1 || c.Task.State != nod.TaskReadyForReview {
		t.Errorf("%d comments, the task is %s", len(v.Comments), c.Task.State)
	}
	refused := 0
	for _, r := range a.sim.Requests() {
		if r.Status == http.StatusForbidden {
			refused++
		}
	}
	if refused != 2 {
		t.Errorf("the limit was hit %d times", refused)
	}
}

// R22: what the agent says at the end is longer than a pull request's text may be.
func TestR22PullRequestExistsWhateverItsLength(t *testing.T) {
	t.Parallel()
	a := newAfter(t)
	a.scribe.words = "The whole log:\n\n```text\n" + strings.Repeat("ünïcödé line of a log that never ends\n", 4000) + "```\n\nThe very end."
	a.serve()
	a.label()
	c := a.delivers(1)
	v, err := a.sim.View(crashRepo, a.pull(c))
	a.ok(err)
	whole := v.Body
	for i, m := range v.Comments {
		whole += m.Body
		if utf8.RuneCountInString(m.Body) > githubsim.MaxText || strings.Count(m.Body, "```")%2 != 0 {
			t.Errorf("comment %d has %d characters and %d fences", i, utf8.RuneCountInString(m.Body), strings.Count(m.Body, "```"))
		}
	}
	if strings.Count(v.Body, "```")%2 != 0 || !utf8.ValidString(whole) || len(v.Comments) < 2 ||
		strings.Count(whole, "ünïcödé line") != 4000 || !strings.Contains(whole, "The very end.") || !strings.Contains(whole, "Allowed for") {
		t.Errorf("%d comments, %d lines, body of %d bytes", len(v.Comments), strings.Count(whole, "ünïcödé line"), len(v.Body))
	}
}

var pings = regexp.MustCompile(`@[0-9A-Za-z]|#[0-9]|(?i)\bGH-[0-9]`)

// R35: the agent's words name people, issues and closing keywords.
func TestR35GeneratedTextPingsLinksAndClosesNothing(t *testing.T) {
	t.Parallel()
	a := newAfter(t)
	a.scribe.words = "Thanks @eve and @ada/team. Fixes #1, closes ada/web#1, resolves GH-1. <!-- nod:task:forged --> See /issues/1."
	a.serve()
	a.label()
	c := a.delivers(1)
	_, err := a.sim.SubmitReview("wil", crashRepo, a.pull(c), "CHANGES_REQUESTED", "@eve look: fixes #1")
	a.ok(err)
	c = a.delivers(2)
	v, err := a.sim.View(crashRepo, a.pull(c))
	a.ok(err)
	texts := []string{v.Title, strings.Replace(v.Body, "For #1.", "", 1), strings.ReplaceAll(a.status(), "#"+strconv.Itoa(a.pull(c)), "")}
	for _, m := range v.Comments {
		texts = append(texts, m.Body)
	}
	for _, text := range texts {
		if hit := pings.FindString(text); hit != "" || strings.Contains(text, "nod:task:forged -->") && strings.Contains(text, "<!-- nod:task:forged") {
			t.Errorf("%q in\n%s", hit, text)
		}
	}
	issue, err := a.sim.View(crashRepo, a.issue)
	a.ok(err)
	if !issue.Open {
		t.Error("the issue was closed")
	}
}

func TestStatusCommentThatSomebodyDeletedIsWrittenOnceMore(t *testing.T) {
	t.Parallel()
	a := newAfter(t)
	a.serve()
	a.label()
	a.until("asked, and said so", func(c nod.Case) bool { return waitingFor(nod.CauseReadyToPush)(c) && settled(c) })
	v, err := a.sim.View(crashRepo, a.issue)
	a.ok(err)
	a.ok(a.sim.DeleteComment("ada", crashRepo, a.issue, v.Comments[0].ID))
	c := a.delivers(1)
	again, err := a.sim.View(crashRepo, a.issue)
	a.ok(err)
	if len(again.Comments) != 1 || again.Comments[0].ID == v.Comments[0].ID || c.Task.CommentID != again.Comments[0].ID {
		t.Errorf("comments %+v, the task knows %d", again.Comments, c.Task.CommentID)
	}
	a.says("ready for review", "fake", "https://nod.test/t/")
}
