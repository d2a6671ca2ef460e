package bot

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"nod"
	"nod/policy"
)

// meter follows what one session uses, against the budgets. It is a nod.Meter: the
// way to the model tells it of everything as it happens. Where there is no such way,
// it has the agent's own word at the end of each turn.
type meter struct {
	b       *Bot
	task    nod.Task
	run     string
	limits  policy.Budgets
	reached chan policy.Excess // each once; there is room for all of them
	pending atomic.Int64       // tokens that are in no event yet

	mu    sync.Mutex
	spent nod.Spending // by the events
	gated bool         // Used was called
	total nod.Usage    // by the way to the model, in this session
	kept  nod.Usage    // of that in events
	cost  float64      // what the agent last said that its session cost
	said  map[policy.Excess]bool
	over  error
	until time.Time
}

// excesses is how many limits there are: of four scopes a soft and a hard one.
const excesses = 8

// meter makes the meter of c's run. The caller ends it by unmeter.
func (b *Bot) meter(ctx context.Context, c nod.Case, set RepoSettings) (*meter, error) {
	spent, err := b.Usage.Spending(ctx, c.Task, c.Run.ID, nod.DayOf(b.cfg.Now()))
	if err != nil {
		return nil, err
	}
	m := &meter{b: b, task: c.Task, run: c.Run.ID, limits: set.Rules.Budgets, reached: make(chan policy.Excess, excesses),
		spent: spent, cost: spent.Run.USD, said: map[policy.Excess]bool{}}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.meters[m] = true
	return m, nil
}

func (b *Bot) unmeter(m *meter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.meters, m)
}

// Used is nod.Meter's.
func (m *meter) Used(total nod.Usage) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gated, m.total = true, total
	return m.judge()
}

// Limited is nod.Meter's.
func (m *meter) Limited(until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.until = until
}

// reset is when the model's API takes more, as the way to it heard; zero when it did
// not hear.
func (m *meter) reset() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.until
}

// fresh says that the session is another than the one that the run had.
func (m *meter) fresh() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cost = 0
}

// unkept is what was measured and is in no event yet; m.mu is held.
func (m *meter) unkept() (in, out int64) {
	return max(m.total.InputTokens-m.kept.InputTokens, 0), max(m.total.OutputTokens-m.kept.OutputTokens, 0)
}

// judge compares what was used with the limits; m.mu is held. The error is the first
// hard limit that was ever reached.
func (m *meter) judge() error {
	in, out := m.unkept()
	m.pending.Store(nod.AddTokens(0, in, out))
	sum := m.spent.Plus(nod.Spent{Tokens: m.pending.Load()})
	m.b.mu.Lock()
	for o := range m.b.meters {
		if o == m {
			continue
		}
		more := nod.Spent{Tokens: o.pending.Load()}
		sum.Day = sum.Day.Plus(more)
		if o.task.Repo.Key() == m.task.Repo.Key() {
			sum.Repo = sum.Repo.Plus(more)
		}
	}
	m.b.mu.Unlock()
	for _, x := range policy.Budget(m.limits, sum) {
		if x.Hard && m.over == nil {
			m.over = nod.E(nod.Failed, "a budget is used up: "+x.Text, nil)
		}
		if limit := (policy.Excess{Scope: x.Scope, Hard: x.Hard}); !m.said[limit] {
			m.said[limit] = true
			m.reached <- x
		}
	}
	return m.over
}

// turn is the event of a turn that ended, of which the agent told u; nil is the end
// of a session that told nothing. False means that there is nothing to keep.
func (m *meter) turn(u *nod.Usage) (nod.TurnUsage, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := nod.TurnUsage{Run: m.run}
	if in, out := m.unkept(); m.gated {
		t.InputTokens, t.OutputTokens, t.Measured = &in, &out, true
		if u == nil && in == 0 && out == 0 {
			return t, false
		}
	} else if u == nil {
		return t, false
	} else if u.InputTokens > 0 || u.OutputTokens > 0 {
		in, out := max(u.InputTokens, 0), max(u.OutputTokens, 0)
		t.InputTokens, t.OutputTokens = &in, &out
	}
	if u != nil && u.CostUSD != nil && *u.CostUSD >= 0 && !math.IsInf(*u.CostUSD, 0) {
		usd := *u.CostUSD // of the session so far
		if usd >= m.cost {
			usd -= m.cost
		}
		t.CostUSD = &usd
	}
	return t, true
}

