package answer_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"nod"
	"nod/notify/answer"
)

func TestNodsOwnActsAreToldInWords(t *testing.T) {
	w := newWorld(t)
	task := w.task("t00000000000000aa", "Flaky login test")
	cost := 0.25
	for _, e := range []struct {
		tier nod.EventTier
		kind nod.EventKind
		data any
	}{
		{nod.Audit, nod.EventTaskCreated, task},
		{nod.Audit, nod.EventVerdict, map[string]any{"action": "start", "verdict": map[string]any{"mode": "auto"}}},
		{nod.Audit, nod.EventVerdict, map[string]any{"tool": "Read", "verdict": map[string]any{"mode": "ask"}}},
		{nod.Audit, nod.EventAttested, nod.Attestation{Isolation: "namespaces", UID: 1000, Interfaces: []string{"lo"}, RootReadOnly: true}},
		{nod.Audit, nod.EventEffectIntended, nod.Effect{Kind: nod.EffectPush, State: nod.EffectIntended}},
		{nod.Audit, nod.EventEffectOutcome, nod.Effect{Kind: nod.EffectOpenPR, State: nod.EffectRefused, Error: "the base is gone"}},
		{nod.Transcript, nod.EventSession, nod.SessionOpened{Program: "claude", Version: "2.1.0"}},
		{nod.Audit, nod.EventBudget, map[string]any{"scope": "repo", "hard": true, "text": "this repository today has used 9 tokens of 8"}},
		{nod.Audit, nod.EventUsage, nod.Usage{InputTokens: 12, OutputTokens: 3, CostUSD: &cost}},
	} {
		w.store.commit(nod.NewEvent(task.ID, e.tier, e.kind, nod.Supervisor(), e.data))
	}
	w.store.commit(nod.NewEvent(task.ID, nod.Audit, nod.EventEffectOutcome, nod.Supervisor(), map[string]any{"kind": "of a later version"}))
	page, err := w.owner().Page(t.Context(), "/t/"+task.ID)
	w.must(err)
	for _, want := range []string{"takes the task", "Flaky login test", "start: auto", "Read: ask", "isolation namespaces, uid 1000", "network lo, read-only root",
		"is going to", "push the branch", "refused", "open the pull request: the base is gone", "claude 2.1.0", "12 tokens in, 3 out, about $0.25", "today has used 9 tokens of 8",
		"of a later version"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if n := strings.Count(page, "{&#34;"); n != 1 {
		t.Errorf("%d events are shown as data, want only the unknown one", n)
	}
}

func TestLinksNeedAWebAddressOfGitHub(t *testing.T) {
	for _, bad := range []string{"ftp://github.example", "github.example", "https:///x", "javascript:alert(1)", "http://%zz"} {
		store := newFakeStore(time.Now)
		if _, err := answer.New(answer.Config{Decisions: store, Witness: store, Streams: store, Passkeys: store, Sessions: store, PublicURL: "https://nod.example", GitHubURL: bad,
			Log: slog.New(slog.DiscardHandler)}); nod.CodeOf(err) != nod.Invalid {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
