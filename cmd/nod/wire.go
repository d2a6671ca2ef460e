package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"nod"
	"nod/agent/gateway"
	"nod/bot"
	"nod/bot/github"
	"nod/bot/hostgit"
	"nod/notify"
	"nod/notify/answer"
	"nod/policy"
	"nod/runtime"
	"nod/store"
	"nod/webhooks"
)

// secrets are what the files named in the configuration hold.
type secrets struct {
	privateKey nod.Secret
	webhook    []nod.Secret
	topic      nod.Secret
	token      nod.Secret
	pass       nod.Secret
	second     secondSecrets
	agents     []nod.Secret
}

func readSecrets(c Config) (secrets, error) {
	var s secrets
	var err error
	if s.privateKey, err = secretFile(c.GitHub.PrivateKey); err != nil {
		return s, fmt.Errorf("github.private_key_file: %w", err)
	}
	for _, path := range c.GitHub.WebhookKeys {
		key, err := secretFile(path)
		if err != nil {
			return s, fmt.Errorf("github.webhook_secret_files: %w", err)
		}
		s.webhook = append(s.webhook, key)
	}
	err = s.readPush(c.Ntfy)
	return s, err
}

func (s secrets) all() []nod.Secret {
	all := append([]nod.Secret{s.privateKey, s.topic}, s.webhook...)
	for _, v := range []nod.Secret{s.token, s.pass, s.second.topic, s.second.webhook, s.second.token, s.second.pass} {
		if !v.Empty() {
			all = append(all, v)
		}
	}
	return append(all, s.agents...)
}

// parts is what serve and demo bring to the same wiring.
type parts struct {
	config  Config
	secrets secrets
	driver  runtime.Driver
	audit   *egressLog // of the driver's proxies
	agents  map[string]program
	models  *gateway.Gateway
	log     *slog.Logger
	observe func(verb string, d time.Duration) // may be nil
}

// system is nod, wired and not yet running.
type system struct {
	parts
	store  *store.Store
	bot    *bot.Bot
	github *github.Client
	polled []func(context.Context) // each until its context ends
	web    http.Handler
	close  []func() error
}

// assemble plugs every port with the real thing. The caller closes the system.
func assemble(ctx context.Context, p parts) (_ *system, err error) {
	s := &system{parts: p}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	c := p.config
	if s.store, err = openStore(ctx, c, p.secrets.all(), p.log); err != nil {
		return nil, err
	}
	s.close = append(s.close, s.store.Close)
	p.audit.open(s.store)
	var host string
	if s.github, host, err = newGitHub(c, p.secrets, p.log); err != nil {
		return nil, err
	}
	self, err := s.github.BotIdentity(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask GitHub who the bot is: %w", err)
	}
	git, err := s.git(self)
	if err != nil {
		return nil, err
	}
	first, second, err := channels(c, p.secrets, p.log)
	if err != nil {
		return nil, err
	}
	page, err := answer.New(answer.Config{Decisions: s.store, Witness: s.store, Streams: s.store, Passkeys: s.store, Sessions: s.store, Acts: s.store,
		PublicURL: c.PublicURL, GitHubURL: c.GitHub.WebURL, Log: p.log})
	if err != nil {
		return nil, err
	}
	s.close = append(s.close, func() error { page.Close(); return nil })
	if err := s.conductor(host, git, notify.Performer{First: first, Second: second, Now: time.Now}); err != nil {
		return nil, err
	}
	receiver, err := webhooks.New(webhooks.Config{Secrets: p.secrets.webhook, Accept: doorbell{s.store, s.bot}, AppID: c.GitHub.AppID,
		BotUserID: self.ID, Host: host, Log: p.log, Now: time.Now})
	if err != nil {
		return nil, err
	}
	if err := s.pollers(host, receiver); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/webhooks/github", receiver)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.Handle("/", page)
	s.web = mux
	return s, nil
}

