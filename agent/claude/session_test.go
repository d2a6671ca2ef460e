package claude

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nod"
	"nod/agent"
)

func TestWhatRunsIsByteForByteWhatWasAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		input := `{"command":"echo <a> & \u2028 é \ud83d\ude00",  "n":1e400,"n":2}`
		var seen string
		s := begin(t, f, func(_ context.Context, r nod.ApprovalRequest) nod.ApprovalAnswer {
			seen = string(r.Input)
			return nod.ApprovalAnswer{Allow: true}
		}, nil)
		f.say(canUse(`r\"1`, "Bash", input))
		want := `{"type":"control_response","response":{"subtype":"success","request_id":"r\"1","response":{"behavior":"allow","updatedInput":` + input + `}}}`
		if got := f.told(); got != want {
			t.Errorf("told %s", got)
		}
		if seen != input {
			t.Errorf("asked %s", seen)
		}
		f.say(result("success", false, ""))
		go func() { f.told(); f.exit(0) }()
		drain(s)
		if r, err := s.Wait(); err != nil || !r.OK || f.kills != 1 {
			t.Errorf("%+v, %v, %d kills", r, err, f.kills)
		}
	})
}

func TestWhateverIsNotAClearAllowDenies(t *testing.T) {
	for name, c := range map[string]struct {
		line, why string
		answer    nod.ApprovalAnswer
	}{
		"zero answer":    {canUse("r1", "Bash", `{"command":"x"}`), "Denied.", nod.ApprovalAnswer{}},
		"reason":         {canUse("r1", "Bash", `{"command":"x"}`), "because", nod.ApprovalAnswer{Reason: "because"}},
		"no input":       {canUse("r1", "Bash", `null`), "what would run", nod.ApprovalAnswer{Allow: true}},
		"array input":    {canUse("r1", "Bash", `[1]`), "what would run", nod.ApprovalAnswer{Allow: true}},
		"no tool":        {canUse("r1", "", `{}`), "what would run", nod.ApprovalAnswer{Allow: true}},
		"plan":           {canUse("r1", "ExitPlanMode", `{}`), "smaller steps", nod.ApprovalAnswer{Reason: "smaller steps"}},
		"no questions":   {canUse("r1", "AskUserQuestion", `{"questions":7}`), "plain words", nod.ApprovalAnswer{Allow: true}},
		"twice the same": {canUse("r1", "AskUserQuestion", `{"questions":[{"question":"A?"},{"question":"A?"}]}`), "plain words", nod.ApprovalAnswer{Allow: true}},
		"unknown menu":   {strings.Replace(canUse("r1", "New", `{}`), `"subtype"`, `"requires_user_interaction":true,"subtype"`, 1), "plain words", nod.ApprovalAnswer{Allow: true}},
		"tool is number": {strings.Replace(canUse("r1", "Bash", `{}`), `"Bash"`, `7`, 1), "what would run", nod.ApprovalAnswer{Allow: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				s := begin(t, f, func(context.Context, nod.ApprovalRequest) nod.ApprovalAnswer { return c.answer }, nil)
				f.say(c.line)
				got := f.told()
				if !strings.Contains(got, `"behavior":"deny"`) || !strings.Contains(got, c.why) || strings.Contains(got, "updatedInput") {
					t.Errorf("told %s", got)
				}
				f.exit(1)
				drain(s)
			})
		})
	}
}

func TestOtherRequestsOfTheProgramAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		s := begin(t, f, yes, nil)
		for _, sub := range []string{"hook_callback", "mcp_message", "elicitation", "request_user_dialog", "from_the_future"} {
			f.say(`{"type":"control_request","request_id":"q","request":{"subtype":"` + sub + `"}}`)
			if got := f.told(); !strings.Contains(got, `"subtype":"error"`) || !strings.Contains(got, `"request_id":"q"`) {
				t.Errorf("%s: told %s", sub, got)
			}
		}
		f.exit(1)
		drain(s)
	})
}

func TestOnePromptMoreThanMayWaitIsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		gate := make(chan struct{})
		s := begin(t, f, func(ctx context.Context, r nod.ApprovalRequest) nod.ApprovalAnswer {
			<-gate
			return nod.ApprovalAnswer{Allow: true}
		}, nil)
		ended := make(chan struct{})
		go func() { drain(s); close(ended) }()
		for i := range agent.MaxPrompts + 1 {
			f.say(canUse(fmt.Sprintf("r%d", i), "Read", `{"file_path":"/etc/hostname"}`))
		}
		if got := f.told(); !strings.Contains(got, fmt.Sprintf(`"request_id":"r%d"`, agent.MaxPrompts)) || !strings.Contains(got, "deny") {
			t.Errorf("told %s", got)
		}
		close(gate)
		for range agent.MaxPrompts {
			if got := f.told(); !strings.Contains(got, "allow") {
				t.Errorf("told %s", got)
			}
		}
		f.exit(0)
		<-ended
	})
}

