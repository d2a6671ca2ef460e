package bot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"nod"
	"nod/policy"
)

// executor starts processes in one environment.
type executor struct {
	environments Environments
	id           string
}

func (x executor) Exec(ctx context.Context, c nod.Command) (nod.Process, error) {
	return x.environments.Exec(ctx, x.id, c)
}

func (b *Bot) session(task string) nod.AgentSession {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sessions[task]
}

func (b *Bot) setSession(task string, s nod.AgentSession) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s == nil {
		delete(b.sessions, task)
		return
	}
	b.sessions[task] = s
}

// drive carries one run from starting to its end: the agent's session, its
// events, its prompts. It returns when the process is gone.
func (b *Bot) drive(ctx context.Context, c nod.Case, set RepoSettings, prompt string, m *meter) error {
	defer b.verb("drive")()
	task, run := c.Task.ID, c.Run.ID
	if err := mayRun(c); err != nil {
		return b.endRun(ctx, task, run, nod.RunFail, err)
	}
	// The session outlives no cancellation of its task: watch ends it.
	live, stop := context.WithCancel(ctx)
	defer stop()
	spec := nod.AgentSpec{Prompt: prompt, Session: c.Run.Session, Approve: b.approver(c, set), Environment: c.Environment.ID, Meter: m}
	in := executor{b.Environments, c.Environment.ID}
	session, err := b.Agents.Start(live, c.Run.Agent, in, spec)
	if spec.Session != "" && nod.CodeOf(err) == nod.NotFound {
		// The process died before it had kept its session; the prompt says all of it again.
		spec.Session = ""
		m.fresh()
		session, err = b.Agents.Start(live, c.Run.Agent, in, spec)
	}
	if err != nil {
		return b.endRun(ctx, task, run, nod.RunFail, fmt.Errorf("start agent: %w", err))
	}
	b.setSession(task, session)
	defer b.setSession(task, nil)
	if err := b.moveRun(ctx, task, run, nod.RunReady, ""); err != nil {
		b.log.Error("record that the agent runs", "task", task, "run", run, "err", err)
		stop()
	}
	var watching sync.WaitGroup
	watching.Go(func() { b.watch(live, task, session) })
	watching.Go(func() { b.attend(live, m) })
	for e := range session.Events() {
		b.keep(ctx, task, run, e, m)
	}
	result, err := session.Wait()
	b.settleUsage(ctx, task, run, m)
	stop()
	watching.Wait()
	if b.isPaused(ctx, task, run) {
		return nil
	}
	switch {
	case ctx.Err() != nil:
		return b.endRun(context.WithoutCancel(ctx), task, run, nod.RunInterrupt, ctx.Err())
	case err != nil:
		return b.endRun(ctx, task, run, nod.RunInterrupt, fmt.Errorf("agent process: %w", err))
	case !result.OK && result.Reason == string(nod.CauseQuotaExhausted):
		until := result.ResetsAt
		if until.IsZero() {
			until = m.reset()
		}
		return b.park(ctx, task, run, until)
	case !result.OK && result.Reason == string(nod.CauseAuthExpired):
		return b.endRun(ctx, task, run, nod.RunFail, errSignedOut)
	case !result.OK:
		return b.endRun(ctx, task, run, nod.RunFail, nod.E(nod.Failed, "the agent gave up: "+result.Reason, nil))
	}
	return b.endRun(ctx, task, run, nod.RunStop, nil, result.Text)
}

// mayRun refuses any agent but the demo's scripted one where nothing isolates it.
func mayRun(c nod.Case) error {
	if c.Environment.Attestation.Isolation == "none" && c.Run.Agent == "scripted" {
		return nil
	}
	return c.Environment.Attestation.Holds()
}

// watch stops the session when its task ends, its run is paused or ctx ends.
func (b *Bot) watch(ctx context.Context, task string, session nod.AgentSession) {
	var seen int64
	for ctx.Err() == nil {
		events, err := b.Queues.Wait(ctx, task, seen)
		if err != nil {
			break
		}
		seen = last(events, seen)
		if c, err := b.Ledger.Case(ctx, task); err == nil && (c.Task.Done() || c.Run != nil && c.Run.State == nod.RunPaused) {
			break
		}
	}
	grace, done := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer done()
	if err := session.Stop(grace); err != nil {
		b.log.Error("stop agent", "task", task, "err", err)
	}
}

