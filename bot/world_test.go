package bot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nod"
	"nod/bot"
	"nod/notify"
	"nod/policy"
	"nod/store"
)

var repo = nod.Repo{Host: "github.test", Owner: "acme", Name: "web"}

func person(id int64, login string) nod.Actor {
	return nod.Actor{Kind: nod.ActorGitHub, Host: "github.test", ID: id, Login: login}
}

var (
	ada = person(1, "ada") // owner
	eve = person(9, "eve") // a stranger
)

const headSHA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// world is everything around a bot: a real store on a real file, and fakes of the
// outside that keep what was done to them.
type world struct {
	t     testing.TB
	dir   string
	store *store.Store
	stop  func()
	tick  time.Duration // of the bot
	seq   int

	refuses  []string         // by preflight
	files    []nod.FileChange // of the prepared result
	settings func(*bot.RepoSettings)
	result   unprepared
	trailers []string // that were asked for
	main     string   // the default branch, when it is not main
	scripts  []string // run in environments
	change   func(*bot.Config)
	agents   bot.Agents    // starts them in the world's place
	closings bot.Closings  // waits in the store's place
	phone    bot.Performer // sends pushes in the world's place

	mu                 sync.Mutex
	issues             map[int]*nod.Issue
	branch             string // where the task's branch stands
	pulls              []nod.PullRequest
	comments           []string // bodies of the one status comment, as edited
	pushes             []nod.Push
	replies, reactions []string
	checks             []nod.CheckRun               // nod's own
	reviews            map[int64]nod.PullReview     // as read
	red                map[string][]nod.FailedCheck // by commit
	running            map[string]bool
	egress             [][]string // hosts of each start
	check              int        // exit code of the repository's check
	agent              func(a *fakeSession) nod.Result
	sessions           atomic.Int32
	reads              int
	swap               func(reads int, i *nod.Issue) // edits what is read of an issue
	labeller           nod.Actor                     // who GitHub says set the label
	lost               bool                          // the agent's sessions are gone
	texts              map[string]string             // files of the repository
	prompts            []string
	resumed            []string                             // the session that each was to resume
	fault              map[nod.EffectKind]func(n int) error // called before the n-th performance
	after              map[nod.EffectKind]func(n int) error // called after it
	lookup             map[nod.EffectKind]error
	done               map[nod.EffectKind]int // acts that really happened
	tries              map[nod.EffectKind]int
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, dir: t.TempDir(), issues: map[int]*nod.Issue{}, running: map[string]bool{},
		fault: map[nod.EffectKind]func(int) error{}, after: map[nod.EffectKind]func(int) error{}, lookup: map[nod.EffectKind]error{},
		done: map[nod.EffectKind]int{}, tries: map[nod.EffectKind]int{}}
	w.agent = func(a *fakeSession) nod.Result { return nod.Result{OK: true, Text: "Done."} }
	w.labeller, w.tick = ada, 10*time.Second
	return w
}

func (w *world) log() *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{w.t}, nil))
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// start opens the store and runs a bot on it until halt.
func (w *world) start() {
	w.t.Helper()
	s, err := store.Open(w.t.Context(), store.Config{Path: filepath.Join(w.dir, "nod.db"), Now: time.Now, Log: w.log()})
	if err != nil {
		w.t.Fatal(err)
	}
	w.store = s
	rules, err := policy.Compile(policy.Settings{})
	if err != nil {
		w.t.Fatal(err)
	}
	set := bot.RepoSettings{Repo: repo, Agent: "fake", Check: []string{"make", "test"}, Rules: rules}
	if w.settings != nil {
		w.settings(&set)
	}
	cfg := bot.Config{
		Host: repo.Host, Agents: []string{"fake", "other"}, Environments: filepath.Join(w.dir, "env"), Now: time.Now, Log: w.log(),
		Repos: map[string]bot.RepoSettings{repo.Key(): set},
		Tick:  w.tick, Neutralize: func(s string) string { return strings.ReplaceAll(s, "@", "@\u200b") },
		Push: func(d nod.Decision, t nod.Task, w nod.Telling) nod.Push {
			return nod.Push{Title: string(d.Kind), Message: t.Short(), Click: "https://nod.test/d/" + d.ID, Closed: w.Closed}
		},
		Secret: s.HoldsSecret,
		Note: func(n nod.Note, t nod.Task) nod.Push {
			return nod.Push{Title: string(n), Message: t.Short(), Click: "https://nod.test/t/" + t.ID}
		},
		Link:       func(task string) string { return "https://nod.test/t/" + task },
		RetryAfter: notify.RetryAfter,
	}
	if w.change != nil {
		w.change(&cfg)
	}
	var phone bot.Performer = performer{w}
	if w.phone != nil {
		phone = w.phone
	}
	var agents bot.Agents = fakeAgents{w}
	var closings bot.Closings = s
	if w.closings != nil {
		closings = w.closings
	}
	if w.agents != nil {
		agents = w.agents
	}
	b, err := bot.New(cfg, bot.Ports{Acts: s, Sights: s, Ledger: s, Queues: s, Closings: closings, Usage: s, GitHub: w, Git: fakeGit{w}, Texts: fakeGit{w}, Environments: fakeEnvironments{w}, Agents: agents, Parse: parse, Preflight: w, Feedback: w, Refusals: s,
		Effects: map[nod.EffectKind]bot.Performer{
			nod.EffectStatusComment: performer{w}, nod.EffectSwapLabel: performer{w}, nod.EffectPush: performer{w},
			nod.EffectOpenPR: performer{w}, nod.EffectNotify: phone, nod.EffectReact: performer{w}, nod.EffectReply: performer{w}, nod.EffectCheckRun: performer{w}}})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
		if err := s.Close(); err != nil {
			w.t.Error(err)
		}
	}
}