// pollers makes what asks GitHub what happened, as the configuration says.
func (s *system) pollers(host string, receiver *webhooks.Receiver) error {
	c := s.config
	every, err := time.ParseDuration(c.GitHub.PollEvery)
	if err != nil {
		return nod.E(nod.Invalid, "github.poll_every is not a duration", err)
	}
	if c.GitHub.hears(byDeliveries) {
		p, err := webhooks.NewPoller(webhooks.PollerConfig{History: history{s.github}, Known: s.store, Marks: s.store, Receiver: receiver,
			Every: every, RetryAfter: github.RetryAfter, Log: s.log, Now: time.Now})
		if err != nil {
			return err
		}
		s.polled = append(s.polled, p.Run)
	}
	if c.GitHub.hears(byPoll) {
		var repos []nod.Repo
		for _, r := range c.Repos {
			owner, name, _ := strings.Cut(r.Repo, "/")
			repos = append(repos, nod.Repo{Host: host, Owner: owner, Name: name})
		}
		w, err := webhooks.NewWatcher(webhooks.WatcherConfig{Happenings: s.github, Known: s.store, Marks: s.store, Receiver: receiver, Repos: repos,
			Every: every, RetryAfter: github.RetryAfter, Log: s.log})
		if err != nil {
			return err
		}
		s.polled = append(s.polled, w.Run)
	}
	return nil
}

// besideEvery is how often a serving nod looks for what a command on the host wrote.
const besideEvery = 100 * time.Millisecond

// openStore opens the database with everything that may not get into it.
func openStore(ctx context.Context, c Config, secrets []nod.Secret, log *slog.Logger) (*store.Store, error) {
	if err := os.MkdirAll(c.StateDir, 0o700); err != nil {
		return nil, nod.E(nod.Internal, "the state directory cannot be made", err)
	}
	return store.Open(ctx, store.Config{Path: filepath.Join(c.StateDir, "nod.db"), Now: time.Now, Log: log, Secrets: secrets,
		VerifyAssertion: verifyAssertion, VerifyAct: answer.VerifyAct, Beside: besideEvery})
}

func verifyAssertion(d nod.Decision, a nod.Answer, as nod.Assertion) error {
	a.Assertion = &as
	return answer.VerifyAssertion(d, a)
}

// git is the supervisor's own git, signing as the bot.
func (s *system) git(self github.Identity) (*hostgit.Git, error) {
	key := s.config.SigningKey
	if _, err := os.Stat(key); errors.Is(err, os.ErrNotExist) {
		public, err := hostgit.GenerateSigningKey(key)
		if err != nil {
			return nil, fmt.Errorf("make signing key: %w", err)
		}
		if err := os.WriteFile(key+".pub", []byte(public+"\n"), 0o644); err != nil {
			return nil, nod.E(nod.Internal, "the public half of the signing key cannot be written", err)
		}
	}
	author := hostgit.Identity{Name: self.Login, Email: self.Email}
	if a := s.config.Author; a.Email != "" {
		author = hostgit.Identity{Name: a.Name, Email: a.Email}
	}
	return hostgit.New(hostgit.Config{Dir: filepath.Join(s.config.StateDir, "git"), SigningKey: key, Author: author, Remote: s.github.Remote,
		Now: time.Now, Log: s.log, Depth: s.config.CloneDepth})
}

// repoSettings is what the configuration says of each repository, by its key.
func repoSettings(c Config, host string) (map[string]bot.RepoSettings, error) {
	repos := map[string]bot.RepoSettings{}
	for _, r := range c.Repos {
		owner, name, _ := strings.Cut(r.Repo, "/")
		repo := nod.Repo{Host: host, Owner: owner, Name: name}
		rules, err := policy.Compile(r.Policy)
		if err != nil {
			return nil, fmt.Errorf("policy of %s: %w", r.Repo, err)
		}
		repos[repo.Key()] = bot.RepoSettings{Repo: repo, Agent: r.Agent, Check: r.Check.Command, Unchecked: r.Check.None, Integration: r.Integration, Egress: r.Egress, Draft: r.Draft, CIAttempts: r.CIAttempts, Sign: r.Sign,
			Protect: bot.Protection{Paths: r.Protected.Paths, Forbid: r.Protected.Mode == "forbid"}, Reviewers: r.Reviewers, Labels: r.Labels, Rules: rules, Approvals: r.Approvals}
	}
	return repos, nil
}