func last(events []nod.Event, seen int64) int64 {
	if n := len(events); n > 0 {
		return max(seen, events[n-1].ID)
	}
	return seen
}

// keep stores one event of a session. An event that cannot be stored stops
// nothing, but a person should know.
func (b *Bot) keep(ctx context.Context, task, run string, e nod.Event, m *meter) {
	ctx = context.WithoutCancel(ctx)
	e.Stream = task
	ch := &nod.Change{By: nod.Actor{Kind: nod.ActorAgent}, Events: []*nod.Event{&e}}
	var told nod.Usage
	var turn nod.TurnUsage
	if e.Kind == nod.EventAgentUsage {
		if err := json.Unmarshal(e.Data, &told); err != nil {
			b.log.Error("read agent usage", "task", task, "run", run, "err", err)
			told = nod.Usage{}
		}
		turn, _ = m.turn(&told)
		used := nod.NewEvent(task, nod.Audit, nod.EventUsage, nod.Supervisor(), turn)
		ch.Events = append(ch.Events, &used)
	}
	if err := b.Ledger.Apply(ctx, ch); err != nil {
		b.log.Error("keep agent event", "task", task, "run", run, "kind", string(e.Kind), "err", err)
	} else if e.Kind == nod.EventAgentUsage {
		m.keep(ctx, turn, &told)
	}
	if e.Kind != nod.EventSession {
		return
	}
	var opened nod.SessionOpened
	if err := json.Unmarshal(e.Data, &opened); err != nil || opened.Session == "" {
		return
	}
	_, err := b.update(ctx, nod.Supervisor(), task, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Run == nil || c.Run.ID != run || c.Run.Done() || c.Run.Session == opened.Session {
			return false, nil
		}
		c.Run.Session = opened.Session
		ch.Runs = append(ch.Runs, c.Run)
		return true, nil
	})
	if err != nil {
		b.log.Error("keep session id", "task", task, "run", run, "err", err)
	}
}

// settleUsage keeps what was measured after the last turn that told of itself.
func (b *Bot) settleUsage(ctx context.Context, task, run string, m *meter) {
	turn, some := m.turn(nil)
	if !some {
		return
	}
	ctx = context.WithoutCancel(ctx)
	e := nod.NewEvent(task, nod.Audit, nod.EventUsage, nod.Supervisor(), turn)
	if err := b.Ledger.Apply(ctx, &nod.Change{By: nod.Supervisor(), Events: []*nod.Event{&e}}); err != nil {
		b.log.Error("keep usage", "task", task, "run", run, "err", err)
		return
	}
	m.keep(ctx, turn, nil)
}

// errSignedOut ends a run for good: only a person can sign the agent in again.
var errSignedOut = nod.E(nod.Failed, "the model's API does not take the agent's credentials", nil)

// moveRun applies one event to a run.
func (b *Bot) moveRun(ctx context.Context, task, run string, on nod.RunEvent, why string) error {
	_, err := b.update(ctx, nod.Supervisor(), task, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Run == nil || c.Run.ID != run {
			return false, nod.E(nod.Conflict, "the run is not the task's latest", nil)
		}
		if err := c.Run.On(on); err != nil {
			return false, err
		}
		c.Run.Reason = why
		ch.Runs = append(ch.Runs, c.Run)
		return true, nil
	})
	return err
}