// halt ends the bot and the store, as a shutdown would.
func (w *world) halt() {
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
}

// life runs f in a bubble where time passes only when everyone waits.
func life(t *testing.T, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start()
		defer w.halt()
		synctest.Wait() // what a start looks for is not there yet
		f(t, w)
	})
}

func (w *world) issue(number int, author nod.Actor) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.issues[number] = &nod.Issue{Repo: repo, Number: number, Title: "Greeting is wrong", Body: "Say hello, not helo.", Author: author,
		Open: true, Labels: []string{"nod"}, UpdatedAt: time.Now()}
}

// deliver puts an occurrence into the table of deliveries.
func (w *world) deliver(o nod.Occurrence) {
	w.t.Helper()
	w.seq++
	o.Repo, o.At = repo, time.Now()
	raw, err := json.Marshal(o)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.store.AcceptDelivery(w.t.Context(), nod.Delivery{GUID: fmt.Sprintf("guid-%d", w.seq), Event: "fake", Payload: raw,
		Order: fmt.Sprintf("%s#%d", repo, o.Issue), ReceivedAt: time.Now()}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) label(number int, by nod.Actor) {
	w.deliver(nod.Occurrence{Kind: nod.IssueLabeled, Issue: number, Sender: by, Label: "nod"})
}

func parse(d nod.Delivery) (*nod.Occurrence, error) {
	var o nod.Occurrence
	if err := json.Unmarshal(d.Payload, &o); err != nil {
		return nil, nod.E(nod.Invalid, "not an occurrence", err)
	}
	return &o, nil
}

// task returns the newest task of an issue.
func (w *world) task(number int) nod.Case {
	w.t.Helper()
	t, err := w.store.TaskOf(w.t.Context(), repo, number)
	if err != nil {
		w.t.Fatal(err)
	}
	c, err := w.store.Case(w.t.Context(), t.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// until lets time pass until ok holds for issue 1's case.
func (w *world) until(what string, ok func(c nod.Case) bool) nod.Case {
	w.t.Helper()
	for range 1000 {
		time.Sleep(max(100*time.Millisecond, w.tick/100)) // always far longer than a tick in all
		synctest.Wait()
		if t, err := w.store.TaskOf(w.t.Context(), repo, 1); err == nil {
			if c, err := w.store.Case(w.t.Context(), t.ID); err == nil && ok(c) {
				return c
			}
		}
	}
	w.t.Fatalf("never: %s (case: %+v)", what, w.task(1))
	return nod.Case{}
}

func in(s nod.TaskState) func(nod.Case) bool {
	return func(c nod.Case) bool { return c.Task.State == s }
}

func waitingFor(cause nod.Cause) func(nod.Case) bool {
	return func(c nod.Case) bool { return len(c.Open()) == 1 && c.Open()[0].Cause == cause }
}

// answer answers the one open decision from the host.
func (w *world) answer(answer, reason string) {
	w.t.Helper()
	open := w.task(1).Open()
	if len(open) != 1 {
		w.t.Fatalf("%d decisions are open, want one", len(open))
	}
	if _, err := w.store.RecordAnswer(w.t.Context(), nod.Answer{Decision: open[0].ID, Answer: answer, Reason: reason,
		By: nod.Actor{Kind: nod.ActorHost}}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) verifyChain() {
	w.t.Helper()
	r, err := w.store.VerifyChain(w.t.Context(), "")
	if err != nil || !r.Verified || r.Entries == 0 {
		w.t.Errorf("audit chain: %+v, %v", r, err)
	}
}

// GitHub, as bot.GitHub.

func (w *world) Standing(_ context.Context, _ int64, _ nod.Repo, a nod.Actor) nod.Standing {
	switch {
	case a.ID == ada.ID:
		return nod.Standing{Actor: a, Tier: nod.Owner, Reason: "listed as an owner"}
	case a.Bot:
		return nod.Standing{Actor: a, Tier: nod.Bot, Reason: "not a user"}
	}
	return nod.Standing{Actor: a, Tier: nod.Outsider, Reason: "no permission"}
}

func (w *world) Issue(_ context.Context, _ int64, _ nod.Repo, number int) (nod.Issue, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i, ok := w.issues[number]
	if !ok {
		return nod.Issue{}, nod.E(nod.NotFound, "no such issue", nil)
	}
	read := *i
	w.reads++
	if w.swap != nil {
		w.swap(w.reads, &read)
	}
	return read, nil
}

func (w *world) Labelled(_ context.Context, _ nod.Repo, label string) ([]nod.Issue, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []nod.Issue
	for _, i := range w.issues {
		for _, l := range i.Labels {
			if l == label {
				found := *i
				found.Labeller = w.labeller
				out = append(out, found)
			}
		}
	}
	return out, nil
}

func (w *world) Preflight(context.Context, nod.Task, nod.SignMode) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.refuses, nil
}

func (w *world) Review(_ context.Context, _ nod.Task, _ int, id int64) (nod.PullReview, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r, ok := w.reviews[id]
	if !ok {
		return nod.PullReview{}, nod.E(nod.NotFound, "no such review", nil)
	}
	return r, nil
}

func (w *world) FailedChecks(_ context.Context, _ nod.Task, sha string) ([]nod.FailedCheck, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.red[sha], nil
}

func (w *world) DefaultBranch(context.Context, int64, nod.Repo) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.main != "" {
		return w.main, nil
	}
	return "main", nil
}

func (w *world) Delivered(_ context.Context, _ nod.Task, r nod.Revision) (nod.Delivered, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := nod.Delivered{BranchSHA: w.branch}
	if n := len(w.pulls); n > 0 {
		d.PullRequest = w.pulls[n-1]
	}
	for _, c := range r.Commits {
		c.Verified = true
		d.Commits = append(d.Commits, c)
	}
	return d, nil
}

// performer performs every kind of effect on the world.
type performer struct{ w *world }

func (p performer) Perform(_ context.Context, _ nod.Task, e nod.Effect) (json.RawMessage, error) {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tries[e.Kind]++
	if f := w.fault[e.Kind]; f != nil {
		if err := f(w.tries[e.Kind]); err != nil {
			return nil, err
		}
	}
	out, err := p.act(e)
	if err != nil {
		return nil, err
	}
	w.done[e.Kind]++
	if f := w.after[e.Kind]; f != nil {
		if err := f(w.tries[e.Kind]); err != nil {
			return nil, err
		}
	}
	return json.Marshal(out)
}

func (p performer) act(e nod.Effect) (any, error) {
	w := p.w
	switch e.Kind {
	case nod.EffectStatusComment:
		var i nod.StatusComment
		if err := json.Unmarshal(e.Intent, &i); err != nil {
			return nil, err
		}
		w.comments = append(w.comments, i.Body)
		return nod.CommentOutcome{ID: 77}, nil
	case nod.EffectReact:
		var i nod.React
		if err := json.Unmarshal(e.Intent, &i); err != nil {
			return nil, err
		}
		w.reactions = append(w.reactions, fmt.Sprintf("%d %s", i.Comment, i.Content))
		return struct{}{}, nil
	case nod.EffectReply:
		var i nod.Reply
		if err := json.Unmarshal(e.Intent, &i); err != nil {
			return nil, err
		}
		w.replies = append(w.replies, i.Body)
		return nod.CommentOutcome{ID: 78}, nil
	case nod.EffectSwapLabel:
		var i nod.SwapLabel
		if err := json.Unmarshal(e.Intent, &i); err != nil {
			return nil, err
		}
		keep := []string{}
		for _, l := range w.issues[i.Issue].Labels {
			if !strings.Contains(strings.Join(i.Remove, " ")+" ", l+" ") {
				keep = append(keep, l)
			}
		}
		if i.Add != "" {
			keep = append(keep, i.Add)
		}
		w.issues[i.Issue].Labels = keep
		return struct{}{}, nil
	case nod.EffectPush:
		var i nod.PushBranch
		if err := json.Unmarshal(e.Intent, &i); err != nil {
			return nil, err
		}
		if i.Old != w.branch {
			return nil, nod.E(nod.Conflict, "somebody else moved the branch", nil)
		}
		w.branch = i.SHA
		return nod.PushOutcome{SHA: i.SHA}, nil
	case nod.EffectOpenPR:
		var i nod.OpenPullRequest
		if err := json.Unmarshal(e.Intent, &i); err != nil {
			return nil, err
		}
		if n := len(w.pulls); n > 0 && w.pulls[n-1].State == "open" {
			w.pulls[n-1].HeadSHA = w.branch
			return w.pulls[n-1], nil
		}
		pr := nod.PullRequest{Number: len(w.pulls) + 1, HeadRef: i.Head, HeadSHA: w.branch, BaseRef: i.Base, State: "open"}
		w.pulls = append(w.pulls, pr)
		return pr, nil
	case nod.EffectCheckRun:
		var i nod.CheckRun
		if err := json.Unmarshal(e.Intent, &i); err != nil {
			return nil, err
		}
		w.checks = append(w.checks, i)
		return nod.CheckRunOutcome{ID: 79}, nil
	case nod.EffectNotify:
		var i nod.Push
		if err := json.Unmarshal(e.Intent, &i); err != nil {
			return nil, err
		}
		w.pushes = append(w.pushes, i)
		return struct{}{}, nil
	}
	return nil, fmt.Errorf("effect kind %q", e.Kind)
}

func (p performer) Lookup(_ context.Context, _ nod.Task, e nod.Effect) (json.RawMessage, error) {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.lookup[e.Kind]; err != nil {
		return nil, err
	}
	switch e.Kind {
	case nod.EffectPush:
		var i nod.PushBranch
		if err := json.Unmarshal(e.Intent, &i); err != nil {
			return nil, err
		}
		if w.branch == i.SHA {
			return json.Marshal(nod.PushOutcome{SHA: i.SHA})
		}
	case nod.EffectOpenPR:
		if n := len(w.pulls); n > 0 {
			return json.Marshal(w.pulls[n-1])
		}
	}
	return nil, nil
}

// unprepared is what preparing comes to next; see fakeGit.Prepare.
type unprepared struct {
	err     error
	message string
	diff    string
}

type fakeGit struct{ w *world }

func (g fakeGit) Seed(_ context.Context, _ nod.Task, _, dir string) (string, error) {
	return strings.Repeat("b", 40), os.MkdirAll(dir, 0o755)
}

func (g fakeGit) Import(_ context.Context, _ nod.Task, bundle io.Reader) (string, error) {
	raw, err := io.ReadAll(bundle)
	if err == nil && string(raw) != "bundle" {
		err = nod.E(nod.Invalid, "not a bundle", nil)
	}
	return headSHA, err
}

func (g fakeGit) Prepare(_ context.Context, s nod.PrepareSpec) (nod.Prepared, error) {
	g.w.mu.Lock()
	defer g.w.mu.Unlock()
	sha, onto := fmt.Sprintf("%040d", g.w.sessions.Load()), g.w.branch
	if onto == "" {
		onto = strings.Repeat("b", 40)
	}
	g.w.trailers = s.Trailers
	if err := g.w.result.err; err != nil {
		g.w.result.err = nil
		return nod.Prepared{}, err
	}
	message := "fix: say hello"
	if g.w.result.message != "" {
		message = g.w.result.message
	}
	return nod.Prepared{Diff: []byte("diff " + sha + g.w.result.diff), Revision: nod.Revision{SHA: sha, BaseRef: s.BaseRef, BaseSHA: onto, Tree: sha, Files: g.w.files,
		Commits: []nod.Commit{{SHA: sha, Tree: sha, Parents: []string{onto}, Subject: "fix: say hello to @stranger", Message: message}}}}, nil
}

func (g fakeGit) Bundle(_ context.Context, _ nod.Task, _, _ string, w io.Writer) error {
	_, err := io.WriteString(w, "bundle")
	return err
}

func (g fakeGit) Texts(_ context.Context, _ nod.Task, sha string, names []string, _ int64) (map[string]string, error) {
	if sha != strings.Repeat("b", 40) {
		return nil, nod.E(nod.NotFound, "the commit is not the one that the workspace was seeded at", nil)
	}
	out := map[string]string{}
	for _, n := range names {
		if text, ok := g.w.texts[n]; ok {
			out[n] = text
		}
	}
	return out, nil
}

func (g fakeGit) Forget(context.Context, nod.Task) error { return nil }

type fakeEnvironments struct{ w *world }

func (f fakeEnvironments) Start(_ context.Context, s nod.EnvironmentSpec) (nod.Attestation, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if f.w.running[s.ID] {
		return nod.Attestation{}, nod.E(nod.Conflict, "it runs", nil)
	}
	f.w.running[s.ID] = true
	f.w.egress = append(f.w.egress, s.Egress)
	return nod.Attestation{Isolation: "fake", UID: 1000, GID: 1000, Capabilities: "0000000000000000", NoNewPrivs: true, Seccomp: true,
		Interfaces: []string{"lo"}, RootReadOnly: true, EgressRefused: true, DirectRefused: true}, nil
}

func (f fakeEnvironments) Exec(_ context.Context, id string, c nod.Command) (nod.Process, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if !f.w.running[id] {
		return nil, nod.E(nod.Conflict, "it does not run", nil)
	}
	line := strings.Join(c.Argv, " ")
	f.w.scripts = append(f.w.scripts, line)
	switch {
	case strings.Contains(line, "git bundle create"):
		return process{out: "bundle"}, nil
	case strings.Contains(line, "make test"):
		return process{out: "tested", code: f.w.check}, nil
	}
	return process{}, nil
}

func (f fakeEnvironments) Stop(_ context.Context, id string) error {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	delete(f.w.running, id)
	return nil
}

func (f fakeEnvironments) Delete(ctx context.Context, id string) error { return f.Stop(ctx, id) }

func (f fakeEnvironments) List(context.Context) ([]string, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	var ids []string
	for id := range f.w.running {
		ids = append(ids, id)
	}
	return ids, nil
}

type process struct {
	out  string
	code int
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }

func (p process) Stdin() io.WriteCloser         { return discard{} }
func (p process) Stdout() io.Reader             { return bytes.NewReader([]byte(p.out)) }
func (p process) Stderr() io.Reader             { return bytes.NewReader(nil) }
func (p process) Wait() (nod.ExitStatus, error) { return nod.ExitStatus{Code: p.code}, nil }
func (p process) Kill(context.Context) error    { return nil }

type fakeAgents struct{ w *world }

func (f fakeAgents) Start(_ context.Context, _ string, _ nod.Executor, s nod.AgentSpec) (nod.AgentSession, error) {
	f.w.mu.Lock()
	if s.Session != "" && f.w.lost {
		f.w.mu.Unlock()
		return nil, nod.E(nod.NotFound, "no such session", nil)
	}
	f.w.sessions.Add(1)
	f.w.prompts, f.w.resumed = append(f.w.prompts, s.Prompt), append(f.w.resumed, s.Session)
	play := f.w.agent
	f.w.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	a := &fakeSession{ctx: ctx, cancel: cancel, spec: s, events: make(chan nod.Event, 16), ended: make(chan struct{})}
	go func() {
		defer close(a.ended)
		defer close(a.events)
		a.emit(nod.EventSession, nod.SessionOpened{Session: "s-1", Program: "fake"})
		if a.result = play(a); ctx.Err() != nil {
			a.err = errors.New("the process was stopped")
			return
		}
		a.emit(nod.EventResult, a.result)
	}()
	return a, nil
}

// fakeSession is a live agent whose play is a Go function.
type fakeSession struct {
	ctx    context.Context
	cancel func()
	spec   nod.AgentSpec
	events chan nod.Event
	ended  chan struct{}
	result nod.Result
	err    error
}

func (a *fakeSession) emit(kind nod.EventKind, data any) {
	a.events <- nod.NewEvent("", nod.Transcript, kind, nod.Actor{Kind: nod.ActorAgent}, data)
}

// asks requests leave for a tool call.
func (a *fakeSession) asks(tool, input string) nod.ApprovalAnswer {
	return a.approve(nod.ApprovalRequest{ID: "1", Tool: tool, Input: json.RawMessage(input)})
}

func (a *fakeSession) approve(r nod.ApprovalRequest) nod.ApprovalAnswer {
	ctx, heard := context.WithCancel(a.ctx)
	defer heard()
	return a.spec.Approve(ctx, r)
}

func (a *fakeSession) ID() string                             { return "s-1" }
func (a *fakeSession) Events() <-chan nod.Event               { return a.events }
func (a *fakeSession) Instruct(context.Context, string) error { return nil }
func (a *fakeSession) Stop(context.Context) error             { a.cancel(); <-a.ended; return nil }
func (a *fakeSession) Wait() (nod.Result, error)              { <-a.ended; return a.result, a.err }
