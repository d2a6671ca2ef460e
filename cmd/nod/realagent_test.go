//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"nod"
	"nod/agent/agenttest/modelserver"
	"nod/bot/github/githubsim"
	"nod/notify/answer/answertest"
	"nod/policy"
	"nod/runtime/egress"
	"nod/runtime/runtimetest"
)

// What the tests of the real agents share: each runs in the environment that nod
// gives it, with a model on loopback that only the environment's egress proxy leads
// to.

const (
	modelKey  = "sk-dummy-0000"
	modelHost = "model.test"
	realTime  = 3 * time.Minute // of one whole life; seconds when nothing else runs

	helo  = "#!/bin/sh\n# Greets whoever is named, or the world.\necho \"Helo, ${1:-world}!\"\n"
	hello = "#!/bin/sh\n# Greets whoever is named, or the world.\necho \"Hello, ${1:-world}!\"\n"
)

// realDemo is the demo with a real agent in place of the script.
type realDemo struct {
	*demo
	t       *testing.T
	model   *modelserver.Server
	browser *answertest.Client
	kind    string
	program string // its path inside, which no other process has
	log     *syncBuffer
	asked   []nod.Decision
	gated   bool   // its key is with the gateway
	shown   string // the transcript holds it, and so that the search for the key is one, the database
}

// realAgent says how to start one real agent.
type realAgent struct {
	kind, variable string              // of the program: its adapter, and what holds its path
	root           func(string) string // the directory to mount, from the program's path
	env            map[string]string
	baseURL        string // with a direct key
	gated          bool   // the key is with the gateway, which alone leads to the model
	login          bool   // and is the token of a login to a subscription
	policy         policy.Settings
	model          *modelserver.Server // whose certificate is good for modelHost
}

// newRealDemo starts everything, enrols a software passkey and sets the label.
// hosts are those that the program may reach; a "%s" stands for the model. The
// authority to trust is /opt/trust/ca.pem.
func newRealDemo(t *testing.T, a realAgent, hosts ...string) *realDemo {
	t.Helper()
	path, err := filepath.EvalSymlinks(os.Getenv(a.variable))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOD_DEMO_LOG", "1") // the proxy's verdicts are log lines
	w := &realDemo{t: t, log: &syncBuffer{}, model: a.model, kind: a.kind, gated: a.gated, shown: "key=[redacted]"}
	trust, key := t.TempDir(), filepath.Join(t.TempDir(), "key")
	for file, content := range map[string][]byte{filepath.Join(trust, "ca.pem"): w.model.CAPEM, key: []byte(modelKey + "\n")} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(trust, "ca.pem"), 0o644); err != nil {
		t.Fatal(err)
	}
	inside := "/opt/" + a.kind + "-" + filepath.Base(filepath.Dir(trust)) // the test's name and a number
	root := a.root(path)
	rest, err := filepath.Rel(root, path)
	if err != nil {
		t.Fatal(err)
	}
	w.program = filepath.Join(inside, rest)
	settings := &AgentConfig{Kind: a.kind, Argv: []string{w.program}, KeyFile: key, Key: keyDirect, BaseURL: a.baseURL, Env: a.env,
		Mounts: map[string]string{inside: root, "/opt/trust": trust}}
	if a.gated {
		settings.Key, settings.CAFile, settings.Mounts = keyGateway, filepath.Join(trust, "ca.pem"), map[string]string{inside: root}
		settings.BaseURL = "https://" + w.model.TLS + settings.api().Path()
		if a.login {
			settings.Key = keyLogin
		}
	}
	for _, e := range hosts {
		settings.Egress = append(settings.Egress, fmt.Sprintf(e, w.model.TLS))
	}
	if w.demo, err = startDemo(t.Context(), demoOptions{talk: w.log, errs: w.log, agent: settings, policy: a.policy}); err != nil {
		t.Fatalf("%v\n%s", err, w.log)
	}
	t.Cleanup(func() {
		w.end()
		if t.Failed() {
			t.Log(w.log)
		}
	})
	if w.browser, err = answertest.NewClient(w.public, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.browser.Enrol(t.Context(), w.enrol); err != nil {
		t.Fatal(err)
	}
	if err := w.browser.SignIn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.sim.Label(demoOwner, demoRepo, w.issue, "nod"); err != nil {
		t.Fatal(err)
	}
	return w
}

// needProgram ends the test unless the variable names a program and environments
// can be made.
func needProgram(t *testing.T, variable, what string) {
	t.Helper()
	if os.Getenv(variable) == "" {
		runtimetest.Missing(t, "the "+what+" program ("+variable+" is its path)")
	}
	needEnvironments(t)
}

