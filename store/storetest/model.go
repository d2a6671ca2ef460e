package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"nod"
)

// model compares a store with one that is a few maps: random tasks and decisions,
// legal and illegal moves, stale versions, answers, and time. All checks share
// one store, each with tasks of its own.
func model(t *testing.T, open Open) {
	f := newFixture(t, open, Setup{})
	rapid.Check(t, func(r *rapid.T) {
		m := &machine{f: f, tasks: map[string]*nod.Task{}, decisions: map[string]*nod.Decision{}}
		r.Repeat(map[string]func(*rapid.T){
			"":       m.check,
			"create": m.create,
			"move":   m.move,
			"open":   m.open,
			"close":  m.close,
			"answer": m.answer,
			"expire": m.expire,
			"time":   func(r *rapid.T) { f.pass(time.Duration(rapid.IntRange(1, 400).Draw(r, "seconds")) * time.Second) },
		})
		for id := range m.tasks {
			m.touched = id
			m.check(r)
		}
	})
	f.head()
}

type machine struct {
	f         *fixture
	touched   string   // the task that the last step was about
	order     []string // ids of decisions
	tasks     map[string]*nod.Task
	decisions map[string]*nod.Decision
}

func (m *machine) code(r *rapid.T, what string, err error, want nod.Code) bool {
	switch {
	case want == "" && err != nil:
		r.Fatalf("%s: %v, want none", what, err)
	case want != "" && (err == nil || nod.CodeOf(err) != want):
		r.Fatalf("%s: %v, want %s", what, err, want)
	}
	return want == ""
}

