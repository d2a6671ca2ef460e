//go:build linux

package scenarios

import (
	"context"
	"strings"
	"time"

	"nod"
	"nod/agent"
)

// scenario is one situation and what must come of it.
type scenario struct {
	name    string
	steps   []Step // of the model
	limits  agent.Limits
	planted string // "workspace/", "home/" or "" for nothing
	evil    bool   // a second model, at the address that is planted, can be reached
	walled  bool   // no host can be reached
	strange bool   // the program is told to trust another authority than the model has
	alone   bool   // play starts its environments itself
	play    func(w *scene)
}

// list is every scenario that p can play.
func list(p Program) []scenario {
	out := []scenario{
		{name: "Allow", steps: once("printf ok > allowed.txt"), play: allow},
		{name: "DenyWithAReason", steps: once("printf no > denied.txt"), play: deny},
		{name: "TwoPrompts", steps: once("printf 1 > one.txt", "printf 2 > two.txt"), play: twoPrompts},
		{name: "HarmlessCommandsAreAskedToo", steps: []Step{{Bash: []string{"ls"}}, {Bash: []string{"echo hi"}}, {Read: "here.txt"}, {Say: "Done."}}, play: harmless},
		{name: "MalformedAnswer", steps: once("printf no > malformed.txt"), play: malformed},
		{name: "AnswerWithAnotherID", steps: once("printf no > other.txt"), play: wrongID},
		{name: "Deadline", steps: once("printf no > late.txt"), play: deadline},
		{name: "TurnWithoutEnd", steps: once("printf no > never.txt"), limits: agent.Limits{TurnTimeout: 8 * time.Second}, play: noEnd},
		{name: "InputLostWithAPromptPending", steps: append(once("printf no > lost.txt"), after()...), limits: quick, play: lostPending},
		{name: "InputLostWithAToolRunning", steps: append([]Step{{Bash: []string{up}}}, after()...), limits: quick, play: lostRunning},
		{name: "InterruptWithAToolRunning", steps: append([]Step{{Bash: []string{up}}}, after()...), play: interruptRunning},
		{name: "InterruptWithAPromptPending", steps: append([]Step{{Bash: []string{"printf no > late.txt"}}}, after()...), play: interruptPending},
		{name: "InterruptWhileTheModelHangs", steps: append([]Step{{Say: "I think", Hang: true}}, after()...), play: interruptHanging},
		{name: "KillWithAPromptPending", steps: append([]Step{{Bash: []string{"printf no > late.txt"}}}, after()...), play: killPending},
		{name: "KillWithAToolRunning", steps: append([]Step{{Bash: []string{up}}}, after()...), play: killRunning},
		{name: "SupervisorKilledWithAPromptPending", steps: append([]Step{{Bash: []string{"printf no > late.txt"}}}, after()...), alone: true, play: supervisorKilled},
		{name: "SupervisorKilledWithAToolRunning", steps: append([]Step{{Bash: []string{up}}}, after()...), alone: true, play: supervisorKilled},
		{name: "Question", steps: []Step{{Question: true}, {Say: "Thank you."}}, play: question},
		{name: "QuestionUnanswered", steps: []Step{{Question: true}, {Say: "I choose."}}, play: unanswered},
		{name: "BackgroundShell", steps: []Step{{Background: "mkfifo go.fifo; head -c 1 go.fifo > /dev/null; printf ok > background.txt"}, {Say: "Started."}, {Say: "Noticed."}}, play: background},
		{name: "BudgetStop", steps: []Step{{Bash: []string{"printf 1 > first.txt"}}, {Bash: []string{"printf no > second.txt"}}, {Bash: []string{"printf no > third.txt"}}, {Say: "Done."}}, play: budget},
		{name: "RefusedKey", steps: []Step{{Status: 401, Sticky: true}}, play: ended(agent.ReasonAuthExpired, nod.EventSignedOut)},
		{name: "QuotaWithItsReset", steps: []Step{{Status: 429, Reset: reset, Sticky: true}}, play: quota},
		{name: "Overloaded", steps: []Step{{Status: 529, Sticky: true}}, play: ended(agent.ReasonAPIError, nod.EventAgentError)},
		{name: "StreamCutOnce", steps: []Step{{Say: "Half", Cut: true}, {Bash: []string{"printf ok > whole.txt"}}, {Say: "Done."}}, play: cutOnce},
		{name: "ThreeMegabytes", steps: []Step{{Path: "big.txt", Text: strings.Repeat("0123456789abcde\n", 3<<16)}, {Say: "Done."}}, play: big},
		{name: "Unicode", steps: []Step{{Path: odd, Text: oddText}, {Bash: []string{"printf '%s' 'grüße 🌍 \u202ex' > 'ü 🌍.txt'"}}, {Say: "Fertig: 🌍 \u202e"}}, play: unicodeNames},
		{name: "MessageDuringATurn", steps: []Step{{Bash: []string{"printf 1 > first.txt"}}, {Bash: []string{"printf 2 > second.txt"}}, {Say: "Done."}}, play: message},
		{name: "PlantedInTheRepository", steps: once("printf ok > ok.txt"), planted: "workspace/", play: planted},
		{name: "PlantedInTheHome", steps: once("printf ok > ok.txt"), planted: "home/", play: planted},
		{name: "PlantedAddress", steps: once("printf ok > ok.txt"), planted: "workspace/", evil: true, play: plantedAddress},
		{name: "NoWayOut", steps: once("printf no > no.txt"), walled: true, play: walled},
		{name: "UnknownAuthority", steps: once("printf no > no.txt"), evil: true, strange: true, play: strange},
	}
	if p.Plans {
		out = append(out, scenario{name: "Plan", steps: []Step{{Plan: "1. Write plan.txt"}, {Plan: "1. Write plan.txt\n2. Stop"}, {Bash: []string{"printf ok > plan.txt"}}, {Say: "Done."}}, play: plan})
	}
	if p.Terminal != nil {
		out = append(out, terminals()...)
	}
	return out
}

