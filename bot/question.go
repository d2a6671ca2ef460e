package bot

import (
	"context"
	"fmt"
	"strings"

	"nod"
)

// maxQuestions bounds the questions of one request.
const maxQuestions = 8

// askQuestions puts the questions of an agent to a person, one after the other.
// Only when each has been answered is the agent told; it is never told half.
func (b *Bot) askQuestions(ctx context.Context, task, run string, r nod.ApprovalRequest) nod.ApprovalAnswer {
	if len(r.Questions) == 0 || len(r.Questions) > maxQuestions {
		return denied(fmt.Sprintf("a person is asked 1 to %d questions at once", maxQuestions))
	}
	for _, q := range r.Questions {
		if q.Secret {
			return denied("nod does not ask anybody for a secret")
		}
	}
	answers := map[string]string{}
	for i, q := range r.Questions {
		d := nod.Decision{Run: run, Kind: nod.Question, Cause: nod.CauseAgentQuestion, Blocking: true, Subject: oneLine(q.Text),
			Options: q.Labels(), FreeText: q.FreeText || q.Several || len(q.Options) == 0}
		id, err := b.ask(ctx, task, d, questionText(q, i, len(r.Questions)))
		if err != nil {
			b.log.Warn("ask a question of the agent", "task", task, "run", run, "err", err)
			return denied("nod could not ask anybody: " + nod.PublicMessage(err))
		}
		got, told, err := b.await(ctx, id, d.Deadline)
		if err != nil {
			b.dismiss(task, id)
			return denied("nobody answered before the request ended")
		}
		if got.State == nod.DecisionAnswered && i+1 < len(r.Questions) {
			told()
			b.goOn(task)
		} else {
			b.goOnAfter(ctx, task, told)
		}
		if got.State != nod.DecisionAnswered {
			return denied("nobody answered; decide yourself, or end your turn with the question")
		}
		answers[q.ID] = got.Answer
	}
	return nod.ApprovalAnswer{Allow: true, Answers: answers}
}

// questionText is what a person reads of q.
func questionText(q nod.AgentQuestion, i, of int) string {
	var out strings.Builder
	if of > 1 {
		fmt.Fprintf(&out, "Question %d of %d\n\n", i+1, of)
	}
	out.WriteString(q.Text + "\n")
	for _, o := range q.Options {
		out.WriteString("\n- " + o.Label)
		if o.Description != "" {
			out.WriteString(": " + o.Description)
		}
	}
	if q.Several {
		out.WriteString("\n\nMore than one may be chosen: write them, with commas between.")
	}
	return out.String()
}

// oneLine is the start of s in one line.
func oneLine(s string) string {
	const most = 200
	r := []rune(strings.Join(strings.Fields(s), " "))
	if len(r) > most {
		return string(r[:most]) + "…"
	}
	return string(r)
}