// pending starts a session with one prompt that waits and would allow once its
// context ends.
func pending(t *testing.T, f *fake) (s *session, withdrawn chan struct{}) {
	asked, withdrawn := make(chan struct{}), make(chan struct{})
	s = begin(t, f, func(ctx context.Context, r nod.ApprovalRequest) nod.ApprovalAnswer {
		close(asked)
		<-ctx.Done()
		close(withdrawn)
		return nod.ApprovalAnswer{Allow: true}
	}, nil)
	f.say(canUse("r1", "Bash", `{"command":"x"}`))
	<-asked
	return s, withdrawn
}

func TestALateAnswerIsNoAnswer(t *testing.T) {
	for name, line := range map[string]string{
		"withdrawn": `{"type":"control_cancel_request","request_id":"r1"}`,
		"result":    result("error_max_budget_usd", true, ""),
		"twice":     canUse("r1", "Bash", `{"command":"y"}`),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				s, withdrawn := pending(t, f)
				var told []string
				end := make(chan struct{})
				go func() {
					defer close(end)
					for l := f.told(); l != ""; l = f.told() {
						told = append(told, l)
					}
				}()
				f.say(line)
				<-withdrawn
				synctest.Wait()
				f.exit(0)
				drain(s)
				<-end
				for _, l := range told {
					if strings.Contains(l, "allow") {
						t.Errorf("told %s", l)
					}
				}
			})
		})
	}
}

func TestASetupThatIsNotOursIsRefused(t *testing.T) {
	for name, change := range map[string][2]string{
		"mcp server":    {`"mcp_servers":[]`, `"mcp_servers":[{"name":"evil"}]`},
		"no mcp list":   {`"mcp_servers":[],`, ``},
		"slash command": {`"slash_commands":[]`, `"slash_commands":["evil"]`},
		"skill":         {`"skills":[]`, `"skills":["evil"]`},
		"no skill list": {`"skills":[],`, ``},
		"plugin":        {`"path":"builtin"`, `"path":"/workspace/evil"`},
		"mode":          {`"permissionMode":"default"`, `"permissionMode":"bypassPermissions"`},
		"tool":          {`"tools":["Bash"`, `"tools":["Bash","Workflow"`},
		"no tool list":  {`"tools":["Bash","Write","Task","TaskStop"],`, ``},
		"old":           {`"claude_code_version":"2.1.332"`, `"claude_code_version":"2.1.331"`},
		"no version":    {`"claude_code_version":"2.1.332"`, `"claude_code_version":"new"`},
		"no session":    {sessionID, ``},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				a, err := New(config(nil))
				if err != nil {
					t.Fatal(err)
				}
				bad := strings.Replace(initLine, change[0], change[1], 1)
				if bad == initLine {
					t.Fatal("the case changes nothing")
				}
				go func() { f.told(); f.say(helloLine); f.told(); f.say(bad) }()
				_, err = a.Start(t.Context(), f, nod.AgentSpec{Prompt: "Go.", Approve: yes})
				if nod.CodeOf(err) != nod.Unsupported || f.kills == 0 {
					t.Errorf("%v, %d kills", err, f.kills)
				}
			})
		})
	}
}

func TestASetupThatChangesLaterEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		s := begin(t, f, yes, nil)
		f.say(strings.Replace(initLine, `"mcp_servers":[]`, `"mcp_servers":[1]`, 1))
		go f.told()
		drain(s)
		if r, err := s.Wait(); nod.CodeOf(err) != nod.Unsupported || r.Reason != agent.ReasonRefused || f.kills == 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestAProgramThatDoesNotSpeakIsKilled(t *testing.T) {
	for name, play := range map[string]func(f *fake){
		"silent": func(f *fake) { f.told() },
		"deaf":   func(*fake) {},
		"half":   func(f *fake) { f.told(); f.say(helloLine); f.told() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				a, err := New(config(nil))
				if err != nil {
					t.Fatal(err)
				}
				go play(f)
				began := time.Now()
				_, err = a.Start(t.Context(), f, nod.AgentSpec{Prompt: "Go.", Approve: yes})
				if nod.CodeOf(err) != nod.Unavailable || f.kills == 0 || time.Since(began) > 2*time.Minute {
					t.Errorf("%v, %d kills, %v", err, f.kills, time.Since(began))
				}
			})
		})
	}
}

func TestAStartThatIsCalledOffLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		a, err := New(config(nil))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Start(ctx, f, nod.AgentSpec{Prompt: "Go.", Approve: yes}); nod.CodeOf(err) != nod.Unavailable || f.kills == 0 {
			t.Errorf("%v, %d kills", err, f.kills)
		}
	})
}

