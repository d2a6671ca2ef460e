package notify

import (
	"net/url"
	"strconv"
	"strings"

	"nod"
)

// What ntfy's priorities are used for.
const (
	silent = 1 // shown where nobody is disturbed
	calm   = 3 // the default: sound, no more
	urgent = 4 // an agent stands still until it is answered, often against a clock
)

// title is the whole of what a push says about its cause.
var title = map[nod.Cause]string{
	nod.CauseTool:           "Allow a tool?",
	nod.CausePlan:           "Go ahead with a plan?",
	nod.CauseAgentQuestion:  "The agent asks you",
	nod.CauseUntrustedStart: "Start on an outsider's issue?",
	nod.CauseEgressHost:     "Let the agent reach a host?",
	nod.CauseFeatureSource:  "Trust a feature's source?",
	nod.CauseAuthExpired:    "The agent is signed out",
	nod.CauseQuotaExhausted: "The agent's quota is used up",
	nod.CauseRebaseConflict: "The work conflicts with its base",
	nod.CausePrepareFailed:  "The result could not be prepared",
	nod.CausePublishFailed:  "Not delivered",
	nod.CauseRunFailed:      "The run failed",
	nod.CauseReadyToPush:    "Ready to push?",
	nod.CauseAgentMayRun:    "May an agent run here?",
	nod.CauseEffectUnknown:  "Did this happen?",
	nod.CauseRework:         "Work on what was asked for?",
}

// presses are the causes that ring louder: an agent waits, or nothing goes on until
// its owner has done something.
var presses = map[nod.Cause]bool{
	nod.CauseTool: true, nod.CausePlan: true, nod.CauseAgentQuestion: true, nod.CauseEgressHost: true, nod.CauseFeatureSource: true,
	nod.CauseAgentMayRun: true, nod.CauseAuthExpired: true, nod.CauseQuotaExhausted: true,
}

// ask is what a push wants of its reader, and the ntfy tag that shows as a sign.
var ask = map[nod.DecisionKind]struct{ words, tag string }{
	nod.Question: {"your answer", "question"},
	nod.Approval: {"your approval", "raised_hand"},
	nod.Review:   {"your review", "eyes"},
}

// over is how a push says that nothing waits any more.
var over = map[nod.DecisionState]string{
	nod.DecisionAnswered: "Answered", nod.DecisionExpired: "Ran out of time", nod.DecisionSuperseded: "No longer needed",
}

// Tell is the push that tells of d, on the occasion w. Every word comes from a
// fixed list; of d and t it takes the kind, the cause, the state and the ids, and of
// those only letters and digits. publicURL is where the answer page is.
func Tell(d nod.Decision, t nod.Task, w nod.Telling, publicURL string) nod.Push {
	page, task := strings.TrimRight(publicURL, "/"), "Task "+plain(t.Short())
	p := nod.Push{Title: title[d.Cause], Click: page + "/d/" + url.PathEscape(plain(d.ID)), Priority: calm, Tag: ask[d.Kind].tag,
		Second: w.Second, Closed: w.Closed}
	if p.Title == "" {
		p.Title = "Something waits for you"
	}
	wanted := ask[d.Kind].words
	if wanted == "" {
		wanted = "you"
	}
	if d.Blocking && presses[d.Cause] {
		p.Priority = urgent
	}
	if w.Together {
		p.Title, p.Click, p.Tag, wanted = "Several things wait for you", page+"/t/"+url.PathEscape(plain(t.ID)), "bell", "more than one answer"
		p.Priority = urgent
	}
	switch {
	case w.Closed:
		p.Message, p.Priority, p.Tag = task+": nothing to do any more.", silent, "white_check_mark"
		if p.Title = over[d.State]; p.Title == "" {
			p.Title = "Nothing waits any more"
		}
	case w.Reminder > 0:
		p.Message = task + " still waits for " + wanted + ". Reminder " + strconv.Itoa(w.Reminder) + "."
	default:
		p.Message = task + " waits for " + wanted + "."
	}
	return p
}

// plain keeps what nod's own ids are made of.
func plain(id string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, id)
}
