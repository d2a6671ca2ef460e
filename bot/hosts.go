package bot

import (
	"context"
	"slices"
	"strings"

	"nod"
)

// maxHosts is how many hosts one start asks about: an agent could try any number.
const maxHosts = 4

// Refusals are the hosts that a task's environment was kept from.
type Refusals interface {
	// Refused returns each host that no list held, as "host:port", the first refused
	// first.
	Refused(ctx context.Context, task string) ([]nod.RefusedHost, error)
}

// askHosts asks, before the next start, about the hosts that an earlier one was
// refused, and reports whether it did. An answer counts for the task; a question
// that nobody answered comes again when the host is refused again.
func (b *Bot) askHosts(ctx context.Context, c nod.Case, set RepoSettings) (bool, error) {
	if b.Refusals == nil {
		return false, nil
	}
	refused, err := b.Refusals.Refused(ctx, c.Task.ID)
	if err != nil {
		return false, err
	}
	asked := false
	_, err = b.update(ctx, nod.Supervisor(), c.Task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		asked = false
		if c.Task.State != nod.TaskRunning {
			return false, nil
		}
		hosts := unanswered(*c, set, refused)
		for _, host := range hosts[:min(len(hosts), maxHosts)] {
			err := b.open(c, ch, func(nod.Task) (nod.Decision, string) {
				return nod.Decision{Kind: nod.Approval, Cause: nod.CauseEgressHost, Blocking: true, Subject: strings.TrimSuffix(host, ":443"),
					Deadline: b.cfg.Now().Add(b.cfg.DecisionTime)}, host
			})
			if err != nil {
				return false, err
			}
			asked = true
		}
		return asked, nil
	})
	return asked && err == nil, err
}

// unanswered are the hosts that nobody has decided on since they were last refused.
func unanswered(c nod.Case, set RepoSettings, refused []nod.RefusedHost) []string {
	var out []string
	for _, r := range refused {
		listed := slices.ContainsFunc(set.Egress, func(rule string) bool {
			authority, _, _ := strings.Cut(rule, "=")
			return strings.EqualFold(authority, r.Host) || strings.EqualFold(authority+":443", r.Host)
		})
		settled := slices.ContainsFunc(c.Decisions, func(d nod.Decision) bool {
			return d.Cause == nod.CauseEgressHost && d.Input == r.Host &&
				(d.State == nod.DecisionOpen || d.State == nod.DecisionAnswered || !d.CreatedAt.Before(r.At))
		})
		if !listed && !settled {
			out = append(out, r.Host)
		}
	}
	return out
}

// allowedHosts are those that a person let this task's environment reach.
func allowedHosts(c nod.Case) []string {
	var out []string
	for _, d := range c.Decisions {
		if d.Cause == nod.CauseEgressHost && d.Permits() {
			out = append(out, d.Input)
		}
	}
	return out
}
