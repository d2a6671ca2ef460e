package answer_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"nod"
)

// fakeStore keeps what the ports keep, in memory, by the rules their comments give:
// challenges are consumed with what they were for, everything expires by the clock.
type fakeStore struct {
	mu         sync.Mutex
	now        func() time.Time
	decisions  map[string]nod.Decision
	cases      map[string]nod.Case
	blobs      map[string][]byte
	events     []nod.Event
	committed  chan struct{} // closed and replaced at each event
	passkeys   map[string]nod.Passkey
	enrolments map[string]nod.Enrolment
	challenges map[string]nod.Challenge
	sessions   map[string]nod.Session
	answers    []nod.Answer // recorded, as the audit log would keep them
	writes     int          // everything that changed something
	seen       []string     // decision and passkey
	turnedAway []string     // decision, answer and code
	taps       map[string]bool
}

func newFakeStore(now func() time.Time) *fakeStore {
	return &fakeStore{now: now, decisions: map[string]nod.Decision{}, cases: map[string]nod.Case{}, blobs: map[string][]byte{},
		committed: make(chan struct{}), passkeys: map[string]nod.Passkey{}, enrolments: map[string]nod.Enrolment{},
		challenges: map[string]nod.Challenge{}, sessions: map[string]nod.Session{}, taps: map[string]bool{}}
}

func missing(what string) error { return nod.E(nod.NotFound, "no such "+what, nil) }

func (f *fakeStore) locked() func() {
	f.mu.Lock()
	return f.mu.Unlock
}

// sizes is how many decisions and cases there are.
func (f *fakeStore) sizes() (decisions, cases int) {
	defer f.locked()()
	return len(f.decisions), len(f.cases)
}

func (f *fakeStore) Decision(_ context.Context, id string) (nod.Decision, error) {
	defer f.locked()()
	d, ok := f.decisions[id]
	if !ok {
		return d, missing("decision")
	}
	return d, nil
}

func (f *fakeStore) OpenDecisions(context.Context) ([]nod.Decision, error) {
	defer f.locked()()
	var open []nod.Decision
	for _, d := range f.decisions {
		if d.State == nod.DecisionOpen {
			open = append(open, d)
		}
	}
	slices.SortFunc(open, func(a, b nod.Decision) int {
		if a.Blocking != b.Blocking {
			if a.Blocking {
				return -1
			}
			return 1
		}
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return slices.Compare([]byte(a.ID), []byte(b.ID))
	})
	return open, nil
}

// consume takes a challenge out, or fails when it is used up, too old or of another kind.
func (f *fakeStore) consume(id string, kind nod.ChallengeKind) (nod.Challenge, error) {
	c, ok := f.challenges[id]
	if !ok || c.Kind != kind || !f.now().Before(c.ExpiresAt) {
		return c, nod.E(nod.Expired, "this request is used up or too old", nil)
	}
	delete(f.challenges, id)
	f.writes++
	return c, nil
}

func (f *fakeStore) count(passkey string, count uint32) error {
	p, ok := f.passkeys[passkey]
	switch {
	case !ok || !p.RevokedAt.IsZero():
		return nod.E(nod.Forbidden, "this passkey is not enrolled", nil)
	case count <= p.SignCount && (count != 0 || p.SignCount != 0):
		return nod.E(nod.Forbidden, "the counter went backwards", nil)
	}
	p.SignCount = count
	f.passkeys[passkey] = p
	return nil
}

