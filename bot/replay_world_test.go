package bot_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"nod"
	"nod/bot"
	"nod/bot/github"
	"nod/bot/github/githubsim"
	"nod/bot/github/openapitest"
	"nod/policy"
	"nod/store"
	"nod/webhooks"
)

// The ways by which nod hears of what happens.
const (
	webhook    = "webhook"
	deliveries = "deliveries"
	poll       = "poll"
)

const full = "ada/web"

// replay is nod's way from GitHub to a running agent with the real parts: the simulated
// GitHub, the client, the receiver, both pollers, the bot and a store on a real file.
// Git, environments and agents are the world's fakes.
type replay struct {
	*world
	sim    *githubsim.Server
	base   string
	users  map[string]nod.Actor
	repo   nod.Repo
	client *github.Client
	rules  policy.Settings
	sweep  time.Duration
	behind atomic.Int64 // how far GitHub's clock is behind
	door   *httptest.Server
	taker  atomic.Pointer[webhooks.Receiver]
}

// newReplay makes a GitHub with an owner ada, a writer wil, a triager tri and a
// stranger eve. Nothing of nod runs yet.
func newReplay(t *testing.T) *replay {
	t.Helper()
	r := &replay{world: newWorld(t), users: map[string]nod.Actor{}, repo: nod.Repo{Host: "github.com", Owner: "ada", Name: "web"}, sweep: time.Hour}
	r.world.tick = 20 * time.Millisecond
	r.agent = func(a *fakeSession) nod.Result { <-a.ctx.Done(); return nod.Result{} }
	var err error
	r.sim, err = githubsim.New(githubsim.Config{Dir: t.TempDir(), Now: func() time.Time { return time.Now().Add(-time.Duration(r.behind.Load())) }})
	r.ok(err)
	r.base, err = r.sim.Start(t.Context())
	r.ok(err)
	t.Cleanup(func() { r.ok(r.sim.Close()) })
	for _, login := range []string{"ada", "wil", "tri", "eve"} {
		u, err := r.sim.CreateUser(login)
		r.ok(err)
		r.users[login] = nod.Actor{Kind: nod.ActorGitHub, Host: "github.com", ID: u.ID, Login: login}
	}
	r.ok(r.sim.CreateRepo(full, map[string]string{"README.md": "# web\n"}))
	r.ok(r.sim.SetPermission(full, "wil", "write"))
	r.ok(r.sim.SetPermission(full, "tri", "triage"))
	r.door = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if rc := r.taker.Load(); rc != nil {
			rc.ServeHTTP(w, q)
			return
		}
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(r.door.Close)
	t.Cleanup(r.halt)
	return r
}

