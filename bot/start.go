package bot

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"nod"
)

// begin starts the task's next run: an environment when there is none yet,
// seeded with a clone, and an agent with the frozen issue.
func (b *Bot) begin(ctx context.Context, c nod.Case, set RepoSettings) error {
	if asked, err := b.askHosts(ctx, c, set); asked || err != nil {
		return err // the answers bring the same step again
	}
	runID, err := b.id("r", 8)
	if err != nil {
		return err
	}
	envID := ""
	if c.Environment == nil || c.Environment.State == nod.EnvironmentDeleted {
		if envID, err = b.id("e", 8); err != nil {
			return err
		}
	}
	c, err = b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Task.State != nod.TaskRunning || c.Run != nil && !c.Run.Done() {
			return false, nil
		}
		number, session := 1, ""
		if c.Run != nil {
			number = c.Run.Number + 1
			if c.Run.Agent == c.Task.Agent && envID == "" { // it remembers what it did
				session = c.Run.Session
			}
		}
		if envID != "" {
			c.Environment = &nod.Environment{ID: envID, Task: c.Task.ID, State: nod.EnvironmentProvisioning}
			ch.Environments = append(ch.Environments, c.Environment)
		}
		if c.Revision != nil && !nod.RevisionMachine.Terminal(c.Revision.State) {
			c.Revision.State = nod.RevisionSuperseded
			ch.Revisions = append(ch.Revisions, c.Revision)
		}
		c.Run = &nod.Run{ID: runID, Task: c.Task.ID, Number: number, Environment: c.Environment.ID,
			Agent: c.Task.Agent, State: nod.RunStarting, Attempt: 1, Session: session}
		ch.Runs = append(ch.Runs, c.Run)
		if c.Task.Rework != "" {
			c.Task.Briefing, c.Task.Rework = join(c.Task.Briefing, c.Task.Rework), ""
			ch.Tasks = append(ch.Tasks, &c.Task)
		}
		return true, nil
	})
	if err != nil || c.Run == nil || c.Run.ID != runID {
		return err
	}
	return b.launch(ctx, c, set, "")
}

// resume starts an interrupted run again, at most Config.Attempts times.
func (b *Bot) resume(ctx context.Context, c nod.Case, set RepoSettings) error {
	if c.Run.Attempt >= b.cfg.Attempts {
		return b.endRun(ctx, c.Task.ID, c.Run.ID, nod.RunFail,
			nod.E(nod.Failed, fmt.Sprintf("the agent was interrupted %d times", c.Run.Attempt), nil))
	}
	if asked, err := b.askHosts(ctx, c, set); asked || err != nil {
		return err
	}
	c, err := b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Run == nil || c.Run.State != nod.RunInterrupted {
			return false, nil
		}
		c.Run.Attempt++
		ch.Runs = append(ch.Runs, c.Run)
		return true, c.Run.On(nod.RunRestart)
	})
	if err != nil || c.Run == nil || c.Run.State != nod.RunStarting {
		return err
	}
	return b.launch(ctx, c, set, resumeBriefing(c))
}

// launch makes the environment ready and drives the run in it. Whatever fails
// before the agent is up fails the run, which asks a person.
func (b *Bot) launch(ctx context.Context, c nod.Case, set RepoSettings, briefing string) error {
	if slices.Contains(b.cfg.Unasking, c.Run.Agent) && !set.Rules.Tools.InBox() {
		return b.endRun(ctx, c.Task.ID, c.Run.ID, nod.RunFail, nod.E(nod.Failed,
			"the agent "+c.Run.Agent+" asks nobody, and the tool rules of this repository want somebody asked", nil))
	}
	if scope := set.Rules.Budgets.NeedsPrice(); scope != "" && slices.Contains(b.cfg.Unpriced, c.Run.Agent) {
		return b.endRun(ctx, c.Task.ID, c.Run.ID, nod.RunFail, nod.E(nod.Failed,
			"the budget of a "+string(scope)+" counts dollars alone, and the agent "+c.Run.Agent+" tells no price: set tokens too", nil))
	}
	m, err := b.meter(ctx, c, set)
	if err != nil {
		return b.endRun(ctx, c.Task.ID, c.Run.ID, nod.RunFail, fmt.Errorf("sum usage: %w", err))
	}
	defer b.unmeter(m)
	if err := b.affordable(ctx, m); err != nil {
		return b.endRun(ctx, c.Task.ID, c.Run.ID, nod.RunStop, err)
	}
	ready, err := b.enter(ctx, c, set)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return b.endRun(ctx, c.Task.ID, c.Run.ID, nod.RunFail, err)
	}
	if q, ok := newest(ready); ok && q.Cause == nod.CauseRebaseConflict {
		if err := b.refresh(ctx, ready); err != nil {
			return b.endRun(ctx, c.Task.ID, c.Run.ID, nod.RunFail, err)
		}
	}
	prompt, err := b.prompt(ctx, ready, set, briefing)
	if err != nil {
		return b.endRun(ctx, c.Task.ID, c.Run.ID, nod.RunFail, err)
	}
	err = b.drive(ctx, ready, set, prompt, m)
	if err == nil && ctx.Err() == nil && b.isPaused(ctx, c.Task.ID, c.Run.ID) {
		b.setKept(c.Environment.ID, true)
		return nil // a pause never stops an environment
	}
	if leave := b.leave(context.WithoutCancel(ctx), c.Task.ID); err == nil {
		err = leave
	}
	return err
}

