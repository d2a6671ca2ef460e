package claude

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"nod"
)

// What the agent itself put under "answers" is not what a person said.
func TestAQuestionIsAnsweredByAPersonAlone(t *testing.T) {
	const input = `{"questions":[{"question":"Which colour?","header":"Colour","multiSelect":true,"options":[{"label":"Blue","description":"b"},{"label":"Red"}]}],"answers":{"Which colour?":"Red"}}`
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		s := begin(t, f, func(_ context.Context, r nod.ApprovalRequest) nod.ApprovalAnswer {
			if q := r.Questions; r.Kind != nod.RequestQuestion || len(q) != 1 || q[0].ID != "Which colour?" || !q[0].Several || strings.Join(q[0].Labels(), ",") != "Blue,Red" || q[0].Options[0].Description != "b" {
				t.Errorf("asked %+v", r)
			}
			return nod.ApprovalAnswer{Allow: true, Answers: map[string]string{"Which colour?": "Blue, Red"}}
		}, nil)
		f.say(canUse("r1", "AskUserQuestion", input))
		got := f.told()
		if !strings.Contains(got, `"behavior":"allow"`) || !strings.Contains(got, `"answers":{"Which colour?":"Blue, Red"}`) || strings.Count(got, `"answers"`) != 1 {
			t.Errorf("told %s", got)
		}
		f.exit(0)
		drain(s)
	})
}

// The program leaves the plan out of its request; the call before it has it.
func TestAPlanIsShownWithItsText(t *testing.T) {
	for name, c := range map[string]struct{ lines, want string }{
		"of the call": {`{"type":"assistant","message":{"content":[{"type":"text","text":"Look."},{"type":"tool_use","id":"t-r1","name":"ExitPlanMode","input":{"plan":"1. Fix"}}]}}`, "1. Fix"},
		"last words":  {`{"type":"assistant","message":{"content":[{"type":"text","text":"I would fix it."},{"type":"tool_use","id":"t-r1","name":"ExitPlanMode","input":{}}]}}`, "I would fix it."},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFake(t)
				s := begin(t, f, func(_ context.Context, r nod.ApprovalRequest) nod.ApprovalAnswer {
					if r.Kind != nod.RequestPlan || r.Plan != c.want || string(r.Input) != "{}" {
						t.Errorf("asked %+v", r)
					}
					return nod.ApprovalAnswer{Allow: true}
				}, nil)
				f.say(c.lines, canUse("r1", "ExitPlanMode", "{}"))
				if got := f.told(); !strings.Contains(got, `"updatedInput":{}`) {
					t.Errorf("told %s", got)
				}
				f.exit(0)
				drain(s)
			})
		})
	}
}
