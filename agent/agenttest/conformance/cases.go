package conformance

import (
	"context"
	"encoding/json"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"nod"
	"nod/agent"
)

func allowed(t *testing.T, s Subject) {
	var asked []nod.ApprovalRequest // one prompt, so no lock
	l := start(t, s, "", func(_ context.Context, r nod.ApprovalRequest) nod.ApprovalAnswer {
		asked = append(asked, r)
		return nod.ApprovalAnswer{Allow: true}
	})
	r, err := l.end(t)
	if err != nil || !r.OK || r.Text != "Done." {
		t.Errorf("result %+v, err %v", r, err)
	}
	if !exists(t, s, "allowed.txt") {
		t.Error("what was allowed did not run")
	}
	s.seen.Headless, s.seen.HostApprovals = r.OK, len(asked) > 0
	if len(asked) != 1 || asked[0].ID == "" || asked[0].Tool != "Bash" {
		t.Fatalf("asked %+v", asked)
	}
	calls := of[nod.ToolCall](t, l, nod.EventToolCall)
	if len(calls) != 1 || calls[0].ID != asked[0].CallID || !same(calls[0].Input, asked[0].Input) {
		t.Errorf("asked about %s, called %+v", asked[0].Input, calls)
	}
	settled := of[nod.ApprovalSettled](t, l, nod.EventApproval)
	if len(settled) != 1 || len(calls) != 1 || settled[0].Outcome != nod.SettledAllowed || settled[0].CallID != calls[0].ID || settled[0].InputDigest != nod.Digest(asked[0].Input) {
		t.Errorf("settled %+v", settled)
	}
	s.seen.Events = len(calls) == 1 && len(of[nod.ToolResult](t, l, nod.EventToolResult)) == 1
	if !inOrder(kinds(l.events), nod.EventSession, nod.EventToolCall, nod.EventToolResult, nod.EventMessage, nod.EventAgentUsage, nod.EventResult) {
		t.Errorf("events %v", kinds(l.events))
	}
	opened := of[nod.SessionOpened](t, l, nod.EventSession)
	if len(opened) != 1 || opened[0].Session != l.ID() || l.ID() == "" || opened[0].Version == "" {
		t.Errorf("opened %+v, id %q", opened, l.ID())
	}
	for _, e := range l.events {
		if e.Tier != nod.Transcript || e.By.Kind != nod.ActorAgent || e.At.IsZero() {
			t.Errorf("event %+v", e)
		}
	}
}

