package bot_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nod"
	"nod/bot"
	"nod/bot/github"
	"nod/bot/github/openapitest"
	"nod/bot/hostgit"
	"nod/policy"
	"nod/store"
	"nod/webhooks"
)

// after is nod from its label to what others do to its pull request: the simulated
// GitHub with its webhooks, the receiver, the bot, the store and git, all real. Only
// the agent is a script and its environment isolates nothing.
type after struct {
	*crashes
	dir    string
	store  *store.Store
	git    *hostgit.Git
	door   *httptest.Server
	taker  http.Handler
	mu     sync.Mutex
	stop   func()
	scribe *scribe
	set    bot.RepoSettings
	issue  int
}

var afterRepo = nod.Repo{Host: "github.com", Owner: "ada", Name: "web"}

// newAfter has ada (owner), wil (writer) and eve (nobody), and an issue by ada.
func newAfter(t *testing.T) *after {
	t.Helper()
	a := &after{crashes: newCrashes(t, nod.SignGitHub), dir: t.TempDir(), scribe: &scribe{words: "Done."}}
	for _, login := range []string{"wil", "eve"} {
		_, err := a.sim.CreateUser(login)
		a.ok(err)
	}
	a.ok(a.sim.SetPermission(crashRepo, "wil", "write"))
	rules, err := policy.Compile(policy.Settings{})
	a.ok(err)
	a.set = bot.RepoSettings{Repo: afterRepo, Agent: "fake", Rules: rules, Unchecked: true, Sign: nod.SignGitHub}
	a.door = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		next := a.taker
		a.mu.Unlock()
		if next == nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		next.ServeHTTP(w, r)
	}))
	t.Cleanup(a.door.Close)
	t.Cleanup(a.halt)
	a.sim.SetWebhook(a.door.URL)
	return a
}

// serve runs nod until halt.
func (a *after) serve() {
	a.Helper()
	log := (&world{t: a.T}).log()
	s, err := store.Open(a.Context(), store.Config{Path: filepath.Join(a.dir, "nod.db"), Now: time.Now, Log: log})
	a.ok(err)
	app := a.sim.App()
	client, err := github.New(github.Config{APIURL: a.plan.API, WebURL: a.plan.Web, AppID: app.ID, PrivateKey: app.PEM, Owners: []int64{a.plan.Owner},
		TriggerLabel: "nod", HTTP: openapitest.Watch(a.T, &http.Transport{DisableKeepAlives: true}, a.plan.API), Log: log})
	a.ok(err)
	a.git, err = hostgit.New(hostgit.Config{Dir: filepath.Join(a.dir, "git"), SigningKey: filepath.Join(filepath.Dir(a.plan.Key), "signing"),
		Author: hostgit.Identity{Name: a.plan.Name, Email: a.plan.Email}, Remote: client.Remote, Log: log})
	a.ok(err)
	b, err := bot.New(bot.Config{Host: "github.com", Agents: []string{"fake"}, Environments: filepath.Join(a.dir, "env"), Now: time.Now, Log: log,
		Repos: map[string]bot.RepoSettings{afterRepo.Key(): a.set}, Tick: 100 * time.Millisecond, SweepEvery: time.Hour, Neutralize: github.Neutralize,
		Push: func(nod.Decision, nod.Task, nod.Telling) nod.Push { return nod.Push{} }, RetryAfter: github.RetryAfter,
		Note: func(nod.Note, nod.Task) nod.Push { return nod.Push{} },
		Link: func(task string) string { return "https://nod.test/t/" + task },
	}, bot.Ports{Ledger: s, Queues: s, Closings: s, Usage: s, Acts: s, GitHub: client, Git: a.git, Texts: a.git, Environments: plainEnvironments{}, Agents: a.scribe,
		Parse: webhooks.Parser("github.com"), Preflight: client, Feedback: client,
		Effects: map[nod.EffectKind]bot.Performer{
			nod.EffectStatusComment: client.StatusComments(), nod.EffectSwapLabel: client.SwapLabels(), nod.EffectPush: client.Commits(a.git),
			nod.EffectOpenPR: client.OpenPulls(), nod.EffectReact: client.Reactions(), nod.EffectReply: client.Replies(),
			nod.EffectCheckRun: client.CheckRuns(), nod.EffectNotify: nothing{}}})
	a.ok(err)
	rc, err := webhooks.New(webhooks.Config{Secrets: []nod.Secret{app.WebhookSecret}, Accept: nudger{s, b}, AppID: app.ID, BotUserID: app.BotID, Host: "github.com", Log: log})
	a.ok(err)
	ctx, cancel := context.WithCancel(a.Context())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	a.mu.Lock()
	a.store, a.taker = s, rc
	a.stop = func() {
		a.mu.Lock()
		a.taker = nil
		a.mu.Unlock()
		cancel()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			a.Error(err)
		}
	}
	a.mu.Unlock()
}

func (a *after) halt() {
	if a.stop != nil {
		a.stop()
		a.stop = nil
	}
}

// nudger rings the bot for what is new.
type nudger struct {
	*store.Store
	bot *bot.Bot
}

func (n nudger) AcceptDelivery(ctx context.Context, d nod.Delivery) (bool, error) {
	fresh, err := n.Store.AcceptDelivery(ctx, d)
	n.bot.Nudge()
	return fresh, err
}

