package bot

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"nod"
	"nod/policy"
)

// receipt is what a change that acts on a delivery writes besides: the delivery's
// end, and what whoever gave a command hears. A nil receipt writes nothing.
type receipt struct {
	delivery *nod.Delivery
	effects  []*nod.Effect
}

// finish lets ch write r as well.
func finish(ch *nod.Change, r *receipt) *nod.Change {
	if r != nil && r.delivery != nil {
		r.delivery.State, r.delivery.LeaseUntil = nod.DeliveryDone, time.Time{}
		ch.Deliveries = append(ch.Deliveries, r.delivery)
	}
	if r != nil {
		ch.Effects = append(ch.Effects, r.effects...)
	}
	return ch
}

// command obeys the first /nod command of a comment, or says why not.
func (b *Bot) command(ctx context.Context, set RepoSettings, o nod.Occurrence, d *nod.Delivery) (string, error) {
	commands := nod.ParseComment(o.CommentBody)
	if len(commands) == 0 {
		return "no command in it", nil
	}
	cmd := commands[0]
	who := b.GitHub.Standing(ctx, o.Installation, o.Repo, o.Sender)
	v := policy.Command(set.Rules.Commands, cmd.Verb, who)
	starts := cmd.Verb == nod.VerbRun || cmd.Verb == nod.VerbRetry
	switch {
	case who.Tier == nod.Bot:
		return v.Because.String(), nil // two programs that answer each other never end
	case !v.Allows() && !(v.Asks() && starts): // a start that asks is judged again as a start
		return b.decline(ctx, o, d, who, cmd.Verb, v.Reason())
	}
	said := nod.ReactObeyed
	if v.Asks() {
		said = nod.ReactAsked
	}
	reaction, err := react(o, said)
	if err != nil {
		return "", err
	}
	r := &receipt{delivery: d, effects: []*nod.Effect{reaction}}
	note := ""
	t, err := b.taskAt(ctx, o.Repo, o.Issue)
	if err != nil && nod.CodeOf(err) != nod.NotFound {
		return "", err
	}
	inReview := err == nil && t.State == nod.TaskReadyForReview
	switch cmd.Verb {
	case nod.VerbRun, nod.VerbRetry:
		if inReview {
			note, err = b.again(ctx, set, o, r, t, who, cmd.Arg)
			break
		}
		note, err = b.accept(ctx, set, o, r)
	case nod.VerbCancel:
		note, err = b.withdraw(ctx, o, r, "cancelled by a comment", nod.TaskQueued, nod.TaskRunning, nod.TaskAwaitingGuidance, nod.TaskReadyForReview)
	case nod.VerbSay:
		if inReview && strings.TrimSpace(cmd.Arg) != "" {
			note, err = b.again(ctx, set, o, r, t, who, cmd.Arg)
			break
		}
		note, err = b.say(ctx, o, r, cmd.Arg)
	case nod.VerbStatus:
		note, err = b.restate(ctx, o, r)
	case nod.VerbAgent:
		note, err = b.changeAgent(ctx, o, r, cmd.Arg)
	case nod.VerbHelp:
		return "", b.reply(ctx, o, r, who, "help", helpText)
	}
	if err != nil || note == "" {
		return "", err
	}
	return b.decline(ctx, o, d, who, cmd.Verb, note)
}

const helpText = "**nod** obeys lines that begin with `/nod`: `run` or `retry` start as the label does, `cancel` ends the task, " +
	"`say …` tells the agent something, `agent <name>` picks another agent for the next run, `status` writes the status comment anew."

// decline answers a command that is not obeyed: a reaction, and one line that says
// why and who could.
func (b *Bot) decline(ctx context.Context, o nod.Occurrence, d *nod.Delivery, who nod.Standing, verb, why string) (string, error) {
	reaction, err := react(o, nod.ReactRefused)
	if err != nil {
		return "", err
	}
	known := verb
	if !slices.Contains(policy.Verbs(), verb) {
		known = "…"
	}
	if d != nil {
		d.Note = why
	}
	return "", b.reply(ctx, o, &receipt{d, []*nod.Effect{reaction}}, who, verb,
		fmt.Sprintf("**nod** did not do `/nod %s`: %s.", known, b.cfg.Neutralize(strings.TrimSuffix(strings.Join(strings.Fields(why), " "), "."))))
}

// reply intends a comment of one line and finishes r. Whoever is not trusted hears
// the same thing once on an issue, whatever they write.
func (b *Bot) reply(ctx context.Context, o nod.Occurrence, r *receipt, who nod.Standing, about, line string) error {
	key := fmt.Sprintf("reply/%s#%d/%d", o.Repo.Key(), o.Issue, o.CommentID)
	if !who.Tier.Trusted() {
		if !slices.Contains(policy.Verbs(), about) {
			about = "unknown"
		}
		key = fmt.Sprintf("reply/%s#%d/%s/%s", o.Repo.Key(), o.Issue, who.Actor.Key(), about)
	}
	marker := "<!-- nod:reply:" + nod.Digest([]byte(key))[:16] + " -->"
	e, err := effectAt(o, nod.EffectReply, key, nod.Reply{Place: placeOf(o), Marker: marker, Body: line})
	if err != nil {
		return err
	}
	r.effects = append(r.effects, e)
	return b.Ledger.Apply(ctx, finish(&nod.Change{By: nod.Supervisor()}, r))
}