func (f *fakeStore) RecordAnswer(_ context.Context, a nod.Answer) (nod.Decision, error) {
	defer f.locked()()
	d, ok := f.decisions[a.Decision]
	if !ok {
		return d, missing("decision")
	}
	c, err := f.consume(a.Challenge, nod.ChallengeAnswer)
	if err != nil {
		return d, err
	}
	if c.Decision != a.Decision || c.Answer != a.Answer || c.Reason != a.Reason {
		return d, nod.E(nod.Forbidden, "the challenge was for another answer", nil)
	}
	if err := f.count(a.By.Passkey, a.Assertion.SignCount); err != nil {
		return d, err
	}
	switch {
	case d.State == nod.DecisionAnswered && d.Answer == a.Answer:
		return d, nil
	case d.State == nod.DecisionAnswered:
		return d, nod.E(nod.Conflict, "already answered by "+d.AnsweredBy.Show()+" at "+d.AnsweredAt.Format(time.RFC3339), nil)
	case d.State != nod.DecisionOpen:
		return d, nod.E(nod.Expired, "this decision is "+string(d.State), nil)
	case d.Late(f.now()):
		d.State = nod.DecisionExpired
		f.decisions[d.ID] = d
		return d, nod.E(nod.Expired, "too late", nil)
	}
	d.State, d.Answer, d.Reason, d.AnsweredBy, d.AnsweredAt = nod.DecisionAnswered, a.Answer, a.Reason, a.By, f.now()
	f.decisions[d.ID] = d
	f.answers = append(f.answers, a)
	f.writes++
	return d, nil
}

