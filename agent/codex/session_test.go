package codex

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nod"
	"nod/agent"
)

func TestWhatIsAllowedIsWhatWasShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		var seen nod.ApprovalRequest
		s := begin(t, f, func(_ context.Context, r nod.ApprovalRequest) nod.ApprovalAnswer {
			seen = r
			return nod.ApprovalAnswer{Allow: true}
		}, nil)
		f.say(started(command("c1", "echo <a> & é", "")), mayRun("0", "c1", "echo <a> & é", `,"reason":"to see"`))
		if got := f.told(`"decision"`); got != `{"id":0,"result":{"decision":"accept"}}` {
			t.Errorf("told %s", got)
		}
		if string(seen.Input) != `{"command":`+quote("echo <a> & é")+`,"cwd":"/workspace"}` || seen.ID != "0" || seen.CallID != "c1" || seen.Tool != "Bash" || seen.Reason != "to see" {
			t.Errorf("asked %+v %s", seen, seen.Input)
		}
		f.say(completed(command("c1", "echo <a> & é", `,"status":"completed","exitCode":0,"aggregatedOutput":"x"`)), ended("completed", ""))
		drain(s)
		if r, err := s.Wait(); err != nil || !r.OK || f.kills != 1 {
			t.Errorf("%+v, %v, %d kills", r, err, f.kills)
		}
	})
}

func TestWhateverIsNotAClearAllowDeclines(t *testing.T) {
	run := started(command("c1", "x", ""))
	file := started(`{"type":"fileChange","id":"c1","changes":[{"path":"/a","kind":{"type":"add"},"diff":"x"}]}`)
	mayWrite := strings.Replace(strings.Replace(mayRun("0", "c1", "x", ""), "commandExecution", "fileChange", 1), `"kind":"command",`, "", 1)
	for name, c := range map[string]struct {
		item, ask, why string
		answer         nod.ApprovalAnswer
	}{
		"zero answer":         {run, mayRun("0", "c1", "x", ""), "", nod.ApprovalAnswer{}},
		"reason":              {run, mayRun("0", "c1", "x", ""), "because", nod.ApprovalAnswer{Reason: "because"}},
		"no call":             {run, mayRun("0", "c2", "x", ""), "what would run", nod.ApprovalAnswer{Allow: true}},
		"another command":     {run, mayRun("0", "c1", "y", ""), "what would run", nod.ApprovalAnswer{Allow: true}},
		"another directory":   {run, strings.Replace(mayRun("0", "c1", "x", ""), "/workspace", "/", 1), "what would run", nod.ApprovalAnswer{Allow: true}},
		"no command":          {started(`{"type":"commandExecution","id":"c1","command":null,"cwd":"/workspace"}`), strings.Replace(mayRun("0", "c1", "x", ""), `"x"`, "null", 1), "what would run", nod.ApprovalAnswer{Allow: true}},
		"input to a program":  {run, strings.Replace(mayRun("0", "c1", "x", ""), `"kind":"command"`, `"kind":"writeStdin"`, 1), "input to a running", nod.ApprovalAnswer{Allow: true}},
		"the network too":     {run, mayRun("0", "c1", "x", `,"networkApprovalContext":{"host":"h"}`), "more is asked", nod.ApprovalAnswer{Allow: true}},
		"permissions too":     {run, mayRun("0", "c1", "x", `,"additionalPermissions":{}`), "more is asked", nod.ApprovalAnswer{Allow: true}},
		"a root too":          {file, strings.Replace(mayWrite, `"cwd"`, `"grantRoot":"/","cwd"`, 1), "more is asked", nod.ApprovalAnswer{Allow: true}},
		"no changes":          {started(`{"type":"fileChange","id":"c1","changes":[]}`), mayWrite, "what would run", nod.ApprovalAnswer{Allow: true}},
		"a change as command": {file, mayRun("0", "c1", "x", ""), "what would run", nod.ApprovalAnswer{Allow: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				s := begin(t, f, func(context.Context, nod.ApprovalRequest) nod.ApprovalAnswer { return c.answer }, nil)
				f.say(c.item, c.ask)
				if c.why != "" {
					if got := f.told("turn/steer"); !strings.Contains(got, c.why) || !strings.Contains(got, `"expectedTurnId":"`+turnID) {
						t.Errorf("told %s", got)
					}
				}
				if got := f.told(`"decision"`); got != `{"id":0,"result":{"decision":"decline"}}` {
					t.Errorf("told %s", got)
				}
				f.exit(1)
				drain(s)
			})
		})
	}
}