var (
	quick = agent.Limits{StopGrace: 2 * time.Second}
	reset = time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
)

const (
	odd     = "grüße 'q' 🌍.txt"
	oddText = "ä \u202e 🌍 \"q\" \\ <tag> & é\n"
	reason  = "not while the release is out"
)

func allow(w *scene) {
	l, r := w.play(yes)
	w.ends(r, "")
	w.file("allowed.txt", "ok")
	if len(l.asked) != 1 || l.asked[0].Tool != "Bash" || !strings.Contains(string(l.asked[0].Input), "printf ok > allowed.txt") {
		w.t.Errorf("asked %+v", l.asked)
	}
	if got := w.verdicts(); len(got) != 1 || got[0] != "allow "+modelHost+":443" {
		w.t.Errorf("the proxy was asked for %v", got)
	}
	for _, q := range w.model.Requests() {
		if q.Main && (!q.TLS || q.Host != modelHost) {
			w.t.Errorf("it came another way: %s", q.Dump())
		}
	}
	opened := all[nod.SessionOpened](l, nod.EventSession)
	if len(opened) != 1 || opened[0].Session != l.ID() || opened[0].Version == "" {
		w.t.Errorf("opened %+v", opened)
	}
	if used := all[nod.Usage](l, nod.EventAgentUsage); len(used) != 1 || used[0].InputTokens <= 0 {
		w.t.Errorf("used %+v", used)
	}
}

func deny(w *scene) {
	_, r := w.play(func(context.Context, int, nod.ApprovalRequest) nod.ApprovalAnswer {
		return nod.ApprovalAnswer{Reason: reason}
	})
	w.ends(r, "")
	w.file("denied.txt", "")
	if told, n := w.heard(reason); !told || n != 2 {
		w.t.Errorf("the model was told why: %v, in %d requests", told, n)
	}
}

func twoPrompts(w *scene) {
	l, r := w.play(func(_ context.Context, _ int, r nod.ApprovalRequest) nod.ApprovalAnswer {
		return nod.ApprovalAnswer{Allow: strings.Contains(string(r.Input), "two.txt"), Reason: reason}
	})
	w.ends(r, "")
	w.file("one.txt", "")
	w.file("two.txt", "2")
	if len(l.asked) != 2 {
		w.t.Errorf("asked %d times", len(l.asked))
	}
}

