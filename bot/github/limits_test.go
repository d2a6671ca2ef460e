package github_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"nod"
	"nod/bot/github"
	"nod/bot/github/githubsim"
)

// The primary limit says when it is over, and the secondary one how long to wait.
func TestRateLimitsSayHowLongToWait(t *testing.T) {
	w := newWorld(t)
	_, err := w.client.DefaultBranch(t.Context(), w.task.Installation, w.repo())
	w.ok(err)
	w.sim.LimitRequests(1)
	_, err = w.client.DefaultBranch(t.Context(), w.task.Installation, w.repo())
	w.ok(err)
	_, err = w.client.DefaultBranch(t.Context(), w.task.Installation, w.repo())
	w.wantCode(err, nod.RateLimited)
	if wait, ok := github.RetryAfter(err); !ok || wait < 50*time.Minute || wait > time.Hour {
		t.Errorf("waits %v, %v", wait, ok)
	}
	w.sim.LimitRequests(5000)
	w.sim.LimitContent(1)
	w.ok(w.sim.Label("wil", full, w.task.Issue, trigger))
	p := w.client.Replies()
	reply := func(n int) error {
		marker := fmt.Sprintf("<!-- nod:reply:%d -->", n)
		_, err := p.Perform(t.Context(), w.task, w.effect(nod.EffectReply, nod.Reply{Place: nod.Place{Repo: w.repo(), Installation: w.task.Installation, Issue: w.task.Issue},
			Marker: marker, Body: marker + "\nhello"}))
		return err
	}
	w.ok(reply(1))
	err = reply(2)
	w.wantCode(err, nod.RateLimited)
	if wait, ok := github.RetryAfter(err); !ok || wait <= 0 || wait > time.Minute+time.Second {
		t.Errorf("waits %v, %v", wait, ok)
	}
}

// R18: what is missing is named, with the page where it is accepted.
func TestR18MissingPermissionIsNamedWithItsPage(t *testing.T) {
	w := newWorld(t)
	w.ok(w.sim.Grant("ada", map[string]string{"metadata": "read", "issues": "read"}))
	_, err := w.client.StatusComments().Perform(t.Context(), w.task, w.statusComment("hello"))
	w.wantCode(err, nod.Forbidden)
	var e *nod.Error
	if !errors.As(err, &e) || !strings.Contains(e.Msg, "lacks issues: write") || !strings.Contains(e.Hint, "/settings/installations/") {
		t.Errorf("got %+v", e)
	}
	w.ok(w.sim.Grant("ada", map[string]string{"metadata": "read", "issues": "write"}))
	_, err = w.client.StatusComments().Perform(t.Context(), w.task, w.statusComment("hello"))
	w.ok(err)
}

// A clock that is wrong is measured against the date of GitHub's answers, and said.
func TestClockSkewIsMeasuredAndSaid(t *testing.T) {
	var log bytes.Buffer
	w := newWorld(t, func(c *github.Config) {
		c.Log = slog.New(slog.NewTextHandler(&log, nil))
		c.Now = func() time.Time { return time.Now().Add(7 * time.Minute) }
	})
	w.sim.Inject(githubsim.Fault{Path: "/installation", Status: 401, Header: map[string]string{"Date": time.Now().UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")}, Times: 9})
	_, err := w.client.Installation(t.Context(), w.repo())
	w.wantCode(err, nod.Unauthenticated)
	var e *nod.Error
	if !errors.As(err, &e) || !strings.Contains(e.Hint, "clock is 7m") {
		t.Errorf("got %+v", e)
	}
	if _, err := w.client.Installation(t.Context(), w.repo()); err == nil || strings.Count(log.String(), "the clock is not GitHub's") != 1 {
		t.Errorf("log: %s", log.String())
	}
}