func (r *replay) ok(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// later moves GitHub's clock on, by more than the second that its times are cut to.
func (r *replay) later() { r.behind.Add(-int64(2 * time.Second)) }

// hook sends GitHub's webhooks to nod, if it listens, or to nobody.
func (r *replay) hook(ways []string) {
	switch {
	case slices.Contains(ways, webhook):
		r.sim.SetWebhook(r.door.URL)
	case slices.Contains(ways, deliveries):
		r.sim.SetWebhook("http://127.0.0.1:1/") // nobody can be reached
	default:
		r.sim.SetWebhook("")
	}
}

// serve runs nod, hearing by ways, until halt.
func (r *replay) serve(ways ...string) {
	t := r.t
	t.Helper()
	s, err := store.Open(t.Context(), store.Config{Path: filepath.Join(r.dir, "nod.db"), Log: r.log()})
	r.ok(err)
	r.store = s
	app := r.sim.App()
	r.client, err = github.New(github.Config{APIURL: r.base + "/api/v3/", WebURL: r.base, AppID: app.ID, PrivateKey: app.PEM,
		Owners: []int64{r.users["ada"].ID}, TriggerLabel: "nod", HTTP: openapitest.Watch(t, &http.Transport{DisableKeepAlives: true}, r.base), Log: r.log()})
	r.ok(err)
	rules, err := policy.Compile(r.rules)
	r.ok(err)
	performers := map[nod.EffectKind]bot.Performer{
		nod.EffectStatusComment: r.client.StatusComments(), nod.EffectSwapLabel: r.client.SwapLabels(), nod.EffectReact: r.client.Reactions(),
		nod.EffectReply: r.client.Replies(), nod.EffectPush: performer{r.world}, nod.EffectOpenPR: performer{r.world}, nod.EffectNotify: performer{r.world}, nod.EffectCheckRun: performer{r.world}}
	b, err := bot.New(bot.Config{
		Host: "github.com", Agents: []string{"fake", "other"}, Environments: filepath.Join(r.dir, "env"), Now: time.Now, Log: r.log(),
		Repos: map[string]bot.RepoSettings{r.repo.Key(): {Repo: r.repo, Agent: "fake", Rules: rules, Unchecked: true}},
		Tick:  r.tick, SweepEvery: r.sweep, Neutralize: github.Neutralize, RetryAfter: github.RetryAfter,
		Push: func(d nod.Decision, t nod.Task, _ nod.Telling) nod.Push {
			return nod.Push{Title: string(d.Kind), Message: t.Short()}
		},
		Note: func(n nod.Note, t nod.Task) nod.Push { return nod.Push{Title: string(n), Message: t.Short()} },
		Link: func(task string) string { return "https://nod.test/t/" + task },
	}, bot.Ports{Ledger: s, Queues: s, Closings: s, Usage: s, GitHub: r.client, Git: fakeGit{r.world}, Texts: fakeGit{r.world}, Environments: fakeEnvironments{r.world}, Agents: fakeAgents{r.world},
		Parse: webhooks.Parser("github.com"), Preflight: r.client, Feedback: r.client, Effects: performers})
	r.ok(err)
	rc, err := webhooks.New(webhooks.Config{Secrets: []nod.Secret{app.WebhookSecret}, Accept: bell{s, b}, AppID: app.ID, BotUserID: app.BotID,
		Host: "github.com", Log: r.log()})
	r.ok(err)
	ctx, cancel := context.WithCancel(t.Context())
	var running []func()
	run := func(f func(context.Context)) {
		ended := make(chan struct{})
		go func() { defer close(ended); f(ctx) }()
		running = append(running, func() { <-ended })
	}
	r.hook(ways)
	if slices.Contains(ways, webhook) {
		r.taker.Store(rc)
	}
	if slices.Contains(ways, deliveries) {
		p, err := webhooks.NewPoller(webhooks.PollerConfig{History: history{r.client}, Known: s, Marks: s, Receiver: rc, Every: 200 * time.Millisecond, Log: r.log()})
		r.ok(err)
		run(p.Run)
	}
	if slices.Contains(ways, poll) {
		w, err := webhooks.NewWatcher(webhooks.WatcherConfig{Happenings: r.client, Known: s, Marks: s, Receiver: rc, Repos: []nod.Repo{r.repo},
			Every: 200 * time.Millisecond, Log: r.log()})
		r.ok(err)
		_, err = w.Look(ctx, r.repo) // from now on, where it never looked
		r.ok(err)
		run(w.Run)
	}
	run(func(ctx context.Context) {
		if err := b.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	r.stop = func() {
		r.taker.Store(nil)
		cancel()
		for _, wait := range running {
			wait()
		}
		r.ok(s.Close())
	}
}

// bell rings the bot for each delivery that is new.
type bell struct {
	store *store.Store
	bot   *bot.Bot
}

func (b bell) AcceptDelivery(ctx context.Context, d nod.Delivery) (bool, error) {
	fresh, err := b.store.AcceptDelivery(ctx, d)
	if fresh {
		b.bot.Nudge()
	}
	return fresh, err
}

type history struct{ client *github.Client }

func (h history) Past(ctx context.Context, since time.Time, limit int) ([]webhooks.Past, error) {
	all, err := h.client.HookDeliveries(ctx, since, limit)
	var past []webhooks.Past
	for _, d := range all {
		past = append(past, webhooks.Past{ID: d.ID, GUID: d.GUID, Event: d.Event, At: d.DeliveredAt})
	}
	return past, err
}

func (h history) Payload(ctx context.Context, id int64) ([]byte, error) {
	d, err := h.client.HookDelivery(ctx, id)
	return d.Payload, err
}

// eventually waits until ok holds.
func (r *replay) eventually(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(5 * time.Minute); !ok(); {
		if time.Now().After(end) {
			tasks, err := r.store.Tasks(r.t.Context())
			r.t.Fatalf("never: %s (tasks %+v, %v)", what, tasks, err)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-r.t.Context().Done():
			r.t.Fatal("the test ended before: " + what)
		}
	}
}

// caseOf returns the newest task of an issue with what is under way, if any.
func (r *replay) caseOf(issue int) (nod.Case, bool) {
	r.t.Helper()
	t, err := r.store.TaskOf(r.t.Context(), r.repo, issue)
	if nod.CodeOf(err) == nod.NotFound && err != nil {
		return nod.Case{}, false
	}
	r.ok(err)
	c, err := r.store.Case(r.t.Context(), t.ID)
	r.ok(err)
	return c, true
}

// begins waits until the agent of an issue's task runs.
func (r *replay) begins(issue int) nod.Case {
	r.t.Helper()
	var c nod.Case
	r.eventually("an agent runs", func() bool {
		var ok bool
		c, ok = r.caseOf(issue)
		return ok && c.Run != nil && c.Run.State == nod.RunRunning
	})
	return c
}

// asks waits until an issue's task waits for the owner before it starts.
func (r *replay) asks(issue int) nod.Decision {
	r.t.Helper()
	var c nod.Case
	r.eventually("the owner is asked", func() bool {
		var ok bool
		c, ok = r.caseOf(issue)
		return ok && waitingFor(nod.CauseUntrustedStart)(c)
	})
	return c.Open()[0]
}

// settled waits until every delivery that GitHub sent so far was handled.
func (r *replay) settled() {
	r.t.Helper()
	r.ok(r.sim.Flush(r.t.Context()))
	r.eventually("every delivery is handled", func() bool {
		by, err := r.store.DeliveriesByState(r.t.Context())
		r.ok(err)
		return by[nod.DeliveryPending]+by[nod.DeliveryLeased] == 0
	})
}

// tasks returns how many tasks each issue had.
func (r *replay) tasks() map[int]int {
	r.t.Helper()
	all, err := r.store.Tasks(r.t.Context())
	r.ok(err)
	n := map[int]int{}
	for _, t := range all {
		n[t.Issue]++
	}
	return n
}

// newIssue opens one by login.
func (r *replay) newIssue(login string) int {
	r.t.Helper()
	n, err := r.sim.CreateIssue(login, full, "Total is wrong", "It ignores the coupon.")
	r.ok(err)
	return n
}

func (r *replay) view(n int) githubsim.IssueView {
	r.t.Helper()
	v, err := r.sim.View(full, n)
	r.ok(err)
	return v
}

// own is the newest comment by nod itself on an issue, or "".
func (r *replay) own(n int) string {
	r.t.Helper()
	body := ""
	for _, c := range r.view(n).Comments {
		if c.Author == r.sim.App().Slug+"[bot]" {
			body = c.Body
		}
	}
	return body
}
