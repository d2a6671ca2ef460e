package answer

import "nod"

// wording is how one cause is put to a person.
type wording struct {
	Title string // the question, as heading
	Tag   string // whose words the framed text is
	Go    string // what the button that permits does
	No    string // what the other one says
	Then  string // what happens at the deadline
	Note  string // what the passkey signs
}

const (
	byAgent    = "written by the agent"
	byOutsider = "an outsider’s words, read by the agent"
	byNod      = "reported by nod, may quote the agent"
)

// words are the wordings by cause; tools are told apart by their name.
func words(d nod.Decision) wording {
	w := wording{Title: "Allow this?", Tag: byNod, Go: "Allow", No: "Deny…", Then: "then denied",
		Note: "Your passkey signs exactly what is shown here. Nobody, nod included, can change it afterwards without it showing."}
	if d.Kind == nod.Question {
		w.Title, w.No, w.Then = "A question for you", "", "then it lapses"
	}
	switch d.Cause {
	case nod.CauseTool:
		w.Tag, w.Go = byAgent, "Allow once"
		switch d.Subject {
		case "Bash":
			w.Title = "Allow this command?"
			w.Note = "Your passkey signs exactly this command. Nobody, nod included, can change it afterwards without it showing."
		case "Write":
			w.Title = "Write this file?"
		case "Edit", "MultiEdit", "NotebookEdit":
			w.Title = "Change this file?"
		case "WebFetch":
			w.Title = "Fetch this page?"
		default:
			w.Title = "Allow this tool?"
		}
	case nod.CausePlan:
		w.Title, w.Tag, w.Go, w.No = "Go ahead with this plan?", byAgent, "Go ahead", "Not like this…"
	case nod.CauseAgentQuestion:
		w.Title, w.Tag = "The agent asks you", byAgent
	case nod.CauseUntrustedStart:
		w.Title, w.Tag, w.Go, w.No = "Start on an outsider’s issue?", byOutsider, "Start the agent", "Decline…"
		w.Note = "Your passkey signs exactly this text. If the issue changes before the start, you are asked again."
	case nod.CauseEgressHost:
		w.Title, w.Go = "Let the agent reach this host?", "Allow this host"
	case nod.CauseFeatureSource:
		w.Title, w.Go = "Trust this feature’s source?", "Trust this source"
	case nod.CauseAuthExpired:
		w.Title = "The agent is signed out"
	case nod.CauseQuotaExhausted:
		w.Title = "The agent’s quota is used up"
	case nod.CauseRebaseConflict:
		w.Title = "The work conflicts with its base"
	case nod.CausePrepareFailed:
		w.Title = "The result could not be prepared"
	case nod.CausePublishFailed:
		w.Title = "Not delivered"
	case nod.CauseRunFailed:
		w.Title = "The run failed"
	case nod.CauseReadyToPush:
		w.Title, w.Tag, w.No = "Ready to push?", byAgent, "Not yet…"
		w.Go = "Push " + d.CommitSHA[:min(7, len(d.CommitSHA))] + " with passkey"
		w.Note = "Your passkey signs this one commit. Another one would be asked about again."
	case nod.CauseAgentMayRun:
		w.Title, w.Go = "May this agent run here?", "Let it run"
	case nod.CauseRework:
		w.Title, w.Tag, w.Go, w.No = "Work on what was asked for?", byOutsider, "Let the agent work on it", "Leave it…"
	case nod.CauseEffectUnknown:
		w.Title = "Did this happen?"
	}
	return w
}

// optionLabel is what the button for an option says. The options nod knows get
// words, any other is shown as it is.
func optionLabel(option string) string {
	switch option {
	case nod.Allow:
		return "Allow"
	case nod.Deny:
		return "Deny"
	case nod.Retry:
		return "Try again"
	case nod.Rework:
		return "Send it back"
	case nod.Cancel:
		return "Cancel the task"
	case nod.Resume:
		return "Go on now"
	case nod.Hold:
		return "Do not go on by itself"
	}
	return option
}

// stateLabel says in words where a task stands, and in which colour.
func stateLabel(t nod.Task) (label, class string) {
	switch t.State {
	case nod.TaskQueued:
		return "queued", ""
	case nod.TaskRunning:
		return "running", "ok"
	case nod.TaskAwaitingGuidance:
		return "waits for you", "wait"
	case nod.TaskReadyForReview:
		return "ready for review", "ok"
	case nod.TaskCompleted:
		return "merged", "ok"
	case nod.TaskFailed:
		return "failed", "bad"
	case nod.TaskCancelled:
		return "cancelled", ""
	}
	return "unknown", "bad"
}
