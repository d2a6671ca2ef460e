package bot

import (
	"fmt"
	"strings"

	"nod"
)

// The labels that show where a task stands. An issue carries at most one.
const (
	labelWorking = "nod:working"
	labelReview  = "nod:review"
	labelFailed  = "nod:failed"
)

// label is the status label of a task in state s, or "" when it carries none.
func label(s nod.TaskState) string {
	switch s {
	case nod.TaskQueued, nod.TaskRunning, nod.TaskAwaitingGuidance:
		return labelWorking
	case nod.TaskReadyForReview:
		return labelReview
	case nod.TaskFailed:
		return labelFailed
	}
	return ""
}

// relabel intends the status label of c's task in place of every other, the
// trigger label included.
func (b *Bot) relabel(c *nod.Case, ch *nod.Change, what string) error {
	now := label(c.Task.State)
	swap := nod.SwapLabel{Issue: c.Task.Issue, Add: now, Remove: []string{b.cfg.TriggerLabel}}
	for _, l := range []string{labelWorking, labelReview, labelFailed} {
		if l != now {
			swap.Remove = append(swap.Remove, l)
		}
	}
	return b.intend(c, ch, nod.EffectSwapLabel, "label/"+c.Task.ID+"/"+what, c.Task.Repo.Key(), swap)
}

// tell intends the status comment as c stands. what makes the effect's key unique.
func (b *Bot) tell(c *nod.Case, ch *nod.Change, what string) error {
	return b.intend(c, ch, nod.EffectStatusComment, "status/"+c.Task.ID+"/"+what, c.Task.Repo.Key(), nod.StatusComment{
		Issue: c.Task.Issue, Marker: marker(c.Task), Body: b.statusBody(*c)})
}

// marker is the hidden comment by which nod finds its own words again.
func marker(t nod.Task) string { return "<!-- nod:task:" + t.ID + " -->" }

// statusBody is the text of the task's one comment. Apart from the reason, which
// is neutralised, every word is nod's own.
func (b *Bot) statusBody(c nod.Case) string {
	var w strings.Builder
	fmt.Fprintf(&w, "%s\n**nod** · %s\n\n", marker(c.Task), headline(c))
	if c.Task.Reason != "" {
		fmt.Fprintf(&w, "%s.\n\n", b.cfg.Neutralize(strings.TrimSuffix(c.Task.Reason, ".")))
	}
	fmt.Fprintf(&w, "| | |\n|---|---|\n| Task | [`%s`](%s) |\n| Agent | %s |\n", c.Task.Short(), b.cfg.Link(c.Task.ID), c.Task.Agent)
	if c.Run != nil {
		fmt.Fprintf(&w, "| Run | %d, %s |\n", c.Run.Number, c.Run.State)
	}
	for _, d := range c.Open() {
		fmt.Fprintf(&w, "| Waits for | %s |\n", waitsFor(d))
	}
	if c.Revision != nil && c.Revision.PullRequest.Number != 0 {
		fmt.Fprintf(&w, "| Pull request | #%d |\n", c.Revision.PullRequest.Number)
	}
	return w.String()
}

func headline(c nod.Case) string {
	switch c.Task.State {
	case nod.TaskQueued:
		if len(c.Open()) > 0 {
			return "waits for the owner before it starts"
		}
		return "queued"
	case nod.TaskRunning:
		return "at work"
	case nod.TaskAwaitingGuidance:
		return "waits for the owner"
	case nod.TaskReadyForReview:
		return "ready for review"
	case nod.TaskCompleted:
		return "merged"
	case nod.TaskCancelled:
		return "cancelled"
	case nod.TaskFailed:
		return "failed"
	}
	return string(c.Task.State)
}

// waitsFor names what a decision is about in fixed words.
func waitsFor(d nod.Decision) string {
	switch d.Cause {
	case nod.CauseTool:
		return "leave to use a tool"
	case nod.CauseUntrustedStart:
		return "leave to start on text by an outsider"
	case nod.CauseReadyToPush:
		return "leave to push"
	case nod.CauseEffectUnknown:
		return "word on whether something happened"
	}
	return "an answer to a question"
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
