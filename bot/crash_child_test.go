package bot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"nod"
	"nod/agent/agenttest"
	"nod/bot"
	"nod/bot/github"
	"nod/bot/hostgit"
	"nod/policy"
	"nod/store"
)

// crashEnv holds a crashPlan as JSON in a child process that is to die.
const crashEnv = "NOD_TEST_CRASH"

// crashPlan is what a child works on, and where it dies.
type crashPlan struct {
	Dir, API, Web, Key, Name, Email string
	App, Owner                      int64
	Sign                            nod.SignMode
	Prototype                       string   // the branch that results go straight into, if any
	Left                            []string // dies at the first of these steps that it comes to
	Log                             string   // file that every step is written to
}

func TestMain(m *testing.M) {
	if raw := os.Getenv(crashEnv); raw != "" {
		var p crashPlan
		err := json.Unmarshal([]byte(raw), &p)
		if err == nil {
			err = (&crasher{crashPlan: p}).live()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if path := os.Getenv(stampsEnv); path != "" {
		if err := stamped(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if agenttest.Dispatch(os.Args) {
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// crasher is nod with the real store, git and GitHub client, and nothing to isolate
// its agent, which commits one change. It answers every question by itself.
type crasher struct {
	crashPlan
	mu sync.Mutex
	at func(step string) // called at each step; may be nil
}

// step is a point at which the process may die.
func (k *crasher) step(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f, err := os.OpenFile(k.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(name + "\n")
	}
	if err = errors.Join(err, f.Close()); err != nil {
		panic(err)
	}
	if k.at != nil {
		k.at(name)
	}
	if slices.Contains(k.Left, name) {
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			panic(err)
		}
		select {}
	}
}

func (k *crasher) around(name string, do func() error) error {
	k.step("before " + name)
	err := do()
	k.step("after " + name)
	return err
}

// live works until the task is delivered and nothing is left to do.
func (k *crasher) live() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	s, err := store.Open(ctx, store.Config{Path: filepath.Join(k.Dir, "nod.db"), Now: time.Now, Log: log})
	if err != nil {
		return err
	}
	defer s.Close()
	b, err := k.bot(s, log)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	life, stop := context.WithCancel(ctx)
	go func() { ended <- b.Run(life) }()
	err = k.answer(ctx, s)
	stop()
	return errors.Join(err, <-ended)
}

// answer allows whatever is asked, until the task is delivered.
func (k *crasher) answer(ctx context.Context, s *store.Store) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		tasks, err := s.Tasks(ctx)
		if err != nil {
			return err
		}
		for _, t := range tasks {
			c, err := s.Case(ctx, t.ID)
			if err != nil {
				return err
			}
			left := 0
			for _, e := range c.Effects {
				if e.State == nod.EffectIntended {
					left++
				}
			}
			if t.State == nod.TaskReadyForReview && left == 0 {
				return nil
			}
			for _, d := range c.Open() {
				if d.Kind != nod.Review {
					return fmt.Errorf("asked %s: %s", d.Subject, d.Input)
				}
				_, err := s.RecordAnswer(ctx, nod.Answer{Decision: d.ID, Answer: nod.Allow, By: nod.Actor{Kind: nod.ActorHost}})
				if err != nil && nod.CodeOf(err) != nod.Conflict {
					return err
				}
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (k *crasher) bot(s *store.Store, log *slog.Logger) (*bot.Bot, error) {
	key, err := os.ReadFile(k.Key)
	if err != nil {
		return nil, err
	}
	client, err := github.New(github.Config{APIURL: k.API, WebURL: k.Web, AppID: k.App, PrivateKey: nod.NewSecret(string(key)), Owners: []int64{k.Owner}, TriggerLabel: "nod",
		HTTP: crashHTTP{k, &http.Transport{}}, Log: log})
	if err != nil {
		return nil, err
	}
	git, err := hostgit.New(hostgit.Config{Dir: filepath.Join(k.Dir, "git"), SigningKey: filepath.Join(filepath.Dir(k.Key), "signing"),
		Author: hostgit.Identity{Name: k.Name, Email: k.Email}, Remote: client.Remote, Log: log})
	if err != nil {
		return nil, err
	}
	preset := policy.Settings{}
	if k.Prototype != "" {
		preset.Preset = string(policy.Prototype)
	}
	rules, err := policy.Compile(preset)
	if err != nil {
		return nil, err
	}
	where := nod.Repo{Host: "github.com", Owner: "ada", Name: "web"}
	var push bot.Performer = git.Pusher()
	if k.Sign == nod.SignGitHub {
		push = client.Commits(git)
	}
	return bot.New(bot.Config{Host: "github.com", Agents: []string{"fake"}, Environments: filepath.Join(k.Dir, "env"), Now: time.Now, Log: log,
		Repos:     map[string]bot.RepoSettings{where.Key(): {Repo: where, Agent: "fake", Rules: rules, Sign: k.Sign, Unchecked: true, Labels: []string{"bot"}, Integration: k.Prototype}},
		LeaseTime: time.Second, Tick: 50 * time.Millisecond, Neutralize: github.Neutralize, Attempts: 10,
		Push:       func(nod.Decision, nod.Task, nod.Telling) nod.Push { return nod.Push{} },
		Note:       func(nod.Note, nod.Task) nod.Push { return nod.Push{} },
		Link:       func(task string) string { return "https://nod.test/t/" + task },
		RetryAfter: func(error) (time.Duration, bool) { return 0, false }, Secret: s.HoldsSecret,
	}, bot.Ports{Ledger: crashLedger{s, k}, Queues: s, Closings: s, Usage: s, GitHub: client, Git: crashGit{git, k}, Texts: git, Environments: plainEnvironments{}, Agents: committer{}, Parse: parse,
		Preflight: client, Feedback: client, Effects: map[nod.EffectKind]bot.Performer{
			nod.EffectStatusComment: crashPerformer{client.StatusComments(), k, "comment"}, nod.EffectSwapLabel: crashPerformer{client.SwapLabels(), k, "label"},
			nod.EffectPush: crashPerformer{push, k, "push"}, nod.EffectOpenPR: crashPerformer{client.OpenPulls(), k, "pull request"},
			nod.EffectCheckRun: crashPerformer{client.CheckRuns(), k, "check"}, nod.EffectNotify: nothing{}, nod.EffectReact: nothing{}, nod.EffectReply: nothing{}}})
}

// crashHTTP dies around each request that changes something.
type crashHTTP struct {
	k    *crasher
	next http.RoundTripper
}

var numbers = regexp.MustCompile(`[0-9]+|nod/.*`)

func (c crashHTTP) RoundTrip(r *http.Request) (res *http.Response, err error) {
	if r.Method == http.MethodGet || strings.Contains(r.URL.Path, "access_tokens") {
		return c.next.RoundTrip(r)
	}
	err = c.k.around(r.Method+" "+numbers.ReplaceAllString(strings.TrimPrefix(r.URL.Path, "/api/v3/repos/ada/web"), "N"), func() error {
		res, err = c.next.RoundTrip(r)
		return err
	})
	return res, err
}

type crashLedger struct {
	*store.Store
	k *crasher
}

// Apply dies around each transaction, named by the states that it writes.
func (c crashLedger) Apply(ctx context.Context, ch *nod.Change) error {
	var what []string
	for _, v := range ch.Tasks {
		what = append(what, "task "+string(v.State))
	}
	for _, v := range ch.Runs {
		what = append(what, "run "+string(v.State))
	}
	for _, v := range ch.Revisions {
		what = append(what, "revision "+string(v.State))
	}
	for _, v := range ch.Environments {
		what = append(what, "environment "+string(v.State))
	}
	for _, v := range ch.Effects {
		if v.Version > 0 {
			what = append(what, string(v.Kind)+" "+string(v.State))
		}
	}
	return c.k.around("write "+strings.Join(what, ", "), func() error { return c.Store.Apply(ctx, ch) })
}

type crashGit struct {
	*hostgit.Git
	k *crasher
}

func (c crashGit) Import(ctx context.Context, t nod.Task, bundle io.Reader) (head string, err error) {
	err = c.k.around("import", func() error { head, err = c.Git.Import(ctx, t, bundle); return err })
	return head, err
}

func (c crashGit) Prepare(ctx context.Context, s nod.PrepareSpec) (p nod.Prepared, err error) {
	err = c.k.around("prepare", func() error { p, err = c.Git.Prepare(ctx, s); return err })
	return p, err
}

type crashPerformer struct {
	bot.Performer
	k    *crasher
	name string
}

func (c crashPerformer) Perform(ctx context.Context, t nod.Task, e nod.Effect) (out json.RawMessage, err error) {
	err = c.k.around(c.name, func() error { out, err = c.Performer.Perform(ctx, t, e); return err })
	return out, err
}

type nothing struct{}

func (nothing) Perform(context.Context, nod.Task, nod.Effect) (json.RawMessage, error) {
	return json.RawMessage("{}"), nil
}
func (nothing) Lookup(context.Context, nod.Task, nod.Effect) (json.RawMessage, error) {
	return nil, nil
}

// plainEnvironments runs commands in the workspace, isolated from nothing.
type plainEnvironments struct{}

// workspaces is where Start saw each environment's clone. One child has few.
var workspaces sync.Map

func (plainEnvironments) Start(_ context.Context, s nod.EnvironmentSpec) (nod.Attestation, error) {
	workspaces.Store(s.ID, s.Workspace)
	return nod.Attestation{Isolation: "fake", UID: 1000, GID: 1000, Capabilities: "0000000000000000", NoNewPrivs: true, Seccomp: true,
		Interfaces: []string{"lo"}, RootReadOnly: true, EgressRefused: true, DirectRefused: true}, nil
}

func (plainEnvironments) Exec(_ context.Context, id string, c nod.Command) (nod.Process, error) {
	dir, ok := workspaces.Load(id)
	if !ok {
		return nil, nod.E(nod.Conflict, "it does not run", nil)
	}
	cmd := exec.Command(c.Argv[0], c.Argv[1:]...)
	cmd.Dir, cmd.Env = dir.(string), []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"}
	for name, value := range c.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	errs, err3 := cmd.StderrPipe()
	return plainProcess{cmd, in, out, errs}, errors.Join(err1, err2, err3, cmd.Start())
}

func (plainEnvironments) Stop(context.Context, string) error   { return nil }
func (plainEnvironments) Delete(context.Context, string) error { return nil }
func (plainEnvironments) List(context.Context) ([]string, error) {
	return nil, nil
}

type plainProcess struct {
	cmd       *exec.Cmd
	in        io.WriteCloser
	out, errs io.Reader
}

func (p plainProcess) Stdin() io.WriteCloser      { return p.in }
func (p plainProcess) Stdout() io.Reader          { return p.out }
func (p plainProcess) Stderr() io.Reader          { return p.errs }
func (p plainProcess) Kill(context.Context) error { return p.cmd.Process.Kill() }
func (p plainProcess) Wait() (nod.ExitStatus, error) {
	var exit *exec.ExitError
	if err := p.cmd.Wait(); errors.As(err, &exit) {
		return nod.ExitStatus{Code: exit.ExitCode()}, nil
	} else if err != nil {
		return nod.ExitStatus{}, err
	}
	return nod.ExitStatus{}, nil
}

// committer is an agent that makes two commits, one with a binary file.
type committer struct{}

func (committer) Start(ctx context.Context, _ string, ex nod.Executor, s nod.AgentSpec) (nod.AgentSession, error) {
	const script = `set -e
printf 'fixed\n' >fix.txt
git add -A && git commit -q -m 'fix: total'
printf '\0\1' >bin
git add -A && git commit -q -m 'feat: bytes'`
	p, err := ex.Exec(ctx, nod.Command{Argv: []string{"sh", "-c", script}})
	if err != nil {
		return nil, err
	}
	errs, err := io.ReadAll(p.Stderr())
	if err != nil {
		return nil, err
	}
	status, err := p.Wait()
	if err != nil || status.Code != 0 {
		return nil, fmt.Errorf("the agent's commits: %w: %s", err, errs)
	}
	live, cancel := context.WithCancel(context.Background())
	a := &fakeSession{ctx: live, cancel: cancel, spec: s, events: make(chan nod.Event, 4), ended: make(chan struct{}), result: nod.Result{OK: true, Text: "Fixed."}}
	a.emit(nod.EventSession, nod.SessionOpened{Session: "s-1", Program: "fake"})
	a.emit(nod.EventResult, a.result)
	close(a.events)
	close(a.ended)
	return a, nil
}