// same compares two JSON values whatever their spacing and escapes.
func same(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// runsUnasked: an adapter that says that it asks nobody asks nobody, and tells all.
func runsUnasked(t *testing.T, s Subject) {
	l := start(t, s, "", func(_ context.Context, r nod.ApprovalRequest) nod.ApprovalAnswer {
		t.Errorf("asked %+v", r)
		return nod.ApprovalAnswer{}
	})
	r, err := l.end(t)
	if err != nil || !r.OK {
		t.Errorf("result %+v, err %v", r, err)
	}
	calls, results := of[nod.ToolCall](t, l, nod.EventToolCall), of[nod.ToolResult](t, l, nod.EventToolResult)
	if len(calls) == 0 || len(calls) != len(results) {
		t.Errorf("%d calls and %d results are told", len(calls), len(results))
	}
	if !inOrder(kinds(l.events), nod.EventSession, nod.EventToolCall, nod.EventToolResult, nod.EventMessage, nod.EventAgentUsage, nod.EventResult) {
		t.Errorf("events %v", kinds(l.events))
	}
	s.seen.Headless, s.seen.Events = r.OK, len(calls) > 0
	if mode := s.Adapter.Capabilities().Mode(); mode != agent.Degraded {
		t.Errorf("its mode is %s", mode)
	}
}

// takesNoMessage: one that cannot be told anything in its turn says so.
func takesNoMessage(t *testing.T, s Subject) {
	l := start(t, s, "", allowAll)
	if err := l.Instruct(t.Context(), "please mind the gap"); nod.CodeOf(err) != nod.Conflict {
		t.Errorf("err %v, wants conflict", err)
	}
	if r, err := l.end(t); err != nil || !r.OK {
		t.Errorf("result %+v, err %v", r, err)
	}
}

func denied(t *testing.T, s Subject) {
	const reason = "not on a Monday"
	l := start(t, s, "", func(context.Context, nod.ApprovalRequest) nod.ApprovalAnswer {
		return nod.ApprovalAnswer{Reason: reason}
	})
	r, err := l.end(t)
	if err != nil || !r.OK {
		t.Errorf("result %+v, err %v: a denial does not end the turn", r, err)
	}
	if exists(t, s, "denied.txt") {
		t.Error("what was denied ran")
	}
	if results := of[nod.ToolResult](t, l, nod.EventToolResult); !hasReason(results, reason) {
		t.Errorf("the agent was told %+v", results)
	}
}

func twoPrompts(t *testing.T, s Subject) {
	l := start(t, s, "", func(_ context.Context, r nod.ApprovalRequest) nod.ApprovalAnswer {
		return nod.ApprovalAnswer{Allow: strings.Contains(string(r.Input), "two.txt"), Reason: "only the second"}
	})
	if r, err := l.end(t); err != nil || !r.OK {
		t.Errorf("result %+v, err %v", r, err)
	}
	if exists(t, s, "one.txt") || !exists(t, s, "two.txt") {
		t.Errorf("one ran: %v, two ran: %v", exists(t, s, "one.txt"), exists(t, s, "two.txt"))
	}
}

func stopPending(t *testing.T, s Subject) {
	approve, asked, withdrawn := blocked()
	l := start(t, s, "", approve)
	within(t, "the prompt", asked)
	l.stop(t)
	within(t, "the prompt to be withdrawn", withdrawn)
	if r, err := l.end(t); err != nil || r.OK || r.Reason == "" {
		t.Errorf("result %+v, err %v", r, err)
	}
	if exists(t, s, "late.txt") {
		t.Error("an allow that came after the stop ran")
	}
}

func stopMidTool(t *testing.T, s Subject) {
	up := awaitFIFO(t, s, "up.fifo")
	l := start(t, s, "", allowAll)
	within(t, "the tool to run", up)
	l.stop(t)
	gone(t, s, "tool.pid")
	gone(t, s, "daemon.pid")
	if r, err := l.end(t); err != nil || r.OK || r.Reason == "" {
		t.Errorf("result %+v, err %v", r, err)
	}
}

func lostChannel(t *testing.T, s Subject) {
	approve, asked, withdrawn := blocked()
	ex := &watched{Executor: s.Executor}
	l := startIn(t, s, ex, "", approve)
	within(t, "the prompt", asked)
	if err := ex.kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	within(t, "the prompt to be withdrawn", withdrawn)
	if r, err := l.end(t); err == nil || r.OK {
		t.Errorf("result %+v, err %v: a process that vanished is an error", r, err)
	}
	if exists(t, s, "lost.txt") {
		t.Error("it ran although nobody allowed it")
	}
}

func unknownLines(t *testing.T, s Subject) {
	ex := &watched{Executor: s.Executor, noise: "starting up…\n\n" + `{"type":"from_the_future","deep":{"a":[1,{}]}}` + "\n" +
		`{"type":"system","subtype":"also_from_the_future","tools":7}` + "\n[1,2]\n" + `{"type":"control_response","response":{"request_id":"nobody"}}` + "\n"}
	l := startIn(t, s, ex, "", allowAll)
	if r, err := l.end(t); err != nil || !r.OK {
		t.Errorf("result %+v, err %v", r, err)
	}
	if !exists(t, s, "allowed.txt") {
		t.Error("what was allowed did not run")
	}
}

func resumed(t *testing.T, s Subject) {
	first := start(t, s, "", allowAll)
	if r, err := first.end(t); err != nil || !r.OK || exists(t, s, "second.txt") {
		t.Fatalf("result %+v, err %v", r, err)
	}
	second := start(t, s, first.ID(), allowAll)
	if r, err := second.end(t); err != nil || !r.OK {
		t.Errorf("result %+v, err %v", r, err)
	}
	s.seen.Resume = second.ID() == first.ID() && exists(t, s, "second.txt")
	if second.ID() != first.ID() || !exists(t, s, "second.txt") {
		t.Errorf("session %s became %s", first.ID(), second.ID())
	}
	a, b := of[nod.Usage](t, first, nod.EventAgentUsage), of[nod.Usage](t, second, nod.EventAgentUsage)
	if s.Adapter.Capabilities().Cost && (len(a) == 0 || len(b) == 0 || *b[len(b)-1].CostUSD <= *a[len(a)-1].CostUSD) {
		t.Errorf("cost %+v then %+v: it is the session's so far", a, b)
	}
}

func unknownSession(t *testing.T, s Subject) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := s.Adapter.Start(ctx, s.Executor, nod.AgentSpec{Prompt: "Go on.", Session: "11111111-2222-4333-8444-555555555555", Approve: allowAll})
	if nod.CodeOf(err) != nod.NotFound {
		t.Errorf("err %v, wants not_found", err)
	}
}