func TestARequestOfAnotherThreadIsDeclined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		s := begin(t, f, yes, nil)
		f.say(started(command("c1", "x", "")), strings.Replace(mayRun(`"a"`, "c1", "x", ""), threadID, turnID, 1))
		if got := f.told(`"decision"`); got != `{"id":"a","result":{"decision":"decline"}}` {
			t.Errorf("told %s", got)
		}
		f.exit(1)
		drain(s)
	})
}

func TestOtherRequestsOfTheProgramAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		s := begin(t, f, yes, nil)
		for method, want := range map[string]string{"item/permissions/requestApproval": `"permissions":{}`, "mcpServer/elicitation/request": `"action":"decline"`,
			"execCommandApproval": `"decision":"denied"`, "item/tool/call": `"error":`, "account/chatgptAuthTokens/refresh": `"error":`, "from/the/future": `"error":`} {
			f.say(`{"method":"` + method + `","id":7,"params":{"threadId":"` + threadID + `"}}`)
			if got := f.told(`"id":7`); !strings.Contains(got, want) {
				t.Errorf("%s: told %s", method, got)
			}
		}
		f.exit(1)
		drain(s)
	})
}

func TestAQuestionIsAnsweredByItsID(t *testing.T) {
	const ask = `{"method":"item/tool/requestUserInput","id":0,"params":{"threadId":"` + threadID + `","turnId":"` + turnID + `","itemId":"q","questions":[{"id":"colour","header":"Colour","question":"Which?","isOther":true,"options":[{"label":"Blue","description":"b"}]},{"id":"size","question":"How big?"}]}}`
	for want, a := range map[string]nod.ApprovalAnswer{
		`{"id":0,"result":{"answers":{"colour":{"answers":["Blue"]}}}}`: {Allow: true, Answers: map[string]string{"colour": "Blue", "other": "x"}},
		`{"id":0,"result":{"answers":{}}}`:                              {Answers: map[string]string{"colour": "Blue"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake(t)
			s := begin(t, f, func(_ context.Context, r nod.ApprovalRequest) nod.ApprovalAnswer {
				if q := r.Questions; r.Kind != nod.RequestQuestion || len(q) != 2 || q[0].ID != "colour" || q[0].Text != "Which?" || !q[0].FreeText || q[0].Options[0].Label != "Blue" || !q[1].FreeText {
					t.Errorf("asked %+v", r)
				}
				return a
			}, nil)
			f.say(ask)
			if got := f.told(`"answers"`); got != want {
				t.Errorf("told %s", got)
			}
			f.exit(1)
			drain(s)
		})
	}
}

func TestWhatNobodyAllowedEndsTheSession(t *testing.T) {
	ask := []string{started(command("c1", "x", "")), mayRun("0", "c1", "x", "")}
	done := `,"status":"completed","exitCode":0`
	for name, lines := range map[string][]string{
		"never asked":    {started(command("c1", "x", "")), completed(command("c1", "x", done))},
		"failed unasked": {completed(command("c1", "x", `,"status":"failed","exitCode":2`))},
		"something else": append(slices.Clone(ask), completed(command("c1", "y", done))),
		"a file unasked": {completed(`{"type":"fileChange","id":"c1","status":"completed","changes":[{"path":"/a"}]}`)},
		"another thread": {`{"method":"thread/started","params":{"thread":{"id":"` + turnID + `"}}}`},
		"an MCP server":  {`{"method":"mcpServer/startupStatus/updated","params":{"name":"evil","status":"starting"}}`},
		"a planted hook": {note("hook/started", `"run":{}`)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				s := begin(t, f, yes, nil)
				for _, l := range lines {
					f.say(l)
					if strings.Contains(l, "requestApproval") {
						f.told(`"decision"`)
					}
				}
				drain(s)
				if r, err := s.Wait(); nod.CodeOf(err) != nod.Unsupported || r.Reason != agent.ReasonRefused || f.kills == 0 {
					t.Errorf("%+v, %v", r, err)
				}
			})
		})
	}
}

// pending starts a session with one prompt that waits and would allow once its
// context ends, and collects what the host writes.
func pending(t *testing.T, f *fake) (s *session, withdrawn chan struct{}) {
	asked, withdrawn := make(chan struct{}), make(chan struct{})
	s = begin(t, f, func(ctx context.Context, r nod.ApprovalRequest) nod.ApprovalAnswer {
		close(asked)
		<-ctx.Done()
		close(withdrawn)
		return nod.ApprovalAnswer{Allow: true}
	}, nil)
	f.say(started(command("c1", "x", "")), mayRun("0", "c1", "x", ""))
	<-asked
	return s, withdrawn
}

