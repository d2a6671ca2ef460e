package answer

import (
	"encoding/json"
	"fmt"
	"strings"

	"nod"
)

// deeds are the effects, as what nod does.
var deeds = map[nod.EffectKind]string{
	nod.EffectStatusComment: "write the status comment",
	nod.EffectReact:         "react to a command", nod.EffectReply: "answer a command",
	nod.EffectSwapLabel: "set the label",
	nod.EffectPush:      "push the branch",
	nod.EffectOpenPR:    "open the pull request",
	nod.EffectNotify:    "send a push to the phone",
}

// told are the acts, as what nod is told.
var told = map[nod.ActKind]string{
	nod.ActCancel: "is told to cancel the task", nod.ActSay: "is told, for the agent",
	nod.ActPause: "is told to pause the agent", nod.ActResume: "is told to let the agent go on",
}

// inWords puts an event whose data are many into a few words. It reports false when it
// has none for it, or when the data are not what they should be.
func inWords(e nod.Event) (what, text string, ok bool) {
	read := func(v any) bool { return json.Unmarshal(e.Data, v) == nil }
	switch e.Kind {
	case nod.EventTaskCreated:
		var t nod.Task
		ok = read(&t)
		return "takes the task", t.Title, ok
	case nod.EventVerdict:
		var v struct {
			Action, Tool string
			Verdict      struct{ Mode string }
		}
		ok = read(&v) && v.Verdict.Mode != ""
		return "decides", v.Action + v.Tool + ": " + v.Verdict.Mode, ok
	case nod.EventAttested:
		var a nod.Attestation
		ok = read(&a)
		text = fmt.Sprintf("isolation %s, uid %d, capabilities %s, network %s", a.Isolation, a.UID, a.Capabilities, strings.Join(a.Interfaces, " "))
		if a.RootReadOnly {
			text += ", read-only root"
		}
		return "proves the environment", text, ok
	case nod.EventEffectIntended, nod.EventEffectOutcome:
		var f nod.Effect
		ok = read(&f) && deeds[f.Kind] != ""
		text = deeds[f.Kind]
		if f.Error != "" {
			text += ": " + f.Error
		}
		if e.Kind == nod.EventEffectIntended {
			return "is going to", text, ok
		}
		return string(f.State), text, ok && f.State != ""
	case nod.EventActWanted:
		var a nod.Act
		ok = read(&a) && a.Kind != ""
		if what := told[a.Kind]; what != "" {
			return what, a.Words, ok
		}
		return "", "", false
	case nod.EventDecisionSeen:
		return "notes that the page was opened", e.By.Show(), e.By.Kind != ""
	case nod.EventAnswerRefused, nod.EventAnswerRepeated:
		var r struct{ Answer, Why string }
		ok = read(&r) && r.Why != ""
		what = "turns an answer away"
		if e.Kind == nod.EventAnswerRepeated {
			what = "takes an answer once more"
		}
		return what, r.Answer + ": " + r.Why, ok
	case nod.EventActFinished:
		var a nod.Act
		ok = read(&a) && a.Note != ""
		return string(a.State), a.Note, ok
	case nod.EventSession:
		var s nod.SessionOpened
		ok = read(&s)
		return "starts", strings.TrimSpace(s.Program + " " + s.Version + " " + s.Model), ok
	case nod.EventDiff:
		var d nod.Diff
		ok = read(&d)
		return "changes", strings.TrimSpace(d.Path + "\n" + d.Text), ok
	case nod.EventTestResult:
		var r nod.TestResult
		ok = read(&r)
		if r.OK {
			return "tests pass", r.Command, ok
		}
		return "tests fail", r.Command, ok
	case nod.EventApproval:
		var a nod.ApprovalSettled
		ok = read(&a)
		return "was " + a.Outcome, strings.TrimSpace(a.Tool + " " + a.Reason), ok
	case nod.EventSignedOut, nod.EventQuota:
		var r nod.Trouble
		ok = read(&r)
		text = r.Text
		if !r.ResetsAt.IsZero() {
			text += " (until " + r.ResetsAt.UTC().Format("2006-01-02 15:04 UTC") + ")"
		}
		return "cannot go on", text, ok
	case nod.EventTerminalOpened:
		return "opens a terminal", "in the environment; the task's own agent stays paused", true
	case nod.EventTerminalClosed:
		return "closes the terminal", "", true
	case nod.EventBudget:
		var x struct {
			Hard bool   `json:"hard"`
			Text string `json:"text"`
		}
		ok = read(&x)
		return map[bool]string{true: "stops at a budget", false: "is near a budget"}[x.Hard], x.Text, ok
	case nod.EventUsage:
		var u nod.TurnUsage
		ok = read(&u)
		said := []string{}
		if u.InputTokens != nil && u.OutputTokens != nil {
			said = append(said, fmt.Sprintf("%d tokens in, %d out", *u.InputTokens, *u.OutputTokens))
		}
		if u.CostUSD != nil {
			said = append(said, fmt.Sprintf("about $%.2f", *u.CostUSD))
		}
		if len(said) == 0 {
			said = []string{"an amount that nobody told"}
		}
		return "used", strings.Join(said, ", "), ok
	case nod.EventAgentUsage:
		var u nod.Usage
		ok = read(&u)
		text = fmt.Sprintf("%d tokens in, %d out", u.InputTokens, u.OutputTokens)
		if u.CostUSD != nil {
			text += fmt.Sprintf(", about $%.2f so far", *u.CostUSD)
		}
		return "used", text, ok
	}
	return "", "", false
}