// closing closes a mock of a model at the end of the test.
func closing(t *testing.T, model *modelserver.Server) {
	t.Cleanup(func() {
		if err := model.Close(); err != nil {
			t.Error(err)
		}
	})
}

// end closes the demo once; nothing of the program may be left.
func (w *realDemo) end() {
	w.t.Helper()
	if w.demo == nil {
		return
	}
	if err := w.demo.Close(); err != nil {
		w.t.Errorf("close the demo: %v", err)
	}
	w.demo = nil
	w.gone()
}

// play answers by judge until the life is over or stuck.
func (w *realDemo) play(judge func(nod.Decision) (answer, reason string)) (nod.Case, error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), realTime)
	defer cancel()
	return w.follow(ctx, w.browser, func(q nod.Decision) (string, string) {
		w.asked = append(w.asked, q)
		return judge(q)
	})
}

// greeting is greet.sh as the agent's workspace has it.
func (w *realDemo) greeting() string {
	w.t.Helper()
	found, err := filepath.Glob(filepath.Join(w.system.config.StateDir, "environments", "*", "workspace", "greet.sh"))
	if err != nil || len(found) != 1 {
		w.t.Fatalf("%v, %v", found, err)
	}
	raw, err := os.ReadFile(found[0])
	if err != nil {
		w.t.Fatal(err)
	}
	return string(raw)
}

// running lists the processes of this machine that run the program.
func (w *realDemo) running() []string {
	w.t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(path string) bool {
		raw, err := os.ReadFile(path)
		return err != nil || !bytes.Contains(raw, []byte(w.program)) // an error: it has ended
	})
}

func (w *realDemo) gone() {
	w.t.Helper()
	if left := w.running(); len(left) > 0 {
		w.t.Errorf("the program still runs: %v", left)
	}
}