func pick[T any](r *rapid.T, from map[string]*T) *T {
	if len(from) == 0 {
		r.Skip("none yet")
	}
	var ids []string
	for id := range from {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return from[rapid.SampledFrom(ids).Draw(r, "id")]
}

func (m *machine) blocked(task string) bool {
	for _, d := range m.decisions {
		if d.Task == task && d.State == nod.DecisionOpen && d.Blocking {
			return true
		}
	}
	return false
}

// coupled is the code with which a task in state s must be refused, or "".
func (m *machine) coupled(task string, was, s nod.TaskState, wasBlocked, blocked bool) nod.Code {
	if blocked && s != nod.TaskQueued && s != nod.TaskAwaitingGuidance {
		return nod.Conflict
	}
	if !blocked && s == nod.TaskAwaitingGuidance && (was != s || wasBlocked) {
		return nod.Conflict
	}
	return ""
}

func (m *machine) create(r *rapid.T) {
	t := &nod.Task{ID: m.f.id("t"), Repo: repo, Issue: m.f.n, State: nod.TaskQueued}
	err := m.f.Apply(m.f.ctx, &nod.Change{By: by, Tasks: []*nod.Task{t}})
	if m.touched = t.ID; m.code(r, "create", err, "") {
		m.tasks[t.ID] = t
	}
}

func (m *machine) move(r *rapid.T) {
	t := pick(r, m.tasks)
	m.touched = t.ID
	next := *t
	next.State = rapid.SampledFrom(nod.TaskMachine.States()).Draw(r, "to")
	next.Version -= int64(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(r, "stale"))
	var want nod.Code
	reachable := next.State == t.State
	for _, on := range nod.TaskMachine.Events() {
		to, err := nod.TaskMachine.Next(t.State, on)
		reachable = reachable || err == nil && to == next.State
	}
	blocked := m.blocked(t.ID)
	switch {
	case next.Version == 0: // then it is an insert of what is there
		want = nod.Conflict
	case next.Version != t.Version || !reachable:
		want = nod.Conflict
	default:
		want = m.coupled(t.ID, t.State, next.State, blocked, blocked)
	}
	if m.code(r, fmt.Sprintf("move %s to %s", t.State, next.State), m.f.Apply(m.f.ctx, &nod.Change{By: by, Tasks: []*nod.Task{&next}}), want) {
		*t = next
	}
}

// open opens a decision and, when that blocks a running task, may let it wait.
func (m *machine) open(r *rapid.T) {
	t := pick(r, m.tasks)
	m.touched = t.ID
	d := m.f.approval(t, "")
	d.Blocking = rapid.Bool().Draw(r, "blocking")
	c := nod.Change{By: by, Decisions: []*nod.Decision{d}}
	next := *t
	if t.State == nod.TaskRunning && rapid.Bool().Draw(r, "wait") {
		next.State = nod.TaskAwaitingGuidance
		c.Tasks = append(c.Tasks, &next)
	}
	was := m.blocked(t.ID)
	if m.code(r, "open", m.f.Apply(m.f.ctx, &c), m.coupled(t.ID, t.State, next.State, was, was || d.Blocking)) {
		*t = next
		m.decisions[d.ID] = d
		m.order = append(m.order, d.ID)
	}
}

func (m *machine) close(r *rapid.T) {
	d := pick(r, m.decisions)
	m.touched = d.Task
	next := *d
	next.State = rapid.SampledFrom([]nod.DecisionState{nod.DecisionSuperseded, nod.DecisionExpired}).Draw(r, "to")
	want := nod.Code("")
	if d.State != nod.DecisionOpen {
		want = nod.Conflict
		if d.State == nod.DecisionAnswered {
			want = nod.Invalid // it would carry an answer but not be answered
		}
	} else {
		was := m.blocked(d.Task)
		d.State, next.State = next.State, d.State
		now := m.blocked(d.Task)
		d.State, next.State = next.State, d.State
		s := m.tasks[d.Task].State
		want = m.coupled(d.Task, s, s, was, now)
	}
	if m.code(r, "close "+string(d.State), m.f.Apply(m.f.ctx, &nod.Change{By: by, Decisions: []*nod.Decision{&next}}), want) {
		*d = next
	}
}

func (m *machine) answer(r *rapid.T) {
	d := pick(r, m.decisions)
	m.touched = d.Task
	a := nod.Answer{Decision: d.ID, Answer: rapid.SampledFrom([]string{nod.Allow, nod.Deny, "maybe"}).Draw(r, "answer"), By: host}
	var want nod.Code
	next := *d
	switch {
	case d.State == nod.DecisionAnswered && a.Answer != d.Answer, d.State == nod.DecisionSuperseded:
		want = nod.Conflict
	case d.State == nod.DecisionAnswered:
	case d.State == nod.DecisionExpired:
		want = nod.Expired
	case d.Late(m.f.now()):
		want = nod.Expired
		next.State, next.Version, next.UpdatedAt = nod.DecisionExpired, d.Version+1, m.f.now()
	case a.Answer == "maybe":
		want = nod.Invalid
	default:
		next.State, next.Version, next.UpdatedAt = nod.DecisionAnswered, d.Version+1, m.f.now()
		next.Answer, next.AnsweredBy, next.AnsweredAt = a.Answer, host, m.f.now()
	}
	got, err := m.f.RecordAnswer(m.f.ctx, a)
	m.code(r, "answer "+string(d.State), err, want)
	*d = next
	if got.State != d.State || got.Answer != d.Answer {
		r.Fatalf("answered: %+v, want %+v", got, d)
	}
}

func (m *machine) expire(r *rapid.T) {
	got, err := m.f.ExpireDecisions(m.f.ctx)
	m.code(r, "expire", err, "")
	var want []string
	for _, id := range m.order {
		if d := m.decisions[id]; d.State == nod.DecisionOpen && d.Late(m.f.now()) {
			d.State, d.Version, d.UpdatedAt = nod.DecisionExpired, d.Version+1, m.f.now()
			want = append(want, id)
		}
	}
	var ids []string
	for _, d := range got {
		if m.decisions[d.ID] != nil { // another check may have left some
			ids = append(ids, d.ID)
		}
	}
	if !slices.Equal(ids, want) {
		r.Fatalf("expired %v, want %v", ids, want)
	}
}

// check compares the task of the last step.
func (m *machine) check(r *rapid.T) {
	want := m.tasks[m.touched]
	if want == nil {
		return
	}
	c, err := m.f.Case(m.f.ctx, want.ID)
	if err != nil || c.Task != *want {
		r.Fatalf("task: %+v, %v; want %+v", c.Task, err, *want)
	}
	for _, d := range c.Decisions {
		if want := m.decisions[d.ID]; want == nil || d.State != want.State || d.Version != want.Version || d.Answer != want.Answer ||
			!d.AnsweredAt.Equal(want.AnsweredAt) || !d.UpdatedAt.Equal(want.UpdatedAt) {
			r.Fatalf("decision: %+v, want %+v", d, want)
		}
	}
}
