package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"nod"
	"nod/notify/answer/answertest"
)

// outcome is what `nod demo --once --json` prints.
type outcome struct {
	Task        string             `json:"task"`
	State       nod.TaskState      `json:"state"`
	Decisions   []outcomeDecision  `json:"decisions"`
	PullRequest outcomePull        `json:"pull_request"`
	Commits     []outcomeCommit    `json:"commits"`
	Environment outcomeEnvironment `json:"environment"`
	Audit       nod.ChainReport    `json:"audit"`
	Durations   map[string]float64 `json:"durations_ms"` // by verb
}

type outcomeDecision struct {
	Kind    nod.Cause `json:"kind"` // "tool", "ready_to_push"
	Subject string    `json:"subject"`
	Answer  string    `json:"answer"`
}

type outcomePull struct {
	URL     string `json:"url"`
	HeadSHA string `json:"head_sha"`
	Base    string `json:"base"`
	State   string `json:"state"`
}

type outcomeCommit struct {
	SHA      string `json:"sha"`
	Verified bool   `json:"verified"`
}

type outcomeEnvironment struct {
	Driver string `json:"driver"`
	nod.Attestation
}

// once does what a person would: enrols a passkey, labels the issue, and allows
// whatever the phone is told of. Its passkey exists in this process only.
func (d *demo) once(ctx context.Context, o demoOptions) error {
	ctx, cancel := context.WithTimeout(ctx, onceTime)
	defer cancel()
	browser, err := answertest.NewClient(d.public, nil)
	if err != nil {
		return err
	}
	if err := browser.Enrol(ctx, d.enrol); err != nil {
		return fmt.Errorf("enrol the software passkey: %w", err)
	}
	if err := browser.SignIn(ctx); err != nil {
		return fmt.Errorf("sign in: %w", err)
	}
	if err := d.sim.Label(demoOwner, demoRepo, d.issue, "nod"); err != nil {
		return err
	}
	c, err := d.follow(ctx, browser, func(nod.Decision) (string, string) { return nod.Allow, "" })
	if err != nil {
		return err
	}
	report, err := d.system.store.VerifyChain(ctx, "")
	if err != nil {
		return err
	}
	out := d.outcome(c, report)
	if o.json {
		enc := json.NewEncoder(o.data)
		enc.SetIndent("", "  ")
		if err := enc.Encode(out); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(o.talk, "\n%s\n", out.PullRequest.URL)
	}
	if c.Task.State != nod.TaskReadyForReview || !report.Verified {
		return nod.E(nod.Failed, fmt.Sprintf("the task is %s, not ready for review", c.Task.State), nil)
	}
	return nil
}

// follow answers each push until the task is ready for review or has ended. A
// question is an error: it says that something went wrong.
func (d *demo) follow(ctx context.Context, browser *answertest.Client, judge func(nod.Decision) (answer, reason string)) (nod.Case, error) {
	answered := map[string]bool{}
	var seen int64
	for {
		for _, m := range d.phone.Messages(d.topic.Reveal()) {
			_, id, ok := strings.Cut(m.Click, "/d/")
			if !ok || answered[id] {
				continue
			}
			answered[id] = true
			q, err := d.system.store.Decision(ctx, id)
			if err != nil {
				return nod.Case{}, err
			}
			if q.State != nod.DecisionOpen {
				continue // somebody else was faster
			}
			if q.Kind == nod.Question {
				return nod.Case{}, nod.E(nod.Failed, fmt.Sprintf("the demo got stuck: %s: %s", q.Subject, q.Input), nil)
			}
			answer, reason := judge(q)
			if err := browser.Answer(ctx, id, answer, reason); err != nil {
				return nod.Case{}, fmt.Errorf("answer %s: %w", id, err)
			}
		}
		tasks, err := d.system.store.Tasks(ctx)
		if err != nil {
			return nod.Case{}, err
		}
		if len(tasks) > 0 {
			t := tasks[len(tasks)-1]
			c, err := d.system.store.Case(ctx, t.ID)
			if err != nil {
				return nod.Case{}, err
			}
			if (t.State == nod.TaskReadyForReview || t.Done()) && settled(c) {
				return c, nil
			}
		}
		events, err := d.system.store.Wait(ctx, "", seen)
		if err != nil {
			return nod.Case{}, nod.E(nod.Unavailable, "the demo did not reach its pull request in time", err)
		}
		for _, e := range events {
			seen = max(seen, e.ID)
		}
	}
}

// settled reports whether everything that c intended outside has come to an end.
func settled(c nod.Case) bool {
	return !slices.ContainsFunc(c.Effects, func(e nod.Effect) bool { return e.State == nod.EffectIntended })
}

func (d *demo) outcome(c nod.Case, report nod.ChainReport) outcome {
	out := outcome{Task: c.Task.ID, State: c.Task.State, Audit: report, Durations: d.spent.milliseconds()}
	var asked, answered time.Duration
	for _, q := range c.Decisions {
		out.Decisions = append(out.Decisions, outcomeDecision{q.Cause, q.Subject, q.Answer})
		if q.State == nod.DecisionAnswered {
			answered += q.AnsweredAt.Sub(q.CreatedAt)
		}
	}
	for _, e := range c.Effects {
		if e.Kind == nod.EffectNotify && e.State == nod.EffectDone {
			asked += e.UpdatedAt.Sub(e.CreatedAt)
		}
	}
	out.Durations["ask"], out.Durations["answer"] = float64(asked.Milliseconds()), float64(answered.Milliseconds())
	if r := c.Revision; r != nil {
		pr := r.PullRequest
		out.PullRequest = outcomePull{pr.URL, pr.HeadSHA, pr.BaseRef, pr.State}
		for _, k := range r.Commits {
			out.Commits = append(out.Commits, outcomeCommit{k.OnGitHub(), k.Verified})
		}
	}
	if c.Environment != nil {
		out.Environment = outcomeEnvironment{d.system.driver.Name(), c.Environment.Attestation}
	}
	return out
}