// label starts work on a new issue by ada.
func (a *after) label() {
	a.Helper()
	n, err := a.sim.CreateIssue("ada", crashRepo, "Total is wrong", "It ignores the coupon.")
	a.ok(err)
	a.ok(a.sim.Label("ada", crashRepo, n, "nod"))
	a.issue = n
}

// until waits until ok holds for the newest task of the issue.
func (a *after) until(what string, ok func(nod.Case) bool) nod.Case {
	a.Helper()
	var c nod.Case
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); {
		t, err := a.store.TaskOf(a.Context(), afterRepo, a.issue)
		if err == nil {
			c, err = a.store.Case(a.Context(), t.ID)
		}
		if err == nil && ok(c) {
			return c
		}
		if err != nil && nod.CodeOf(err) != nod.NotFound {
			a.Fatal(err)
		}
		breathe(a.Context(), 50*time.Millisecond)
	}
	a.Fatalf("never: %s\ntask %+v\ndecisions %+v\neffects %+v", what, c.Task, c.Decisions, c.Effects)
	return c
}

// breathe waits a little between two looks.
func breathe(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// settled has no effect left to perform.
func settled(c nod.Case) bool {
	for _, e := range c.Effects {
		if e.State == nod.EffectIntended {
			return false
		}
	}
	return true
}

// allow answers the one open decision of a cause.
func (a *after) answer(cause nod.Cause, answer string) nod.Case {
	a.Helper()
	c := a.until("asked: "+string(cause), waitingFor(cause))
	_, err := a.store.RecordAnswer(a.Context(), nod.Answer{Decision: c.Open()[0].ID, Answer: answer, By: nod.Actor{Kind: nod.ActorHost}})
	a.ok(err)
	return c
}

// delivers lets the result be pushed and waits for it, in round n.
func (a *after) delivers(n int) nod.Case {
	a.Helper()
	a.answer(nod.CauseReadyToPush, nod.Allow)
	return a.until(fmt.Sprint("round ", n, " is delivered"), func(c nod.Case) bool {
		return c.Task.State == nod.TaskReadyForReview && c.Run.Number == n && settled(c)
	})
}

// pull is the number of the task's pull request.
func (a *after) pull(c nod.Case) int { return c.Revision.PullRequest.Number }

// status is the text of nod's comment on the issue; there must be exactly one.
func (a *after) status() string {
	a.Helper()
	v, err := a.sim.View(crashRepo, a.issue)
	a.ok(err)
	body, found := "", 0
	for _, c := range v.Comments {
		if strings.HasPrefix(c.Body, "<!-- nod:task:") {
			body, found = c.Body, found+1
		}
	}
	if found != 1 {
		a.Errorf("%d status comments", found)
	}
	return body
}

// says waits until the status comment holds all words: the effect that writes it may
// begin after the state that it tells of is there.
func (a *after) says(words ...string) {
	a.Helper()
	a.until(fmt.Sprintf("the status comment says %q", words), func(nod.Case) bool {
		s := a.status()
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(s, w) })
	})
}

// scribe is an agent that adds a line to a file and commits it.
type scribe struct {
	mu      sync.Mutex
	prompts []string
	words   string        // its last ones
	hold    chan struct{} // when set, its sessions end only once it is closed, or when they are stopped
}

func (s *scribe) told() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.prompts...)
}

func (s *scribe) holds(c chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = c
}

func (s *scribe) Start(ctx context.Context, _ string, ex nod.Executor, spec nod.AgentSpec) (nod.AgentSession, error) {
	s.mu.Lock()
	s.prompts = append(s.prompts, spec.Prompt)
	n, hold, words := len(s.prompts), s.hold, s.words
	s.mu.Unlock()
	p, err := ex.Exec(ctx, nod.Command{Argv: []string{"sh", "-c", `set -e
printf 'line %s\n' "$1" >>fix.txt
git add -A && git commit -q -m "fix: line $1"`, "scribe", fmt.Sprint(n)}})
	if err != nil {
		return nil, err
	}
	said, err := io.ReadAll(p.Stderr())
	if err != nil {
		return nil, err
	}
	if status, err := p.Wait(); err != nil || status.Code != 0 {
		return nil, fmt.Errorf("the agent's commit: %w: %s", err, said)
	}
	live, cancel := context.WithCancel(context.Background())
	session := &fakeSession{ctx: live, cancel: cancel, spec: spec, events: make(chan nod.Event, 4), ended: make(chan struct{}), result: nod.Result{OK: true, Text: words}}
	go func() {
		defer close(session.ended)
		defer close(session.events)
		session.emit(nod.EventSession, nod.SessionOpened{Session: "s-1", Program: "fake"})
		if hold != nil {
			select {
			case <-hold:
			case <-live.Done():
				session.err = errors.New("the process was stopped")
				return
			}
		}
		session.emit(nod.EventResult, session.result)
	}()
	return session, nil
}

// exists reports whether the environment of c is still on the disk.
func (a *after) exists(c nod.Case) bool {
	_, err := os.Stat(filepath.Join(a.dir, "env", c.Environment.ID))
	return err == nil
}