func (f *fakeStore) Case(_ context.Context, task string) (nod.Case, error) {
	defer f.locked()()
	c, ok := f.cases[task]
	if !ok {
		return c, missing("task")
	}
	c.Decisions = nil
	for _, d := range f.decisions {
		if d.Task == task {
			c.Decisions = append(c.Decisions, d)
		}
	}
	slices.SortFunc(c.Decisions, func(a, b nod.Decision) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return c, nil
}

func (f *fakeStore) Blob(_ context.Context, digest string) ([]byte, error) {
	defer f.locked()()
	b, ok := f.blobs[digest]
	if !ok {
		return nil, missing("blob")
	}
	return b, nil
}

func (f *fakeStore) Tasks(_ context.Context, states ...nod.TaskState) ([]nod.Task, error) {
	defer f.locked()()
	var tasks []nod.Task
	for _, c := range f.cases {
		if len(states) == 0 || slices.Contains(states, c.Task.State) {
			tasks = append(tasks, c.Task)
		}
	}
	slices.SortFunc(tasks, func(a, b nod.Task) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return tasks, nil
}

func (f *fakeStore) Events(_ context.Context, task string, afterSeq int64, limit int) ([]nod.Event, error) {
	defer f.locked()()
	var events []nod.Event
	for _, e := range f.events {
		if e.Stream == task && e.Seq > afterSeq && len(events) < limit {
			events = append(events, e)
		}
	}
	return events, nil
}

func (f *fakeStore) Wait(ctx context.Context, stream string, after int64) ([]nod.Event, error) {
	for {
		f.mu.Lock()
		var events []nod.Event
		for _, e := range f.events {
			if e.ID > after && (stream == "" || e.Stream == stream) && len(events) < 1000 {
				events = append(events, e)
			}
		}
		committed := f.committed
		f.mu.Unlock()
		if len(events) > 0 {
			return events, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-committed:
		}
	}
}

// commit appends an event to a task's stream.
func (f *fakeStore) commit(e nod.Event) nod.Event {
	defer f.locked()()
	return f.record(e)
}

func (f *fakeStore) record(e nod.Event) nod.Event {
	e.ID, e.Seq, e.At = int64(len(f.events)+1), 1, f.now()
	for _, old := range f.events {
		if old.Stream == e.Stream {
			e.Seq = old.Seq + 1
		}
	}
	f.events = append(f.events, e)
	close(f.committed)
	f.committed = make(chan struct{})
	return e
}

func (f *fakeStore) Passkeys(context.Context) ([]nod.Passkey, error) {
	defer f.locked()()
	var keys []nod.Passkey
	for _, p := range f.passkeys {
		if p.RevokedAt.IsZero() {
			keys = append(keys, p)
		}
	}
	return keys, nil
}

func (f *fakeStore) Enrolment(_ context.Context, tokenDigest string) (nod.Enrolment, error) {
	defer f.locked()()
	e, ok := f.enrolments[tokenDigest]
	if !ok || !f.now().Before(e.ExpiresAt) {
		return nod.Enrolment{}, missing("enrolment")
	}
	return e, nil
}

func (f *fakeStore) SaveChallenge(_ context.Context, c nod.Challenge) error {
	defer f.locked()()
	f.challenges[c.ID] = c
	f.writes++
	return nil
}

func (f *fakeStore) Challenge(_ context.Context, id string) (nod.Challenge, error) {
	defer f.locked()()
	c, ok := f.challenges[id]
	if !ok || !f.now().Before(c.ExpiresAt) {
		return nod.Challenge{}, missing("challenge")
	}
	return c, nil
}

func (f *fakeStore) Enrol(_ context.Context, challenge string, p nod.Passkey) error {
	defer f.locked()()
	c, err := f.consume(challenge, nod.ChallengeEnrol)
	if err != nil {
		return err
	}
	if _, ok := f.enrolments[c.Enrolment]; !ok {
		return nod.E(nod.Expired, "this link is used up or too old", nil)
	}
	delete(f.enrolments, c.Enrolment)
	f.passkeys[p.ID] = p
	f.writes++
	return nil
}

func (f *fakeStore) SignIn(_ context.Context, challenge string, signCount uint32, backedUp bool, s nod.Session) error {
	defer f.locked()()
	if _, err := f.consume(challenge, nod.ChallengeSignIn); err != nil {
		return err
	}
	if err := f.count(s.Passkey, signCount); err != nil {
		return err
	}
	p := f.passkeys[s.Passkey]
	p.BackedUp = backedUp
	f.passkeys[s.Passkey] = p
	f.sessions[s.TokenDigest] = s
	f.writes++
	return nil
}

func (f *fakeStore) Session(_ context.Context, tokenDigest string) (nod.Session, error) {
	defer f.locked()()
	s, ok := f.sessions[tokenDigest]
	if !ok || !f.holds(s) {
		return nod.Session{}, missing("session")
	}
	s.SeenAt = f.now()
	f.sessions[tokenDigest] = s
	return s, nil
}

func (f *fakeStore) holds(s nod.Session) bool {
	return f.now().Before(s.ExpiresAt) && f.now().Before(s.SeenAt.Add(s.Idle)) && f.passkeys[s.Passkey].RevokedAt.IsZero()
}

func (f *fakeStore) RecordAct(_ context.Context, a nod.Act) (nod.Act, error) {
	defer f.locked()()
	_, err := f.consume(a.Challenge, nod.ChallengeAct)
	a.State = nod.ActWanted
	return a, err
}

func (f *fakeStore) See(_ context.Context, decision, passkey string) error {
	defer f.locked()()
	f.seen = append(f.seen, decision+" "+passkey)
	return nil
}

func (f *fakeStore) RefuseAnswer(_ context.Context, decision, answer, _ string, why *nod.Error) error {
	defer f.locked()()
	f.turnedAway = append(f.turnedAway, decision+" "+answer+" "+string(why.Code))
	return nil
}

func (f *fakeStore) Tappable(_ context.Context, digest string) (bool, error) {
	defer f.locked()()
	tapped, ok := f.taps[digest]
	if !ok {
		return false, missing("test push")
	}
	return tapped, nil
}

func (f *fakeStore) Tap(_ context.Context, digest string) error {
	defer f.locked()()
	if _, ok := f.taps[digest]; !ok {
		return missing("test push")
	}
	f.taps[digest] = true
	return nil
}

func (f *fakeStore) Peek(_ context.Context, tokenDigest string) (nod.Session, error) {
	defer f.locked()()
	s, ok := f.sessions[tokenDigest]
	if !ok || !f.holds(s) {
		return nod.Session{}, missing("session")
	}
	return s, nil
}

func (f *fakeStore) Sessions(context.Context) ([]nod.Session, error) {
	defer f.locked()()
	var open []nod.Session
	for _, s := range f.sessions {
		if f.holds(s) {
			open = append(open, s)
		}
	}
	slices.SortFunc(open, func(a, b nod.Session) int { return b.SeenAt.Compare(a.SeenAt) })
	return open, nil
}

func (f *fakeStore) SignOut(_ context.Context, tokenDigest string) error {
	defer f.locked()()
	delete(f.sessions, tokenDigest)
	f.writes++
	return nil
}