func (b *Bot) environmentSpec(c nod.Case, set RepoSettings) nod.EnvironmentSpec {
	e := c.Environment
	root := filepath.Join(b.cfg.Environments, e.ID)
	return nod.EnvironmentSpec{ID: e.ID, Task: e.Task, Workspace: filepath.Join(root, "workspace"), Home: filepath.Join(root, "home"), Egress: append(slices.Clone(set.Egress), allowedHosts(c)...)}
}

// enter starts the case's environment, seeding it first when it is new, and
// returns the case with what a process inside saw.
func (b *Bot) enter(ctx context.Context, c nod.Case, set RepoSettings) (nod.Case, error) {
	defer b.verb("start")()
	spec := b.environmentSpec(c, set)
	if c.Environment.State == nod.EnvironmentProvisioning {
		// An earlier attempt may have died half-way; nothing in there is worth keeping.
		if err := os.RemoveAll(filepath.Dir(spec.Workspace)); err != nil {
			return c, nod.E(nod.Internal, "the environment's directory cannot be emptied", err)
		}
		for _, dir := range []string{b.cfg.Environments, filepath.Dir(spec.Workspace), spec.Home} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return c, nod.E(nod.Internal, "the environment's directory cannot be made", err)
			}
		}
		base, err := b.Git.Seed(ctx, c.Task, c.Task.BaseRef, spec.Workspace)
		if err != nil {
			return c, fmt.Errorf("seed workspace: %w", err)
		}
		if c, err = b.moveEnvironment(ctx, c.Task.ID, nod.EnvironmentProvision, func(e *nod.Environment) { e.BaseSHA = base }); err != nil {
			return c, err
		}
	}
	if c.Environment.State == nod.EnvironmentRunning && b.setKept(c.Environment.ID, false) && (b.Seats == nil || !b.Seats.Sat(c.Environment.ID)) {
		return c, nil
	}
	if c.Environment.State == nod.EnvironmentRunning {
		// Nobody vouches for what still lives in it.
		if err := b.leave(ctx, c.Task.ID); err != nil {
			return c, err
		}
	}
	seen, err := b.Environments.Start(ctx, spec)
	if err != nil {
		return c, fmt.Errorf("start environment: %w", err)
	}
	return b.moveEnvironment(ctx, c.Task.ID, nod.EnvironmentStart, func(e *nod.Environment) { e.Attestation = seen })
}

// leave stops the task's environment and every process in it.
func (b *Bot) leave(ctx context.Context, task string) error {
	c, err := b.Ledger.Case(ctx, task)
	if err != nil || c.Environment == nil || c.Environment.State != nod.EnvironmentRunning {
		return err
	}
	if err := b.Environments.Stop(ctx, c.Environment.ID); err != nil {
		return fmt.Errorf("stop environment: %w", err)
	}
	_, err = b.moveEnvironment(ctx, task, nod.EnvironmentStop, func(*nod.Environment) {})
	return err
}

func (b *Bot) moveEnvironment(ctx context.Context, task string, on nod.EnvironmentEvent, set func(*nod.Environment)) (nod.Case, error) {
	return b.update(ctx, nod.Supervisor(), task, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if err := c.Environment.On(on); err != nil {
			return false, err
		}
		set(c.Environment)
		ch.Environments = append(ch.Environments, c.Environment)
		if on == nod.EnvironmentStart {
			e := nod.NewEvent(task, nod.Audit, nod.EventAttested, nod.Supervisor(), c.Environment.Attestation)
			ch.Events = append(ch.Events, &e)
		}
		return true, nil
	})
}

// clean deletes the environment of an ended task and what git kept for it, but for
// commits that did not come into the target: recover forgets those after keepWork.
func (b *Bot) clean(ctx context.Context, c nod.Case) (bool, error) {
	if c.Run != nil && !c.Run.Done() {
		return true, b.endRun(ctx, c.Task.ID, c.Run.ID, nod.RunStop, nil)
	}
	if c.Environment == nil || c.Environment.State == nod.EnvironmentDeleted {
		return false, nil
	}
	if err := b.leave(ctx, c.Task.ID); err != nil {
		return false, err
	}
	if err := b.Environments.Delete(ctx, c.Environment.ID); err != nil {
		return false, fmt.Errorf("delete environment: %w", err)
	}
	if err := os.RemoveAll(filepath.Join(b.cfg.Environments, c.Environment.ID)); err != nil {
		return false, nod.E(nod.Internal, "the environment's directory cannot be removed", err)
	}
	if c.Task.State == nod.TaskCompleted || c.Revision == nil { // else somebody may yet want what was made
		if err := b.Git.Forget(ctx, c.Task); err != nil {
			return false, fmt.Errorf("forget commits: %w", err)
		}
	}
	_, err := b.moveEnvironment(ctx, c.Task.ID, nod.EnvironmentDelete, func(*nod.Environment) {})
	return true, err
}
