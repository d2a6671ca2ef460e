package notify

import (
	"net/url"
	"strings"

	"nod"
)

// What ntfy's priorities are used for.
const (
	calm   = 3 // the default: sound, no more
	urgent = 4 // an agent stands still until it is answered
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
}

// ask is what a push wants of its reader, and the ntfy tag that shows as a sign.
var ask = map[nod.DecisionKind]struct{ words, tag string }{
	nod.Question: {"waits for your answer.", "question"},
	nod.Approval: {"waits for your approval.", "raised_hand"},
	nod.Review:   {"waits for your review.", "eyes"},
}

// ForDecision is the push that tells of d. Every word comes from a fixed list;
// of d and t it takes the kind, the cause and the ids, and of those only letters
// and digits. publicURL is where the answer page is.
func ForDecision(d nod.Decision, t nod.Task, publicURL string) nod.Push {
	p := nod.Push{
		Title: title[d.Cause], Click: strings.TrimRight(publicURL, "/") + "/d/" + url.PathEscape(plain(d.ID)),
		Priority: calm, Tag: ask[d.Kind].tag,
	}
	if p.Title == "" {
		p.Title = "Something waits for you"
	}
	words := ask[d.Kind].words
	if words == "" {
		words = "waits for you."
	}
	p.Message = "Task " + plain(t.Short()) + " " + words
	if d.Blocking && d.Kind != nod.Review {
		p.Priority = urgent
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