// conductor makes the bot.
func (s *system) conductor(host string, git *hostgit.Git, phone notify.Performer) error {
	c := s.config
	repos, err := repoSettings(c, host)
	if err != nil {
		return err
	}
	places, err := newEnvironments(c, s.driver, s.audit, "nod")
	if err != nil {
		return err
	}
	decide, err := time.ParseDuration(c.DecisionTime)
	if err != nil {
		return nod.E(nod.Invalid, "decision_time is not a duration", err)
	}
	remind, err := time.ParseDuration(c.Ntfy.RemindAfter)
	if err != nil {
		return nod.E(nod.Invalid, "ntfy.remind_after is not a duration", err)
	}
	public := strings.TrimSuffix(c.PublicURL, "/")
	s.bot, err = bot.New(bot.Config{
		Host: host, Repos: repos, TriggerLabel: c.TriggerLabel, Environments: c.environments(), Neutralize: github.Neutralize,
		DecisionTime: decide, Agents: slices.Sorted(maps.Keys(c.Agents)), Unpriced: c.unpriced(), Unasking: c.unasking(),
		Push:        func(d nod.Decision, t nod.Task, w nod.Telling) nod.Push { return notify.Tell(d, t, w, public) },
		Note:        func(n nod.Note, t nod.Task) nod.Push { return notify.ForTask(n, t, public) },
		RemindAfter: remind, Reminders: *c.Ntfy.Reminders, SecondChannel: phone.Second != nil,
		Link:       func(task string) string { return public + "/t/" + task },
		RetryAfter: retryAfter, Secret: s.store.HoldsSecret, Observe: s.observe, Now: time.Now, Log: s.log,
	}, bot.Ports{
		Ledger: s.store, Queues: s.store, Closings: s.store, Usage: s.store, Acts: s.store, Sights: s.store, GitHub: s.github, Git: git, Texts: git, Agents: agents{s.agents, s.models}, Parse: webhooks.Parser(host), Preflight: s.github, Feedback: s.github, Refusals: s.store,
		Environments: places, Seats: places.seats,
		Effects: map[nod.EffectKind]bot.Performer{
			nod.EffectStatusComment: s.github.StatusComments(), nod.EffectSwapLabel: s.github.SwapLabels(), nod.EffectOpenPR: s.github.OpenPulls(),
			nod.EffectCheckRun: s.github.CheckRuns(), nod.EffectReact: s.github.Reactions(), nod.EffectReply: s.github.Replies(),
			nod.EffectPush: pushes{ssh: git.Pusher(), github: s.github.Commits(git)}, nod.EffectNotify: phone,
		},
	})
	return err
}

// retryAfter asks whoever made err when to come again.
func retryAfter(err error) (time.Duration, bool) {
	if d, ok := github.RetryAfter(err); ok {
		return d, true
	}
	return notify.RetryAfter(err)
}

// doorbell rings the bot for each delivery that is new.
type doorbell struct {
	store *store.Store
	bot   *bot.Bot
}

func (d doorbell) AcceptDelivery(ctx context.Context, v nod.Delivery) (bool, error) {
	fresh, err := d.store.AcceptDelivery(ctx, v)
	if err == nil && fresh {
		d.bot.Nudge()
	}
	return fresh, err
}

func githubHost(webURL string) (string, error) {
	u, err := url.Parse(webURL)
	if err != nil || u.Hostname() == "" {
		return "", nod.E(nod.Invalid, "github.web_url has no host", err)
	}
	return u.Hostname(), nil
}

// serve runs the listener, the poller and the bot until ctx ends, and then waits for them.
func (s *system) serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: s.web, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	life, stop := context.WithCancel(ctx)
	defer stop()
	worked := make(chan error, 1)
	go func() { worked <- s.bot.Run(life) }()
	var polled sync.WaitGroup
	for _, run := range s.polled {
		polled.Go(func() { run(life) })
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("listen: %w", err)
	case err = <-worked:
		worked <- nil
	}
	stop()
	grace, done := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer done()
	if e := server.Shutdown(grace); e != nil {
		err = errors.Join(err, server.Close())
	}
	polled.Wait()
	return errors.Join(err, <-worked)
}

// Close releases what assemble acquired, last first.
func (s *system) Close() error {
	var err error
	for i := len(s.close) - 1; i >= 0; i-- {
		err = errors.Join(err, s.close[i]())
	}
	s.close = nil
	return err
}