func placeOf(o nod.Occurrence) nod.Place {
	return nod.Place{Repo: o.Repo, Installation: o.Installation, Issue: o.Issue}
}

func react(o nod.Occurrence, with nod.Reaction) (*nod.Effect, error) {
	return effectAt(o, nod.EffectReact, fmt.Sprintf("react/%s/comment/%d/%s", o.Repo.Key(), o.CommentID, with),
		nod.React{Place: placeOf(o), Comment: o.CommentID, Content: with})
}

// effectAt is an intent of no task.
func effectAt(o nod.Occurrence, kind nod.EffectKind, key string, intent any) (*nod.Effect, error) {
	raw, err := json.Marshal(intent)
	if err != nil {
		return nil, nod.E(nod.Internal, "an effect cannot be written as JSON", err)
	}
	return &nod.Effect{Key: key, Repo: o.Repo.Key(), Kind: kind, Intent: raw, State: nod.EffectIntended}, nil
}

// taskAt returns the newest task of an issue, or the one whose pull request has
// that number; NotFound when there is none.
func (b *Bot) taskAt(ctx context.Context, repo nod.Repo, number int) (nod.Task, error) {
	t, err := b.Ledger.TaskOf(ctx, repo, number)
	if err == nil || nod.CodeOf(err) != nod.NotFound {
		return t, err
	}
	open, err := b.Ledger.Tasks(ctx, unfinished...)
	if err != nil {
		return nod.Task{}, err
	}
	for _, t := range open {
		if t.Repo.Key() != repo.Key() {
			continue
		}
		c, err := b.Ledger.Case(ctx, t.ID)
		if err != nil {
			return nod.Task{}, err
		}
		if c.Revision != nil && c.Revision.PullRequest.Number == number {
			return t, nil
		}
	}
	return nod.Task{}, nod.E(nod.NotFound, "no task for this issue", nil)
}

// say gives words by a trusted person to the live session, or keeps them for
// the next run.
func (b *Bot) say(ctx context.Context, o nod.Occurrence, r *receipt, words string) (string, error) {
	if strings.TrimSpace(words) == "" {
		return "nothing was said", nil
	}
	t, err := b.taskAt(ctx, o.Repo, o.Issue)
	if nod.CodeOf(err) == nod.NotFound && err != nil {
		return nod.PublicMessage(err), nil
	}
	if err != nil {
		return "", err
	}
	session := b.session(t.ID)
	c, err := b.update(ctx, o.Sender, t.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Task.Done() {
			return false, nil
		}
		finish(ch, r)
		e := nod.NewEvent(c.Task.ID, nod.Transcript, nod.EventMessage, o.Sender, nod.Message{Text: words})
		ch.Events = append(ch.Events, &e)
		if session == nil {
			remember(c, words)
			ch.Tasks = append(ch.Tasks, &c.Task)
		}
		return true, nil
	})
	switch {
	case err != nil:
		return "", err
	case c.Task.Done():
		return "the task is " + string(c.Task.State), nil
	case session == nil:
		return "", nil
	}
	if err := session.Instruct(ctx, words); err != nil {
		b.log.Warn("instruct agent", "task", t.ID, "err", err)
	}
	return "", nil
}

// restate posts the status comment anew.
func (b *Bot) restate(ctx context.Context, o nod.Occurrence, r *receipt) (string, error) {
	return b.change(ctx, o, r, func(c *nod.Case, ch *nod.Change) (string, error) {
		return "", b.tell(c, ch, fmt.Sprintf("asked/%d", o.CommentID))
	})
}

// changeAgent picks another agent for the task's next run.
func (b *Bot) changeAgent(ctx context.Context, o nod.Occurrence, r *receipt, name string) (string, error) {
	if !slices.Contains(b.cfg.Agents, name) {
		return "the agent is not one of " + strings.Join(b.cfg.Agents, ", "), nil
	}
	return b.change(ctx, o, r, func(c *nod.Case, ch *nod.Change) (string, error) {
		if c.Task.Done() {
			return "the task is " + string(c.Task.State), nil
		}
		c.Task.Agent = name
		ch.Tasks = append(ch.Tasks, &c.Task)
		return "", b.tell(c, ch, fmt.Sprintf("agent/%d", o.CommentID))
	})
}

// change writes what build puts into a change of the issue's task, with r; a note
// by build leaves everything as it is.
func (b *Bot) change(ctx context.Context, o nod.Occurrence, r *receipt, build func(c *nod.Case, ch *nod.Change) (string, error)) (string, error) {
	t, err := b.taskAt(ctx, o.Repo, o.Issue)
	if nod.CodeOf(err) == nod.NotFound && err != nil {
		return nod.PublicMessage(err), nil
	}
	if err != nil {
		return "", err
	}
	note := ""
	_, err = b.update(ctx, o.Sender, t.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		var err error
		if note, err = build(c, ch); err != nil || note != "" {
			return false, err
		}
		finish(ch, r)
		return true, nil
	})
	return note, err
}