func TestALateAnswerIsNoAnswer(t *testing.T) {
	for name, line := range map[string]string{
		"resolved": note("serverRequest/resolved", `"requestId":0`),
		"turn":     ended("interrupted", ""),
		"twice":    mayRun("0", "c1", "x", ""),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				s, withdrawn := pending(t, f)
				f.say(line)
				<-withdrawn
				synctest.Wait()
				f.exit(0)
				drain(s)
				for l := range f.heard {
					if strings.Contains(l, "accept") {
						t.Errorf("told %s", l)
					}
				}
			})
		})
	}
}

func TestACallThatChangesAfterItWasAskedAboutIsDeclined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		gate := make(chan struct{})
		s := begin(t, f, func(context.Context, nod.ApprovalRequest) nod.ApprovalAnswer {
			<-gate
			return nod.ApprovalAnswer{Allow: true}
		}, nil)
		f.say(started(`{"type":"fileChange","id":"c1","changes":[{"path":"/a","kind":{"type":"add"},"diff":"x"}]}`),
			`{"method":"item/fileChange/requestApproval","id":0,"params":{"threadId":"`+threadID+`","turnId":"`+turnID+`","itemId":"c1"}}`,
			note("item/fileChange/patchUpdated", `"itemId":"c1","changes":[{"path":"/b","kind":{"type":"add"},"diff":"x"}]`))
		synctest.Wait()
		close(gate)
		if got := f.told(`"decision"`); got != `{"id":0,"result":{"decision":"decline"}}` {
			t.Errorf("told %s", got)
		}
		f.exit(0)
		drain(s)
	})
}

func TestASetupThatIsNotOursIsRefused(t *testing.T) {
	for name, change := range map[string][3]string{
		"old":             {"initialize", "nod/0.171.0", "nod/0.170.9"},
		"no version":      {"initialize", "nod/0.171.0", "codex"},
		"instructions":    {"thread/start", `"instructionSources":[]`, `"instructionSources":["/workspace/AGENTS.md"]`},
		"no list of them": {"thread/start", `"instructionSources":[],`, ``},
		"policy":          {"thread/start", `"untrusted"`, `"on-request"`},
		"reviewer":        {"thread/start", `"user"`, `"guardian"`},
		"sandbox":         {"thread/start", `dangerFullAccess`, `workspaceWrite`},
		"provider":        {"thread/start", `"modelProvider":"nod"`, `"modelProvider":"openai"`},
		"model":           {"thread/start", `"model":"gpt-5.5"`, `"model":"planted"`},
		"directory":       {"thread/start", `"cwd":"/workspace"`, `"cwd":"/"`},
		"no session":      {"thread/start", threadID, ``},
		"MCP server":      {"mcpServerStatus/list", `[]`, `[{"name":"evil"}]`},
		"no MCP list":     {"mcpServerStatus/list", `"data":[],`, ``},
		"not an answer":   {"thread/start", `{"thread"`, `["thread"`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				good := f.greeting[change[0]]
				f.greeting[change[0]] = strings.Replace(good, change[1], change[2], 1)
				if name == "not an answer" {
					f.greeting[change[0]] = `7`
				}
				if f.greeting[change[0]] == good {
					t.Fatal("the case changes nothing")
				}
				a, err := New(config(nil))
				if err != nil {
					t.Fatal(err)
				}
				_, err = a.Start(t.Context(), f, nod.AgentSpec{Prompt: "Go.", Approve: yes})
				if nod.CodeOf(err) != nod.Unsupported || f.kills == 0 {
					t.Errorf("%v, %d kills", err, f.kills)
				}
			})
		})
	}
}

func TestAStartThatFailsLeavesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *fake)
		want   nod.Code
	}{
		"silent":       {func(f *fake) { f.silent.Store(true) }, nod.Unavailable},
		"no home":      {func(f *fake) { f.setUp = 1 }, nod.Unavailable},
		"no thread":    {func(f *fake) { f.refuse["thread/start"] = "no" }, nod.Unavailable},
		"no turn":      {func(f *fake) { f.refuse["turn/start"] = "no" }, nod.Unavailable},
		"dies at once": {func(f *fake) { f.exit(1) }, nod.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				c.change(f)
				a, err := New(config(nil))
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				_, err = a.Start(t.Context(), f, nod.AgentSpec{Prompt: "Go.", Approve: yes})
				if nod.CodeOf(err) != c.want || f.command.Argv != nil && f.kills == 0 || time.Since(began) > 2*time.Minute {
					t.Errorf("%v, %d kills, %v", err, f.kills, time.Since(began))
				}
			})
		})
	}
}
