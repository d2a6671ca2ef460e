package main

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"nod"
	"nod/agent/gateway"
	"nod/runtime/egress"
	"nod/store"
)

// egressLog keeps what the proxies of all environments say: every verdict in the
// log, every refusal in the audit log of the task whose environment asked. The
// proxy limits how many refusals it tells of.
type egressLog struct {
	log   *slog.Logger
	mu    sync.Mutex
	store *store.Store      // nil until the system is assembled
	tasks map[string]string // by environment
}

func newEgressLog(log *slog.Logger) *egressLog {
	return &egressLog{log: log, tasks: map[string]string{}}
}

// proxy is the template of every environment's proxy: what it says is kept here, and
// plain HTTP to itself goes to models, when there are any.
func (l *egressLog) proxy(models *gateway.Gateway) egress.Config {
	c := egress.Config{Audit: l.record}
	if models != nil {
		c.Local = models.Serve
	}
	return c
}

func (l *egressLog) open(s *store.Store) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store = s
}

func (l *egressLog) belongs(environment, task string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tasks[environment] = task
}

func (l *egressLog) forget(environment string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.tasks, environment)
}

func (l *egressLog) record(e egress.Event) {
	l.log.Info("egress", "event", e)
	l.mu.Lock()
	s, task := l.store, l.tasks[e.Environment]
	l.mu.Unlock()
	if e.Verdict != egress.Denied || s == nil || task == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	denied := nod.NewEvent(task, nod.Audit, nod.EventEgressDenied, nod.Supervisor(), e)
	if err := s.Apply(ctx, &nod.Change{By: nod.Supervisor(), Events: []*nod.Event{&denied}}); err != nil {
		l.log.Error("record a refused host", "environment", e.Environment, "task", task, "err", err)
	}
}
