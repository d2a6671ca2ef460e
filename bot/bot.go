package bot

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"nod"
	"nod/policy"
)

// Config is what a Bot needs to know. Zero durations take the defaults named.
type Config struct {
	Host         string                   // GitHub host, required
	Repos        map[string]RepoSettings  // by nod.Repo.Key; a repository that is not here is ignored
	TriggerLabel string                   // default "nod"
	Agents       []string                 // every agent's name, sorted
	Unpriced     []string                 // those of them that tell no price
	Unasking     []string                 // those of them that ask nobody
	Environments string                   // host directory for workspaces, required
	Tick         time.Duration            // how often timers are looked at; default 1 s
	SweepEvery   time.Duration            // how often labels are reconciled; default 5 min
	DecisionTime time.Duration            // deadline of an approval; default nod.ApprovalDeadline
	LeaseTime    time.Duration            // of a delivery; default 1 min
	Attempts     int                      // processes started for one run before a person is asked; default 3
	Neutralize   func(text string) string // makes untrusted text safe to post on GitHub; required
	// Push words what a phone is told of d, which has no id when w is of all that waits.
	Push          func(d nod.Decision, t nod.Task, w nod.Telling) nod.Push
	Note          func(n nod.Note, t nod.Task) nod.Push // words what a phone is told without being asked
	RemindAfter   time.Duration                         // until the first reminder of what nobody opened; each next one waits twice as long; default 3 min
	Reminders     int                                   // how many there are at most; none when 0
	SecondChannel bool                                  // a push goes through it when RemindAfter has passed
	Link          func(task string) string              // page of a task
	Secret        func(text string) bool                // whether text holds a secret, which the ledger would not keep; nil: nothing does
	RetryAfter    func(err error) (time.Duration, bool)
	Observe       func(verb string, d time.Duration) // may be nil
	Now           func() time.Time
	Rand          io.Reader // default crypto/rand
	Log           *slog.Logger
}

// RepoSettings is how one repository is worked on.
type RepoSettings struct {
	Repo   nod.Repo
	Agent  string   // adapter name
	Check  []string // command run in the environment for the prepared SHA
	Egress []string // hosts the environment may reach
	Draft  bool     // open pull requests as drafts
	// CIAttempts is how many times red checks on GitHub put the agent to work again
	// before an owner is asked; 0 takes the default of 2, a negative one always asks.
	CIAttempts int
	// Integration is the branch that results go into under the presets integration, by
	// pull requests, and prototype, by themselves.
	Integration string
	// Unchecked says that there is no check on purpose. Without it, and without a
	// Check, somebody is asked.
	Unchecked bool
	Sign      nod.SignMode
	Rules     policy.Rules
	// Approvals is how many different passkeys must allow a decision of a cause.
	Approvals map[nod.Cause]int
	// Protect is what is done about files that guard the repository.
	Protect Protection
	// Reviewers and Labels are asked for and set on each pull request.
	Reviewers, Labels []string
}

// Ports are the outside things a Bot works with. All are required.
type Ports struct {
	Ledger       Ledger
	Queues       Queues
	Closings     Closings
	Usage        Usage
	GitHub       GitHub
	Git          Git
	Texts        Texts
	Environments Environments
	Agents       Agents
	Parse        Parser
	Acts         Acts   // may be nil: nobody tells the bot anything unasked
	Sights       Sights // may be nil: nobody is reminded
	Preflight    Preflight
	Feedback     Feedback
	Refusals     Refusals // may be nil: nobody is asked about a host
	Seats        Seats    // may be nil: nobody sits at a terminal
	Effects      map[nod.EffectKind]Performer
}

// Bot conducts every task from its label to its pull request.
type Bot struct {
	cfg Config
	Ports
	log     *slog.Logger
	arrived chan struct{} // rung when a delivery may be due
	decided chan struct{} // rung when an effect may be due
	resweep chan struct{} // rung when labels should be looked at now

	pace     pace
	life     context.Context // of the current Run; what outlives a request descends from it
	starts   keyed           // by issue
	resuming sync.Mutex      // from moving a paused run on until its act is finished
	mu       sync.Mutex
	away     map[string]bool // keys of repositories that the App was taken from
	tasks    map[string]bool // tasks that have a conductor goroutine
	sessions map[string]nod.AgentSession
	slow     time.Time       // nothing is written to GitHub before
	kept     map[string]bool // environments that a pause of this process left running
	meters   map[*meter]bool // of live sessions
	seated   string          // the paused run of which this is the terminal
	wg       sync.WaitGroup
}