// keep says that t, of which the agent told u, is stored.
func (m *meter) keep(ctx context.Context, t nod.TurnUsage, u *nod.Usage) {
	spent, err := m.b.Usage.Spending(ctx, m.task, m.run, nod.DayOf(m.b.cfg.Now()))
	if err != nil {
		m.b.log.Error("sum usage", "task", m.task.ID, "run", m.run, "err", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		spent = m.spent.Plus(nod.Spent{}.Add(t))
	}
	m.spent = spent
	if t.Measured {
		m.kept.InputTokens = nod.AddTokens(m.kept.InputTokens, *t.InputTokens)
		m.kept.OutputTokens = nod.AddTokens(m.kept.OutputTokens, *t.OutputTokens)
	}
	if t.CostUSD != nil && u != nil {
		m.cost = *u.CostUSD
	}
	_ = m.judge() // whoever asks next hears it
}

// affordable is an error, and the end of the task, when a hard limit was reached
// before the run begins.
func (b *Bot) affordable(ctx context.Context, m *meter) error {
	m.mu.Lock()
	err := m.judge()
	m.mu.Unlock()
	done, cancel := context.WithCancel(ctx)
	cancel()
	b.attend(done, m)
	return err
}

// attend tells of every limit that m reaches until ctx ends and none is left untold.
func (b *Bot) attend(ctx context.Context, m *meter) {
	for {
		select {
		case x := <-m.reached:
			b.exceeded(ctx, m, x)
			continue
		default:
		}
		select {
		case x := <-m.reached:
			b.exceeded(ctx, m, x)
		case <-ctx.Done():
			if len(m.reached) == 0 {
				return
			}
		}
	}
}

// exceeded records a limit that was reached and tells the owner, once for what the
// limit covers. A hard one fails the task, which ends its session.
func (b *Bot) exceeded(ctx context.Context, m *meter, x policy.Excess) {
	day := b.cfg.Now().UTC().Format(time.DateOnly)
	covers := map[policy.Scope]string{policy.ScopeRun: m.run, policy.ScopeTask: m.task.ID, policy.ScopeRepo: m.task.Repo.Key() + "/" + day, policy.ScopeDay: day}[x.Scope]
	note, key := nod.NoteBudgetSoft, "note/budget/soft/"+string(x.Scope)+"/"+covers
	if x.Hard {
		note, key = nod.NoteBudgetHard, "note/budget/hard/"+m.task.ID
	}
	b.log.Warn("budget reached", "task", m.task.ID, "run", m.run, "scope", string(x.Scope), "hard", x.Hard)
	_, err := b.update(context.WithoutCancel(ctx), nod.Supervisor(), m.task.ID, func(c *nod.Case, ch *nod.Change) (bool, error) {
		if c.Task.Done() {
			return false, nil
		}
		e := nod.NewEvent(c.Task.ID, nod.Audit, nod.EventBudget, nod.Supervisor(), x)
		ch.Events = append(ch.Events, &e)
		if err := b.intend(c, ch, nod.EffectNotify, key, "", b.cfg.Note(note, c.Task)); err != nil || !x.Hard {
			return true, err
		}
		c.Task.Reason = "a budget is used up: " + x.Text
		supersede(c, ch, func(nod.Decision) bool { return true })
		return true, b.move(c, ch, nod.TaskFail)
	})
	if err != nil {
		b.log.Error("record a budget that was reached", "task", m.task.ID, "run", m.run, "err", err)
	}
}