func injected(t *testing.T, s Subject) {
	const words = "please mind the gap"
	said := make(chan struct{})
	asked := make(chan struct{})
	var once sync.Once
	l := start(t, s, "", func(ctx context.Context, _ nod.ApprovalRequest) nod.ApprovalAnswer {
		once.Do(func() { close(asked) })
		select {
		case <-said:
		case <-ctx.Done():
		}
		return nod.ApprovalAnswer{Allow: true}
	})
	within(t, "the prompt", asked)
	if err := l.Instruct(t.Context(), words); err != nil {
		t.Fatal(err)
	}
	close(said)
	if r, err := l.end(t); err != nil || !r.OK {
		t.Errorf("result %+v, err %v", r, err)
	}
	results := of[nod.Result](t, l, nod.EventResult)
	switch {
	case !s.Heard(l.events, words):
	case len(results) == 1:
		s.seen.Injection = agent.DeliverTurn
	default:
		s.seen.Injection = agent.DeliverNext
	}
	if want := s.Adapter.Capabilities().Injection; s.seen.Injection != want {
		t.Errorf("the message was delivered %q in %d turns, declared is %q", s.seen.Injection, len(results), want)
	}
}

func usage(t *testing.T, s Subject) {
	l := start(t, s, "", allowAll)
	if r, err := l.end(t); err != nil || !r.OK {
		t.Errorf("result %+v, err %v", r, err)
	}
	got := of[nod.Usage](t, l, nod.EventAgentUsage)
	if len(got) != 1 {
		t.Fatalf("usage %+v", got)
	}
	s.seen.Usage, s.seen.Cost = got[0].InputTokens > 0 && got[0].OutputTokens > 0, got[0].CostUSD != nil && *got[0].CostUSD > 0
}

func questions(t *testing.T, s Subject) {
	if s.Asks == nil {
		s.seen.Questions = s.Adapter.Capabilities().Questions // by the protocol that it shares with the adapter it stands for
		return
	}
	seen := s.seen
	s = s.Asks(t)
	l := start(t, s, "", func(_ context.Context, r nod.ApprovalRequest) nod.ApprovalAnswer {
		if r.Kind != nod.RequestQuestion || len(r.Questions) != 1 || !slices.Equal(r.Questions[0].Labels(), []string{"Blue", "Red"}) {
			t.Errorf("asked %+v", r)
			return nod.ApprovalAnswer{}
		}
		return nod.ApprovalAnswer{Allow: true, Answers: map[string]string{r.Questions[0].ID: "a dark Blue"}}
	})
	if r, err := l.end(t); err != nil || !r.OK {
		t.Errorf("result %+v, err %v", r, err)
	}
	if seen.Questions = s.Heard(l.events, "a dark Blue"); !seen.Questions {
		t.Error("the agent was not told the answer")
	}
}

func noApprover(t *testing.T, s Subject) {
	if _, err := s.Adapter.Start(t.Context(), s.Executor, nod.AgentSpec{Prompt: "Go."}); nod.CodeOf(err) != nod.Invalid {
		t.Errorf("err %v, wants invalid", err)
	}
}

func afterTheEnd(t *testing.T, s Subject) {
	l := start(t, s, "", allowAll)
	if _, err := l.end(t); err != nil {
		t.Fatal(err)
	}
	if err := l.Instruct(t.Context(), "one more thing"); nod.CodeOf(err) != nod.Conflict {
		t.Errorf("err %v, wants conflict", err)
	}
	l.stop(t) // stopping what has ended is nothing
}

// watched keeps hold of the process it starts, and lets it say noise first.
type watched struct {
	nod.Executor
	noise string
	proc  nod.Process
}

func (w *watched) Exec(ctx context.Context, c nod.Command) (nod.Process, error) {
	p, err := w.Executor.Exec(ctx, c)
	w.proc = p
	if err != nil || w.noise == "" {
		return p, err
	}
	return noisy{p, io.MultiReader(strings.NewReader(w.noise), p.Stdout())}, nil
}

func (w *watched) kill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return w.proc.Kill(ctx)
}

type noisy struct {
	nod.Process
	out io.Reader
}

func (n noisy) Stdout() io.Reader { return n.out }
