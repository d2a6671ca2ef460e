package agenttest_test

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"nod"
	"nod/agent"
	"nod/agent/agenttest"
	"nod/agent/agenttest/conformance"
	"nod/agent/claude"
)

// The test binary is the scripted agent when it is started as one.
func TestMain(m *testing.M) {
	if agenttest.Dispatch(os.Args) {
		return
	}
	os.Exit(m.Run())
}

func subject(t *testing.T, plan agenttest.Script) conformance.Subject {
	t.Helper()
	dir := t.TempDir()
	a, err := agenttest.Adapter(plan, claude.Config{Env: map[string]string{"HOME": t.TempDir()}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return conformance.Subject{Adapter: a, Executor: agenttest.Host{Dir: dir}, Dir: dir,
		Heard: func(events []nod.Event, text string) bool {
			for _, e := range events {
				if e.Kind == nod.EventMessage && strings.Contains(string(e.Data), "Heard: "+text) {
					return true
				}
			}
			return false
		}}
}

func TestScriptedAgentConforms(t *testing.T) { conformance.Run(t, subject) }

func TestScriptedAgentIsAFullAgent(t *testing.T) {
	s := subject(t, agenttest.Script{Steps: []agenttest.Step{{Say: "hi"}}})
	if s.Adapter.Name() != "scripted" || s.Adapter.Capabilities().Mode() != agent.Full {
		t.Errorf("%s: %+v", s.Adapter.Name(), s.Adapter.Capabilities())
	}
}

func TestScriptsThatAreWrongSayWhere(t *testing.T) {
	for in, want := range map[string]string{
		`{}`:                                               "no steps",
		`{"steps":[]}`:                                     "no steps",
		`{"steps":[{"say":"a"},{}]}`:                       "steps[1]: has 0 verbs",
		`{"steps":[{"say":"a","bash":"b"}]}`:               "steps[0]: has 2 verbs [say bash]",
		`{"steps":[{"shout":"a"}]}`:                        `unknown field "shout"`,
		`{"steps":[{"say":"a"}]} more`:                     "followed by something",
		`{"steps":[{"write":"../x"}]}`:                     "inside the workspace",
		`{"steps":[{"write":"/x"}]}`:                       "inside the workspace",
		`{"steps":[{"sleep":"soon"}]}`:                     "duration",
		`{"steps":[{"sleep":"-1s"}]}`:                      "duration",
		`{"steps":[{"bash":"b","on_deny":"cry"}]}`:         "on_deny",
		`{"steps":[{"say":"b","on_deny":"stop"}]}`:         "on_deny belongs",
		`{"steps":[{"say":"b","status":401}]}`:             "status belongs",
		`{"steps":[{"fail":"b","status":200}]}`:            "not an error",
		`{"steps":[{"bash":"b","content":"x"}]}`:           "content belongs",
		`{"steps":[{"together":[{"say":"x"}]}]}`:           "together[0]: wants bash or write",
		`{"steps":[{"say":"a"}],"resume":[{}]}`:            "resume[0]: has 0 verbs",
		`{"steps":[{"exit":300}]}`:                         "exit wants",
		`[]`:                                               "not valid",
		`{"steps":[` + strings.Repeat(" ", 100<<10) + `]}`: "over 96 KiB",
	} {
		_, err := agenttest.Parse([]byte(in))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, wants %q", in, err, want)
		}
	}
}

func TestEveryVerbIsAccepted(t *testing.T) {
	in := `{"steps":[{"say":"a"},{"bash":"b","on_deny":"stop"},{"write":"a/b","content":"c"},{"sleep":"1ms"},{"await":true},
		{"line":"x"},{"together":[{"bash":"b"},{"write":"w"}]},{"exit":0},{"fail":"f","status":429}],"resume":[{"say":"again"}]}`
	if s, err := agenttest.Parse([]byte(in)); err != nil || len(s.Steps) != 9 {
		t.Errorf("%d steps, %v", len(s.Steps), err)
	}
}

// run plays a script to its end and allows or denies everything.
func run(t *testing.T, s conformance.Subject, session string, allow bool) (nod.AgentSession, []nod.Event, nod.Result, error) {
	t.Helper()
	as, err := s.Adapter.Start(t.Context(), s.Executor, nod.AgentSpec{Prompt: "Go.", Session: session, Approve: answer(allow)})
	if err != nil {
		t.Fatal(err)
	}
	var events []nod.Event
	for e := range as.Events() {
		events = append(events, e)
	}
	r, err := as.Wait()
	return as, events, r, err
}

func TestFailuresSayWhy(t *testing.T) {
	for status, want := range map[int]string{0: agent.ReasonError, 401: agent.ReasonAuthExpired, 403: agent.ReasonAuthExpired,
		429: agent.ReasonQuotaExhausted, 500: agent.ReasonAPIError} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			s := subject(t, agenttest.Script{Steps: []agenttest.Step{{Fail: "no luck", Status: status}}})
			_, _, r, err := run(t, s, "", true)
			if err != nil || r.OK || r.Reason != want || r.Text != "no luck" {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

func TestADenialEndsTheTurnWhereTheScriptSaysSo(t *testing.T) {
	for onDeny, want := range map[string]nod.Result{
		"":     {OK: true, Text: "after", Turns: 2},
		"stop": {OK: true, Text: "Not allowed: no", Turns: 1},
		"fail": {Text: "Not allowed: no", Reason: agent.ReasonError, Turns: 1},
	} {
		t.Run("on_deny="+onDeny, func(t *testing.T) {
			s := subject(t, agenttest.Script{Steps: []agenttest.Step{{Write: "a.txt", Content: "x", OnDeny: onDeny}, {Say: "after"}}})
			if _, _, r, err := run(t, s, "", false); err != nil || r != want {
				t.Errorf("%+v, %v", r, err)
			}
			if _, err := os.Stat(s.Dir + "/a.txt"); err == nil {
				t.Error("it was written")
			}
		})
	}
}

func TestACrashResumesAfterTheLastStepBegun(t *testing.T) {
	three := 3
	s := subject(t, agenttest.Script{Steps: []agenttest.Step{{Write: "d/one.txt", Content: "1"}, {Exit: &three}, {Bash: "cat d/one.txt; exit 7"}, {Say: "end"}}})
	as, _, r, err := run(t, s, "", true)
	if nod.CodeOf(err) != nod.Unavailable || r.Reason != agent.ReasonNoResult || !strings.Contains(err.Error(), "exit 3") {
		t.Fatalf("%+v, %v", r, err)
	}
	_, events, r, err := run(t, s, as.ID(), true)
	if err != nil || !r.OK || r.Text != "end" || r.Turns != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	for _, e := range events {
		if e.Kind == nod.EventToolResult && !strings.Contains(string(e.Data), `1\nexit status 7`) {
			t.Errorf("%s", e.Data)
		}
	}
}

func TestAnAwaitedMessageIsHeard(t *testing.T) {
	s := subject(t, agenttest.Script{Steps: []agenttest.Step{{Sleep: "1ms"}, {Await: true}, {Say: "thanks"}}})
	as, err := s.Adapter.Start(t.Context(), s.Executor, nod.AgentSpec{Prompt: "Go.", Approve: answer(true)})
	if err != nil {
		t.Fatal(err)
	}
	if err := as.Instruct(t.Context(), "now"); err != nil {
		t.Fatal(err)
	}
	var events []nod.Event
	for e := range as.Events() {
		events = append(events, e)
	}
	if r, err := as.Wait(); err != nil || r.Text != "thanks" || !s.Heard(events, "now") {
		t.Errorf("%+v, %v", r, err)
	}
}