// transcript is every event of the task.
func (w *realDemo) transcript() []nod.Event {
	w.t.Helper()
	tasks, err := w.system.store.Tasks(w.t.Context())
	if err != nil || len(tasks) != 1 {
		w.t.Fatalf("%d tasks, %v", len(tasks), err)
	}
	events, err := w.system.store.Events(w.t.Context(), tasks[0].ID, 0, 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	return events
}

var verdictLine = regexp.MustCompile(`msg=egress .*Host:(\S*) Port:(\d+) Verdict:(\w+)`)

// verdicts are the proxy's, each once: "allow model.test:443".
func (w *realDemo) verdicts() []string {
	var out []string
	for _, m := range verdictLine.FindAllStringSubmatch(w.log.String(), -1) {
		if m[3] != "closed" {
			out = append(out, fmt.Sprintf("%s %s:%s", m[3], m[1], m[2]))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// refused are the hosts that the task's audit log says were refused, each once.
func (w *realDemo) refused() []string {
	w.t.Helper()
	var out []string
	for _, e := range w.transcript() {
		if e.Kind != nod.EventEgressDenied {
			continue
		}
		var denied egress.Event
		if err := json.Unmarshal(e.Data, &denied); err != nil || e.Tier != nod.Audit {
			w.t.Errorf("event %d: tier %s, %v", e.ID, e.Tier, err)
		}
		out = append(out, denied.Host)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// unpublished fails the test when anything has reached the repository.
func (w *realDemo) unpublished() {
	w.t.Helper()
	pulls, err := w.sim.Pulls(demoRepo)
	pushed := slices.ContainsFunc(w.sim.Requests(), func(r githubsim.Request) bool { return strings.Contains(r.Path, "git-receive-pack") })
	if err != nil || len(pulls) != 0 || pushed {
		w.t.Errorf("%d pull requests, pushed: %v, %v", len(pulls), pushed, err)
	}
}

// stuck fails the test unless play ended with err for a question of that cause, with
// the program gone and nothing published.
func (w *realDemo) stuck(err error, cause nod.Cause, words string) {
	w.t.Helper()
	if nod.CodeOf(err) != nod.Failed {
		w.t.Errorf("the life ended with %v", err)
	}
	open, err := w.system.store.OpenDecisions(w.t.Context())
	if err != nil || len(open) != 1 || open[0].Kind != nod.Question || open[0].Cause != cause || !strings.Contains(open[0].Input, words) {
		w.t.Errorf("what is open: %+v, %v", open, err)
	}
	w.gone()
	w.unpublished()
}

// keyless fails the test when the model's key is in the database, in the log or
// among what was told. The database must hold witness, so that the search is one.
func (w *realDemo) keyless(witness string) {
	w.t.Helper()
	path := w.system.store.Path()
	var stored []byte
	for _, file := range []string{path, path + "-wal"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			w.t.Fatal(err)
		}
		if bytes.Contains(raw, []byte(modelKey)) {
			w.t.Errorf("the key is in %s", filepath.Base(file))
		}
		stored = append(stored, raw...)
	}
	if !bytes.Contains(stored, []byte(witness)) {
		w.t.Errorf("the database does not hold %q", witness)
	}
	if strings.Contains(w.log.String(), modelKey) {
		w.t.Error("the key is in the log")
	}
}

// opened fails the test unless the program opened one session, set up as it must be.
func (w *realDemo) opened(events []nod.Event) {
	w.t.Helper()
	sessions := 0
	for _, e := range events {
		switch e.Kind {
		case nod.EventSession:
			var s nod.SessionOpened
			if err := json.Unmarshal(e.Data, &s); err != nil || s.Program != w.kind || s.Version == "" {
				w.t.Errorf("%s, %v", e.Data, err)
			}
			sessions++
		case nod.EventAgentError:
			w.t.Errorf("the program complains: %s", e.Data)
		case nod.EventAttested:
			var a nod.Attestation
			if err := json.Unmarshal(e.Data, &a); err != nil || a.Holds() != nil {
				w.t.Errorf("%s, %v, %v", e.Data, err, a.Holds())
			}
		}
	}
	if sessions != 1 {
		w.t.Errorf("%d sessions", sessions)
	}
}

// published fails the test unless the life c ended with a pull request: after those
// tools and the review were asked about, by that many requests to the model that
// carry the key, and with the key nowhere else. The agent has printed its key.
func (w *realDemo) published(c nod.Case, steps int, key func(http.Header) string, tools ...string) {
	w.t.Helper()
	w.gone()
	var asked []string
	for _, q := range w.asked {
		asked = append(asked, string(q.Cause)+" "+q.Subject)
	}
	if n := len(asked) - 1; n < 0 || !slices.Equal(asked[:n], tools) || w.asked[n].Cause != nod.CauseReadyToPush {
		w.t.Errorf("asked about %q", asked)
	}
	if c.Task.State != nod.TaskReadyForReview || c.Environment == nil || c.Environment.Attestation.Holds() != nil {
		w.t.Errorf("task %s, environment %+v", c.Task.State, c.Environment)
	}
	if r := c.Revision; r == nil || r.PullRequest.State != "open" || len(r.Commits) != 1 || !r.Commits[0].Verified || r.PullRequest.HeadSHA != r.Published() {
		w.t.Errorf("revision %+v", r)
	} else if head, err := w.sim.Head(demoRepo, c.Task.Branch); err != nil || head != r.PullRequest.HeadSHA {
		w.t.Errorf("the branch is at %q, %v", head, err)
	}
	if report, err := w.system.store.VerifyChain(w.t.Context(), ""); err != nil || !report.Verified || report.Signatures != len(tools)+1 {
		w.t.Errorf("%+v, %v", report, err)
	}

	main := 0
	host, verdicts := modelHost, []string{"allow model.test:443", "deny unlisted.invalid:443"}
	if w.gated {
		host, verdicts = w.model.TLS, verdicts[1:]
	}
	for _, q := range w.model.Requests() {
		if !q.TLS || q.Host != host {
			w.t.Errorf("a request came another way: %s", q.Dump())
		}
		if q.Main {
			main++
			if key(q.Header) != modelKey {
				w.t.Errorf("a request without the key: %s", q.Dump())
			}
		}
	}
	if main != steps {
		w.t.Errorf("%d requests of the main loop", main)
	}
	// The other host is what the environment's own probe asks for.
	if got := w.verdicts(); !slices.Equal(got, verdicts) {
		w.t.Errorf("the proxy was asked for %q", got)
	}

	events := w.transcript()
	w.opened(events)
	printed := false
	for _, e := range events {
		if bytes.Contains(e.Data, []byte(modelKey)) {
			w.t.Errorf("the key is in the transcript: %s", e.Data)
		}
		printed = printed || e.Kind == nod.EventToolResult && bytes.Contains(e.Data, []byte(w.shown))
	}
	if !printed {
		w.t.Errorf("the transcript does not show that the agent printed %q", w.shown)
	}
	w.keyless(w.shown)
	w.end()
}

// syncBuffer is a bytes.Buffer for several writers.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
