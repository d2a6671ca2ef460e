package main

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"nod"
	"nod/agent"
	"nod/agent/agenttest"
	"nod/agent/claude"
	"nod/agent/gateway"
	"nod/bot/github/githubsim"
	"nod/notify/ntfytest"
	"nod/policy"
	"nod/runtime"
)

//go:embed demo/files demo/script.json
var demoFiles embed.FS

const (
	demoOwner = "you"
	demoRepo  = "acme/greeter"
	demoTitle = "The greeting is misspelt"
	demoBody  = "`sh greet.sh` says *Helo, world!*. It should say *Hello, world!*, and `sh test.sh` should pass."
	// onceTime bounds an unattended demo.
	onceTime = 2 * time.Minute
)

func demoCommand() *cobra.Command {
	var once, asJSON bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Go from a label to a pull request on this machine, with no account and no key",
		Long: `Starts a simulated GitHub with one repository, a push service, and nod itself with a
throw-away state directory, and prints three local addresses. Enrol a passkey, label the
issue, answer what arrives, and look at the pull request. Nothing leaves this machine.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			talk := cmd.ErrOrStderr()
			if !asJSON {
				talk = cmd.OutOrStdout()
			}
			if asJSON && !once {
				return nod.E(nod.Invalid, "--json belongs to --once", nil)
			}
			return runDemo(cmd.Context(), demoOptions{once: once, json: asJSON, talk: talk, data: cmd.OutOrStdout(), errs: cmd.ErrOrStderr()})
		},
	}
	c.Flags().BoolVar(&once, "once", false, "answer everything with a software passkey, and end at the pull request")
	c.Flags().BoolVar(&asJSON, "json", false, "with --once: print what happened as one JSON object")
	return c
}

type demoOptions struct {
	once, json   bool
	talk         io.Writer // progress and addresses
	data, errs   io.Writer
	decisionTime string       // as Config.DecisionTime
	agent        *AgentConfig // in place of the scripted agent
	policy       policy.Settings
	driver       runtime.Driver // in place of the one this system has
}

// demo is a whole world on loopback.
type demo struct {
	dir    string
	sim    *githubsim.Server
	simURL string
	phone  *ntfytest.Server
	topic  nod.Secret
	system *system
	public string
	issue  int
	enrol  string // single-use link
	spent  *stopwatch
	served chan error
	close  []func() error
}

func runDemo(ctx context.Context, o demoOptions) (err error) {
	d, err := startDemo(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if o.once {
		return d.once(ctx, o)
	}
	fmt.Fprintf(o.talk, `
nod demo: all of this runs on this machine and is thrown away at the end (Ctrl-C).

  1. Enrol a passkey    %s
  2. Label the issue    %s   (the label is called nod)
  3. Watch the phone    %s

The agent is a script; the environment it works in is real (%s).

`, d.enrol, d.issueURL(), d.phoneURL(), d.system.driver.Name())
	select {
	case <-ctx.Done():
		return nil
	case err := <-d.served:
		d.served <- nil
		return err
	}
}

// startDemo makes the demo's world and sets it going. The caller closes it.
func startDemo(ctx context.Context, o demoOptions) (_ *demo, err error) {
	ctx, cancel := context.WithCancel(ctx)
	dir, err := os.MkdirTemp("", "nod-demo-")
	if err != nil {
		cancel()
		return nil, nod.E(nod.Internal, "no directory for the demo", err)
	}
	d := &demo{dir: dir, spent: &stopwatch{}, served: make(chan error, 1)}
	d.close = append(d.close, func() error { return os.RemoveAll(dir) }, func() error { cancel(); return nil })
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nod.E(nod.Unavailable, "cannot listen on loopback", err)
	}
	if err := d.build(ctx, l.Addr().(*net.TCPAddr).Port, o); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	go func() { d.served <- d.system.serve(ctx, l) }()
	told := tellProgress(ctx, d, o.talk)
	// What serves is waited for before what it uses is closed.
	d.close = append(d.close, func() error { cancel(); <-told; return <-d.served })
	d.enrol, err = enrolmentLink(ctx, d.system.store, d.public, demoOwner)
	return d, err
}

// demoLog shows warnings and errors only: progress has its own lines.
func demoLog(w io.Writer) *slog.Logger {
	level := slog.LevelWarn
	if os.Getenv("NOD_DEMO_LOG") != "" {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

func (d *demo) issueURL() string { return fmt.Sprintf("%s/%s/issues/%d", d.simURL, demoRepo, d.issue) }
func (d *demo) phoneURL() string { return d.phoneBase() + "/phone" }
func (d *demo) phoneBase() string {
	return d.system.config.Ntfy.URL
}

// build makes the simulated GitHub, the push service and nod, which will listen on port.
func (d *demo) build(ctx context.Context, port int, o demoOptions) error {
	log := demoLog(o.errs)
	audit, models := newEgressLog(log), gateway.New(time.Now, log)
	d.close = append(d.close, models.Close)
	driver := o.driver
	if driver == nil {
		var err error
		if driver, err = demoDriver(ctx, d.dir, audit.proxy(models), log); err != nil {
			return err
		}
	}
	d.public = fmt.Sprintf("http://localhost:%d", port)
	owner, err := d.github(ctx, log)
	if err != nil {
		return err
	}
	ntfyURL, token, err := d.ntfy()
	if err != nil {
		return err
	}
	name, settings := "scripted", AgentConfig{}
	var keys []nod.Secret
	adapter, err := demoAgent(log)
	does := program{Adapter: adapter}
	if o.agent != nil {
		name, settings = "demo", *o.agent
		does, keys, err = newAgent(name, settings, log)
	}
	if err != nil {
		return err
	}
	app := d.sim.App()
	c := Config{
		GitHub: GitHubConfig{APIURL: d.simURL + "/api/v3/", WebURL: d.simURL, AppID: app.ID, Owners: []int64{owner}},
		Listen: fmt.Sprintf("127.0.0.1:%d", port), PublicURL: d.public, StateDir: filepath.Join(d.dir, "state"),
		Ntfy: NtfyConfig{URL: ntfyURL}, SoftLimits: true, DecisionTime: o.decisionTime,
		Agents: map[string]AgentConfig{name: settings},
		Repos:  []RepoConfig{{Repo: demoRepo, Agent: name, Check: CheckConfig{Command: []string{"sh", "test.sh"}}, Policy: o.policy}},
	}
	c.defaults()
	d.system, err = assemble(ctx, parts{config: c, driver: driver, audit: audit, log: log, observe: d.spent.add,
		agents: map[string]program{name: does}, models: models,
		secrets: secrets{privateKey: app.PEM, webhook: []nod.Secret{app.WebhookSecret}, topic: d.topic, token: token, agents: keys}})
	if err != nil {
		return err
	}
	d.close = append(d.close, d.system.Close)
	d.sim.SetWebhook(fmt.Sprintf("http://127.0.0.1:%d/webhooks/github", port))
	return nil
}

// github starts the simulated GitHub and returns the id of the demo's person.
func (d *demo) github(ctx context.Context, log *slog.Logger) (int64, error) {
	dir := filepath.Join(d.dir, "github")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return 0, err
	}
	var err error
	if d.sim, err = githubsim.New(githubsim.Config{Dir: dir, WebUser: demoOwner, Log: log}); err != nil {
		return 0, err
	}
	d.close = append(d.close, d.sim.Close)
	if d.simURL, err = d.sim.Start(ctx); err != nil {
		return 0, err
	}
	person, err := d.sim.CreateUser(demoOwner)
	if err != nil {
		return 0, err
	}
	if _, err := d.sim.CreateUser(strings.Split(demoRepo, "/")[0]); err != nil {
		return 0, err
	}
	files, err := fs.Sub(demoFiles, "demo/files")
	if err != nil {
		return 0, err
	}
	content := map[string]string{}
	err = fs.WalkDir(files, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		raw, err := fs.ReadFile(files, path)
		content[path] = string(raw)
		return err
	})
	if err != nil {
		return 0, err
	}
	if err := d.sim.CreateRepo(demoRepo, content); err != nil {
		return 0, err
	}
	if err := d.sim.SetPermission(demoRepo, demoOwner, "admin"); err != nil {
		return 0, err
	}
	d.issue, err = d.sim.CreateIssue(demoOwner, demoRepo, demoTitle, demoBody)
	return person.ID, err
}

// ntfy starts the push service and returns its address and the token for it.
func (d *demo) ntfy() (string, nod.Secret, error) {
	d.topic = nod.NewSecret("nod-" + rand.Text())
	token := nod.NewSecret("tk_" + strings.ToLower(rand.Text()))
	d.phone = ntfytest.New(ntfytest.Config{Topic: d.topic.Reveal(), Token: token.Reveal()})
	base, end, err := listenHTTP(d.phone)
	if err != nil {
		return "", token, err
	}
	d.close = append(d.close, func() error { d.phone.Close(); return end() })
	return base, token, nil
}

// demoAgent is the scripted agent with the demo's script.
func demoAgent(log *slog.Logger) (agent.Adapter, error) {
	raw, err := demoFiles.ReadFile("demo/script.json")
	if err != nil {
		return nil, err
	}
	script, err := agenttest.Parse(raw)
	if err != nil {
		return nil, err
	}
	return agenttest.Adapter(script, claude.Config{Env: map[string]string{"HOME": runtime.HomePath}, Log: log})
}

// Close ends everything, last first.
func (d *demo) Close() error {
	var err error
	for i := len(d.close) - 1; i >= 0; i-- {
		err = errors.Join(err, d.close[i]())
	}
	return err
}

// stopwatch adds up what each verb took.
type stopwatch struct {
	mu    sync.Mutex
	spent map[string]time.Duration
}

func (s *stopwatch) add(verb string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.spent == nil {
		s.spent = map[string]time.Duration{}
	}
	s.spent[verb] += d
}

func (s *stopwatch) milliseconds() map[string]float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]float64{}
	for verb, d := range s.spent {
		out[verb] = float64(d.Microseconds()) / 1000
	}
	return out
}

// listenHTTP serves h on a free loopback port and returns its address and its end.
func listenHTTP(h http.Handler) (string, func() error, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	return fmt.Sprintf("http://localhost:%d", l.Addr().(*net.TCPAddr).Port), func() error {
		err := server.Close()
		if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
		return err
	}, nil
}