// harmless: whatever the program thinks of a call, the supervisor sees it.
func harmless(w *scene) {
	write(w.t, w.Workspace+"/here.txt", "here\n")
	l, r := w.play(yes)
	w.ends(r, "")
	called := all[nod.ToolCall](l, nod.EventToolCall)
	if len(called) != len(l.asked) || len(called) < 2 {
		w.t.Errorf("%d calls, asked %d times: %+v", len(called), len(l.asked), called)
	}
}

func malformed(w *scene) {
	p := &tap{Executor: w.box, edit: func(line []byte) [][]byte {
		if bad := w.program.Malformed(line); bad != nil {
			return [][]byte{bad}
		}
		return [][]byte{line}
	}}
	l := w.begin(p, "", yes, nil)
	within(w.t, "the session to end", l.drained)
	r, err := l.Wait()
	if err != nil || !r.OK {
		w.t.Errorf("%+v, %v", r, err)
	}
	w.empty() // end would take what the test broke for what the session did
	w.file("malformed.txt", "")
}

func wrongID(w *scene) {
	forged := 0
	p := &tap{Executor: w.box, edit: func(line []byte) [][]byte {
		other := w.program.WrongID(line)
		if other == nil {
			return [][]byte{line}
		}
		forged++
		return [][]byte{other, line, line} // somebody else's allow, the denial, and the denial again
	}}
	l := w.begin(p, "", func(context.Context, int, nod.ApprovalRequest) nod.ApprovalAnswer {
		return nod.ApprovalAnswer{Reason: reason}
	}, nil)
	r, err := l.end()
	if err != nil || forged == 0 {
		w.t.Errorf("%v, %d answers", err, forged)
	}
	w.ends(r, "")
	w.file("other.txt", "")
}

func deadline(w *scene) {
	l, r := w.play(func(ctx context.Context, _ int, _ nod.ApprovalRequest) nod.ApprovalAnswer {
		late, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		<-late.Done()
		return nod.ApprovalAnswer{Reason: "nobody answered before the deadline"}
	})
	w.ends(r, "")
	w.file("late.txt", "")
	if got := all[nod.ApprovalSettled](l, nod.EventApproval); len(got) != 1 || got[0].Outcome != nod.SettledDenied {
		w.t.Errorf("settled %+v", got)
	}
}

func noEnd(w *scene) {
	approve, _, _ := held()
	_, r := w.play(approve)
	w.ends(r, agent.ReasonTimeout)
	w.file("never.txt", "")
}

func planted(w *scene) {
	l, r := w.play(yes)
	w.ends(r, "")
	w.file("ok.txt", "ok")
	if len(l.asked) != 1 {
		w.t.Errorf("asked %d times", len(l.asked))
	}
}

// plantedAddress: a repository says where the model is. The key never goes there.
func plantedAddress(w *scene) {
	planted(w)
	if got := w.verdicts(); len(got) != 1 {
		w.t.Errorf("the proxy was asked for %v", got)
	}
}

func walled(w *scene) {
	l, r := w.play(yes)
	w.ends(r, agent.ReasonAPIError)
	if got := w.verdicts(); len(got) == 0 || len(w.model.Requests()) > 0 {
		w.t.Errorf("the proxy was asked for %v", got)
	}
	for _, v := range w.verdicts() {
		if !strings.HasPrefix(v, "deny ") {
			w.t.Errorf("the proxy said %s", v)
		}
	}
	for _, e := range l.events {
		if strings.Contains(string(e.Data), w.program.Key) {
			w.t.Errorf("the key is told: %s", e.Kind)
		}
	}
}

// strange: what answers under the model's name is not the model.
func strange(w *scene) {
	_, r := w.play(yes)
	w.ends(r, agent.ReasonAPIError)
	if len(w.model.Requests()) > 0 || strings.Contains(r.Text, w.program.Key) {
		w.t.Errorf("%d requests were made, %q", len(w.model.Requests()), r.Text)
	}
}