func TestStopGoesStepByStepAndEveryStepHasALimit(t *testing.T) {
	for name, c := range map[string]struct {
		play func(f *fake)
		max  time.Duration
		told []string
	}{
		"obedient": {func(f *fake) {
			f.told()
			f.say(`{"type":"control_response","response":{"subtype":"success","request_id":"nod-interrupt"}}`,
				result("error_during_execution", true, `,"terminal_reason":"aborted_tools"`))
			f.told()
			f.exit(0)
		}, time.Second, nil},
		"no result":         {func(f *fake) { f.told(); f.told(); f.exit(0) }, 6 * time.Second, nil},
		"no exit":           {func(f *fake) { f.told(); f.say(result("error_during_execution", false, "")) }, 6 * time.Second, nil},
		"deaf":              {func(*fake) {}, 11 * time.Second, nil},
		"closes its output": {func(f *fake) { f.told(); f.outW.Close() }, 6 * time.Second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				s := begin(t, f, yes, nil)
				go drain(s)
				go c.play(f)
				began := time.Now()
				if err := s.Stop(t.Context()); err != nil {
					t.Error(err)
				}
				if d := time.Since(began); d > c.max || f.kills != 1 {
					t.Errorf("took %v, %d kills", d, f.kills)
				}
				if r, err := s.Wait(); err != nil || r.OK || r.Reason != agent.ReasonInterrupted {
					t.Errorf("%+v, %v", r, err)
				}
				if err := s.Instruct(t.Context(), "more"); nod.CodeOf(err) != nod.Conflict {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

func TestAStopInAHurryStillKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		s := begin(t, f, yes, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now() // nobody drains the events either
		if err := s.Stop(ctx); err != nil || f.kills != 1 || time.Since(began) > 6*time.Second {
			t.Errorf("%v, %d kills, %v", err, f.kills, time.Since(began))
		}
	})
}

func TestAKillThatIsNotProvenIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.deaf = true
		s := begin(t, f, yes, nil)
		go drain(s)
		if err := s.Stop(t.Context()); nod.CodeOf(err) != nod.Unavailable {
			t.Errorf("%v", err)
		}
		if _, err := s.Wait(); nod.CodeOf(err) != nod.Unavailable {
			t.Errorf("%v", err)
		}
	})
}

func TestATurnWithoutEndIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		s := begin(t, f, yes, func(c *Config) { c.TurnTimeout = time.Hour })
		go func() { f.told(); f.told(); f.exit(0) }()
		began := time.Now()
		drain(s)
		if r, err := s.Wait(); err != nil || r.OK || r.Reason != agent.ReasonTimeout || time.Since(began) < time.Hour || time.Since(began) > time.Hour+time.Minute {
			t.Errorf("%+v, %v after %v", r, err, time.Since(began))
		}
	})
}

func TestALineTooLongToReadEndsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		s := begin(t, f, yes, nil)
		go f.say(`{"type":"x","a":"` + strings.Repeat("x", agent.LineCap) + `"}`)
		events := drain(s)
		if r, err := s.Wait(); nod.CodeOf(err) != nod.TooLarge || r.OK || f.kills != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		if events[len(events)-1].Kind != nod.EventAgentError {
			t.Errorf("%v", events)
		}
	})
}

func TestASessionWaitsForEveryMessageItTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		greeted := make(chan string, 1)
		a, err := New(config(nil))
		if err != nil {
			t.Fatal(err)
		}
		go func() { greeted <- uuidOf(f.greet()) }()
		as, err := a.Start(t.Context(), f, nod.AgentSpec{Prompt: "Go.", Approve: yes})
		if err != nil {
			t.Fatal(err)
		}
		first := <-greeted
		events := make(chan []nod.Event)
		go func() { events <- drain(as) }()
		if err := as.Instruct(t.Context(), "and this"); err != nil {
			t.Fatal(err)
		}
		second := uuidOf(f.told())
		f.say(result("success", false, `,"result":"one","user_message_uuids":["`+first+`"]`))
		time.Sleep(time.Hour) // of the bubble: it must still be there
		f.say(initLine, result("success", false, `,"result":"two","user_message_uuid":"`+second+`"`))
		if f.told() != "" {
			t.Error("it was told something else")
		}
		f.exit(0)
		got := <-events
		if r, err := as.Wait(); err != nil || r.Text != "two" || len(got) != 5 {
			t.Errorf("%+v, %v, %d events", r, err, len(got))
		}
	})
}

func uuidOf(line string) string {
	var m struct{ UUID string }
	_ = json.Unmarshal([]byte(line), &m) // told has checked it
	return m.UUID
}

func TestABackgroundCommandIsWaitedForOnlySoLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		s := begin(t, f, yes, nil)
		began := time.Now()
		f.say(`{"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"b"}]}`, result("success", false, `,"result":"ok"`))
		drain(s)
		if r, err := s.Wait(); err != nil || !r.OK || f.kills != 1 || time.Since(began) < 2*time.Minute || time.Since(began) > 3*time.Minute {
			t.Errorf("%+v, %v, %v", r, err, time.Since(began))
		}
	})
}

func TestAProgramThatDiesSaysWhatItSaidLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		f.errText = "first\nout of \x1b[31mmemory\n"
		s := begin(t, f, yes, nil)
		f.exit(134)
		events := drain(s)
		r, err := s.Wait()
		if nod.CodeOf(err) != nod.Unavailable || !strings.Contains(err.Error(), "exit 134") || strings.Contains(err.Error(), "\x1b") || r.Reason != agent.ReasonNoResult {
			t.Errorf("%+v, %v", r, err)
		}
		if !slices.ContainsFunc(events, func(e nod.Event) bool { return strings.Contains(string(e.Data), "out of ") }) {
			t.Error("no event tells it")
		}
	})
}
