package bot

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"nod"
)

// The labels that show where a task stands. An issue carries at most one.
const (
	labelWorking = "nod:working"
	labelReview  = "nod:review"
	labelFailed  = "nod:failed"
)

// StateLabels are the labels that show where a task stands.
func StateLabels() []string { return []string{labelWorking, labelReview, labelFailed} }

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
	for _, l := range StateLabels() {
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

// checkRun intends what nod's check on the published commit sha says: without a
// conclusion work is under way.
func (b *Bot) checkRun(c *nod.Case, ch *nod.Change, sha, conclusion, title string) error {
	key := fmt.Sprintf("check/%s/%.12s/%d", c.Task.ID, sha, c.Task.Version+1)
	return b.intend(c, ch, nod.EffectCheckRun, key, c.Task.Repo.Key(), nod.CheckRun{SHA: sha, Conclusion: conclusion, Title: title,
		Summary: checkSummary(*c, sha), Link: b.cfg.Link(c.Task.ID)})
}

// delivered intends the checks that tell of a revision that was just published: on its
// own commit, and on the one that it took the place of.
func (b *Bot) delivered(c *nod.Case, ch *nod.Change) error {
	r := c.Revision
	conclusion, title := "neutral", "Published; no check of its own is configured"
	if r.Check.Passed(r.SHA) {
		conclusion, title = "success", "Checked before it was pushed"
	}
	if err := b.checkRun(c, ch, r.Published(), conclusion, title); err != nil {
		return err
	}
	before := ""
	if push, ok := effect(*c, publishKey(*c, "push")); ok {
		var in nod.PushBranch
		if err := json.Unmarshal(push.Intent, &in); err != nil {
			return nod.E(nod.Internal, "the intent of a push cannot be read", err)
		}
		if !in.Forward { // what was there before is not nod's
			before = in.Old
		}
	}
	if before == "" {
		return nil
	}
	return b.checkRun(c, ch, before, "neutral", fmt.Sprintf("Followed by %.12s", r.Published()))
}

// checkSummary is nod's own words and receipts about the commit.
func checkSummary(c nod.Case, sha string) string {
	r := c.Revision
	if r == nil || r.Published() != sha {
		return "Another round has other commits."
	}
	check := "No check is configured for this repository."
	if r.Check.Passed(r.SHA) {
		check = fmt.Sprintf("`%s` passed in %s, in the environment, for exactly this tree.", code(strings.Join(r.Check.Command, " ")), r.Check.Duration.Round(time.Millisecond))
	}
	return fmt.Sprintf("%s\n\n%s on `%.12s` of `%s`; diff `sha256:%s`.", check, plural(len(r.Commits), "commit"), r.BaseSHA, code(r.BaseRef), r.DiffDigest)
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
	if late := c.Task.Late(); late >= worthSaying {
		fmt.Fprintf(&w, "| Began | %s after it was asked for: nod did not hear of it earlier |\n", roughly(late))
	}
	for _, d := range c.Open() {
		fmt.Fprintf(&w, "| Waits for | %s |\n", waitsFor(d))
	}
	if n := pullOf(c); n != 0 {
		fmt.Fprintf(&w, "| Pull request | #%d |\n", n)
	}
	if u := used(c.Usage); u != "" {
		fmt.Fprintf(&w, "| Used | %s |\n", u)
	}
	if next := b.next(c); next != "" {
		fmt.Fprintf(&w, "\n%s\n", next)
	}
	return w.String()
}

// used is what the task's runs have used, or "".
func used(u nod.Usage) string {
	if u.InputTokens == 0 && u.OutputTokens == 0 {
		return ""
	}
	line := fmt.Sprintf("%s tokens in, %s out", thousands(u.InputTokens), thousands(u.OutputTokens))
	if u.CostUSD != nil {
		line += fmt.Sprintf(", about $%.2f by the agent's own estimate", *u.CostUSD)
	}
	return line
}

func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// next is what a person can do now.
func (b *Bot) next(c nod.Case) string {
	page := "[the task's page](" + b.cfg.Link(c.Task.ID) + ")"
	switch {
	case c.Task.State == nod.TaskCompleted, c.Task.State == nod.TaskReadyForReview && forwarded(c):
		return ""
	case c.Task.Done():
		return "Next: set the label `" + b.cfg.TriggerLabel + "` again, or write `/nod retry`."
	case len(c.Open()) > 0:
		return "Next: an owner answers on " + page + "."
	case c.Task.State == nod.TaskReadyForReview:
		return fmt.Sprintf("Next: look at #%d. Merge it, or say what is to change in a review or with `/nod say …`.", pullOf(c))
	}
	return "Next: nothing to do. `/nod say …` tells the agent something, `/nod cancel` ends it, " + page + " shows it."
}

// worthSaying is how late a start must be for the status comment to say so.
const worthSaying = 3 * time.Minute

// roughly is a duration in the largest unit that fits it.
func roughly(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return plural(int(d/(24*time.Hour)), "day")
	case d >= 2*time.Hour:
		return plural(int(d/time.Hour), "hour")
	}
	return plural(int(d/time.Minute), "minute")
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
		if forwarded(c) {
			return "done: its commits are in `" + code(c.Task.BaseRef) + "`"
		}
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
	case nod.CauseRework:
		return "leave to work on what was asked for"
	}
	return "an answer to a question"
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