// New checks the configuration and makes a Bot; Run starts it.
func New(cfg Config, p Ports) (*Bot, error) {
	missing := ""
	switch {
	case cfg.Host == "":
		missing = "a GitHub host"
	case cfg.Environments == "":
		missing = "a directory for environments"
	case cfg.Neutralize == nil || cfg.Push == nil || cfg.Note == nil || cfg.Link == nil || cfg.RetryAfter == nil:
		missing = "its text functions"
	case cfg.Now == nil || cfg.Log == nil:
		missing = "a clock and a logger"
	case p.Ledger == nil || p.Queues == nil || p.Closings == nil || p.Usage == nil || p.GitHub == nil || p.Git == nil || p.Texts == nil || p.Environments == nil || p.Agents == nil || p.Parse == nil || p.Preflight == nil || p.Feedback == nil:
		missing = "one of its ports"
	}
	if missing != "" {
		return nil, nod.E(nod.Invalid, "the bot lacks "+missing, nil)
	}
	for _, kind := range []nod.EffectKind{nod.EffectStatusComment, nod.EffectSwapLabel, nod.EffectPush, nod.EffectOpenPR, nod.EffectNotify,
		nod.EffectReact, nod.EffectReply, nod.EffectCheckRun} {
		if p.Effects[kind] == nil {
			return nil, nod.E(nod.Invalid, "the bot has no performer for "+string(kind), nil)
		}
	}
	return &Bot{cfg: cfg.filled(), Ports: p, log: cfg.Log, arrived: make(chan struct{}, 1), decided: make(chan struct{}, 1), resweep: make(chan struct{}, 1), away: map[string]bool{},
		tasks: map[string]bool{}, sessions: map[string]nod.AgentSession{}, kept: map[string]bool{}, meters: map[*meter]bool{}}, nil
}

// filled is cfg with its defaults.
func (cfg Config) filled() Config {
	if cfg.TriggerLabel == "" {
		cfg.TriggerLabel = "nod"
	}
	for d, def := range map[*time.Duration]time.Duration{&cfg.Tick: time.Second, &cfg.SweepEvery: 5 * time.Minute,
		&cfg.DecisionTime: nod.ApprovalDeadline, &cfg.LeaseTime: time.Minute, &cfg.RemindAfter: 3 * time.Minute} {
		if *d <= 0 {
			*d = def
		}
	}
	if cfg.Attempts <= 0 {
		cfg.Attempts = 3
	}
	if cfg.Secret == nil {
		cfg.Secret = func(string) bool { return false }
	}
	if cfg.Rand == nil {
		cfg.Rand = rand.Reader
	}
	if cfg.Observe == nil {
		cfg.Observe = func(string, time.Duration) {}
	}
	return cfg
}

// Run recovers what an earlier process left behind and then works until ctx
// ends. It returns when every goroutine it started has ended; live runs are
// then interrupted, to be resumed by the next Run.
func (b *Bot) Run(ctx context.Context) error {
	b.mu.Lock()
	b.life = ctx
	b.mu.Unlock()
	if err := b.recover(ctx); err != nil {
		if ctx.Err() != nil { // the end came early
			b.wg.Wait()
			return nil
		}
		return fmt.Errorf("recover: %w", err)
	}
	for _, loop := range []func(context.Context){b.listen, b.receiveLoop, b.effectLoop, b.sweepLoop, b.actLoop, b.tellLoop} {
		b.wg.Go(func() { loop(ctx) })
	}
	<-ctx.Done()
	b.wg.Wait()
	return nil
}

// Nudge says that a delivery was accepted. It never blocks.
func (b *Bot) Nudge() { ring(b.arrived) }

func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// announce has a new task carried by the current Run.
func (b *Bot) announce(task string) {
	b.mu.Lock()
	ctx := b.life
	b.mu.Unlock()
	if ctx != nil {
		b.conduct(ctx, task)
	}
}

// verb measures one verb: defer b.verb("start")().
func (b *Bot) verb(name string) func() {
	from := b.cfg.Now()
	return func() { b.cfg.Observe(name, b.cfg.Now().Sub(from)) }
}

// id makes an identifier of n random bytes in hex behind prefix.
func (b *Bot) id(prefix string, n int) (string, error) {
	raw := make([]byte, n)
	if _, err := io.ReadFull(b.cfg.Rand, raw); err != nil {
		return "", nod.E(nod.Internal, "no random bytes", err)
	}
	return prefix + hex.EncodeToString(raw), nil
}

func (b *Bot) repo(r nod.Repo) (RepoSettings, bool) {
	s, ok := b.cfg.Repos[r.Key()]
	return s, ok
}

func (b *Bot) isTrigger(label string) bool { return strings.EqualFold(label, b.cfg.TriggerLabel) }