// endRun records how a run's process ended. What the live run had asked is
// superseded; a failure opens the question whether to try again.
func (b *Bot) endRun(ctx context.Context, task, run string, on nod.RunEvent, cause error, words ...string) error {
	if cause != nil {
		b.log.Warn("run ended", "task", task, "run", run, "event", string(on), "err", cause)
	}
	_, err := b.update(ctx, nod.Supervisor(), task, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Run == nil || c.Run.ID != run || c.Run.Done() {
			return false, nil
		}
		if c.Task.Done() {
			on, cause = nod.RunStop, nil
		}
		if err := c.Run.On(on); err != nil {
			return false, err
		}
		c.Run.Reason = strings.Join(words, "\n")
		if cause != nil {
			c.Run.Reason = nod.PublicMessage(cause)
		}
		ch.Runs = append(ch.Runs, c.Run)
		supersede(c, ch, func(d nod.Decision) bool { return d.Run == run && !d.SurvivesRestart() })
		if on != nod.RunFail {
			return true, b.unblock(c, ch)
		}
		if errors.Is(cause, errSignedOut) {
			return true, b.open(c, ch, b.failure(nod.CauseAuthExpired, run, "The agent is signed out",
				c.Run.Reason+". Put its key right, or sign it in again, and then try again."))
		}
		return true, b.open(c, ch, b.failure(nod.CauseRunFailed, run, "The run failed", c.Run.Reason))
	})
	return err
}

// approver judges the permission prompts of one run: by rule first, then by a
// person. Whatever goes wrong on the way is a denial.
func (b *Bot) approver(c nod.Case, set RepoSettings) nod.Approver {
	task, run, workspace := c.Task.ID, c.Run.ID, b.environmentSpec(c, set).Workspace
	return func(ctx context.Context, r nod.ApprovalRequest) nod.ApprovalAnswer {
		verdict := policy.ToolAt(set.Rules.Tools, r.Tool, r.Input, links(workspace, policy.Paths(r.Tool, r.Input)))
		if r.Kind == nod.RequestQuestion && verdict.Mode != policy.Forbid {
			return b.askQuestions(ctx, task, run, r) // a rule has no answers
		}
		switch verdict.Mode {
		case policy.Auto:
			if err := b.recordVerdict(ctx, task, r, verdict); err != nil {
				return denied("nod could not record the rule that allows it")
			}
			return nod.ApprovalAnswer{Allow: true}
		case policy.Ask:
			return b.askTool(ctx, task, run, r)
		default:
			if err := b.recordVerdict(ctx, task, r, verdict); err != nil {
				b.log.Error("record verdict", "task", task, "run", run, "err", err)
			}
			return denied("a rule of this repository forbids it")
		}
	}
}

func denied(why string) nod.ApprovalAnswer { return nod.ApprovalAnswer{Reason: why} }

func (b *Bot) recordVerdict(ctx context.Context, task string, r nod.ApprovalRequest, v policy.Verdict) error {
	e := nod.NewEvent(task, nod.Audit, nod.EventVerdict, nod.Supervisor(), map[string]any{
		"tool": r.Tool, "input_digest": nod.Digest(r.Input), "verdict": v})
	return b.Ledger.Apply(ctx, &nod.Change{By: nod.Supervisor(), Events: []*nod.Event{&e}})
}

// askTool asks a person about one tool call and waits for the answer.
func (b *Bot) askTool(ctx context.Context, task, run string, r nod.ApprovalRequest) nod.ApprovalAnswer {
	cause, input := nod.CauseTool, string(r.Input)
	if r.Kind == nod.RequestPlan {
		if cause, input = nod.CausePlan, r.Plan; input == "" {
			input = "The agent gave its plan no text."
		}
	}
	deadline := b.cfg.Now().Add(b.cfg.DecisionTime)
	id, err := b.ask(ctx, task, nod.Decision{Run: run, Kind: nod.Approval, Cause: cause, Blocking: true, Subject: r.Tool, Deadline: deadline}, input)
	if err != nil {
		b.log.Warn("ask about a tool", "task", task, "run", run, "err", err)
		return denied("nod could not ask anybody: " + nod.PublicMessage(err))
	}
	d, told, err := b.await(ctx, id, deadline)
	if err != nil {
		b.dismiss(task, id)
	} else {
		b.goOnAfter(ctx, task, told)
	}
	switch {
	case err != nil:
		return denied("nobody answered before the request ended")
	case d.Permits():
		return nod.ApprovalAnswer{Allow: true}
	case d.State == nod.DecisionExpired:
		return denied("nobody answered before the deadline, so it is denied")
	case d.State == nod.DecisionSuperseded:
		return denied("the request was superseded")
	case d.Reason != "":
		return denied("denied by the maintainer: " + d.Reason)
	}
	return denied("denied by the maintainer")
}
