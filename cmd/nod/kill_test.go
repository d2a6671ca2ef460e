package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nod"
	"nod/bot/github/githubsim"
	"nod/notify/answer/answertest"
	"nod/notify/ntfytest"
)

// outside is what nod serve works with, in the test's own process, and the child
// processes that are nod.
type outside struct {
	t       *testing.T
	sim     *githubsim.Server
	phone   *ntfytest.Server
	topic   string
	config  string
	public  string
	issue   int
	browser *answertest.Client
	seen    map[string]bool
}

// demoAuthor is the account whose key signs here, in mode ssh: the App's bot, which
// the simulated GitHub lets have one.
func demoAuthor(app githubsim.App) AuthorConfig {
	login := app.Slug + "[bot]"
	return AuthorConfig{Name: login, Email: fmt.Sprintf("%d+%s@users.noreply.github.com", app.BotID, login)}
}

// childTime bounds everything that waits for a child.
const childTime = 3 * time.Minute

func newOutside(t *testing.T) *outside {
	t.Helper()
	needEnvironments(t)
	d := &demo{dir: dirOfKilled(t)}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	owner, err := d.github(t.Context(), demoLog(testWriter{t}))
	if err != nil {
		t.Fatal(err)
	}
	ntfyURL, token, err := d.ntfy()
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	o := &outside{t: t, sim: d.sim, phone: d.phone, topic: d.topic.Reveal(), issue: d.issue, seen: map[string]bool{},
		config: filepath.Join(d.dir, "nod.hujson"), public: fmt.Sprintf("http://localhost:%d", port)}
	app := d.sim.App()
	d.sim.SetWebhook(fmt.Sprintf("http://127.0.0.1:%d/webhooks/github", port))
	file := func(name, content string) string {
		path := filepath.Join(d.dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	script, err := demoFiles.ReadFile("demo/script.json")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(map[string]any{
		"public_url": o.public, "listen": fmt.Sprintf("127.0.0.1:%d", port), "state_dir": filepath.Join(d.dir, "state"), "limits_may_be_off": true,
		"github": map[string]any{"api_url": d.simURL + "/api/v3/", "web_url": d.simURL, "app_id": app.ID, "owners": []int64{owner},
			"private_key_file": file("app.pem", app.PEM.Reveal()), "webhook_secret_files": []string{file("hook", app.WebhookSecret.Reveal())}},
		"commit_author": demoAuthor(app),
		"ntfy":          map[string]any{"url": ntfyURL, "topic_file": file("topic", o.topic), "token_file": file("token", token.Reveal())},
		"agents":        map[string]any{"scripted": map[string]any{"script_file": file("script.json", string(script))}},
		"repos":         []any{map[string]any{"repo": demoRepo, "agent": "scripted", "check": []string{"sh", "test.sh"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file("nod.hujson", string(raw))
	return o
}

// dirOfKilled is a directory like t.TempDir, in which what a killed nod had started may
// write for a moment while it is removed.
func dirOfKilled(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "nod-outside-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(childTime); ; <-tick.C {
			err := os.RemoveAll(dir)
			if err == nil {
				return
			}
			if time.Now().After(deadline) {
				t.Error(err)
				return
			}
		}
	})
	return dir
}

// freePort is one that nobody listens on, and that the kernel gives to nobody who
// asks for any: it stays free while nod is down.
func freePort(t *testing.T) int {
	t.Helper()
	for range 100 {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return port
	}
	t.Fatal("no port is free")
	return 0
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

// nod makes a child that is the program.
func (o *outside) nod(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], append(args, "--config", o.config)...)
	cmd.Env = append(os.Environ(), "NOD_TEST_PROGRAM=1")
	return cmd
}

// serve starts nod serve and waits until it answers. The caller kills it.
func (o *outside) serve() (kill func()) {
	o.t.Helper()
	cmd := o.nod("serve")
	cmd.Stderr = testWriter{o.t}
	if err := cmd.Start(); err != nil {
		o.t.Fatal(err)
	}
	dead := false
	kill = func() {
		if !dead {
			dead = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	o.t.Cleanup(kill)
	o.until("nod serves", func() bool {
		r, err := http.Get(o.public + "/healthz")
		if err != nil {
			return false
		}
		_ = r.Body.Close()
		return r.StatusCode == http.StatusOK
	})
	return kill
}

// enrol adds a software passkey as a person would: by the link that the host prints.
func (o *outside) enrol() {
	o.t.Helper()
	// The name of the signing key is known once serve has started.
	key, err := os.ReadFile(filepath.Join(filepath.Dir(o.config), "state", "signing_key.pub"))
	if err != nil {
		o.t.Fatal(err)
	}
	if err := o.sim.AddSigningKey(o.sim.App().Slug+"[bot]", strings.TrimSpace(string(key))); err != nil {
		o.t.Fatal(err)
	}
	var link, errs bytes.Buffer
	cmd := o.nod("passkey", "add", "test")
	cmd.Stdout, cmd.Stderr = &link, &errs
	if err := cmd.Run(); err != nil {
		o.t.Fatalf("passkey add: %v: %s", err, errs.String())
	}
	if o.browser, err = answertest.NewClient(o.public, nil); err != nil {
		o.t.Fatal(err)
	}
	if err := o.browser.Enrol(o.t.Context(), strings.TrimSpace(link.String())); err != nil {
		o.t.Fatal(err)
	}
	if err := o.browser.SignIn(o.t.Context()); err != nil {
		o.t.Fatal(err)
	}
}

// until polls, because what it waits for is in another process.
func (o *outside) until(what string, ok func() bool) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), childTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			o.t.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

// push waits for a push about a decision that has not been seen before, and returns it.
func (o *outside) push() (decision string) {
	o.t.Helper()
	o.until("a push arrives", func() bool {
		for _, m := range o.phone.Messages(o.topic) {
			if _, id, ok := strings.Cut(m.Click, "/d/"); ok && !o.seen[id] {
				decision, o.seen[id] = id, true
				return true
			}
		}
		return false
	})
	return decision
}

func (o *outside) allow(decision string) {
	o.t.Helper()
	if err := o.browser.Answer(o.t.Context(), decision, nod.Allow, ""); err != nil {
		o.t.Fatal(err)
	}
}

// delivered waits for the one pull request and checks what it is.
func (o *outside) delivered() {
	o.t.Helper()
	o.until("the issue says ready for review", func() bool {
		v, err := o.sim.View(demoRepo, o.issue)
		return err == nil && strings.Contains(fmt.Sprint(v.Labels), "nod:review")
	})
	pulls, err := o.sim.Pulls(demoRepo)
	if err != nil || len(pulls) != 1 {
		o.t.Fatalf("%d pull requests, %v", len(pulls), err)
	}
	var out, errs bytes.Buffer
	cmd := o.nod("audit", "verify", "--json")
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		o.t.Errorf("audit verify: %v: %s%s", err, out.String(), errs.String())
	}
	var report struct{ Data nod.ChainReport }
	if err := json.Unmarshal(out.Bytes(), &report); err != nil || !report.Data.Verified || report.Data.Signatures == 0 {
		o.t.Errorf("audit report %s, %v", out.String(), err)
	}
}

// TestKilledWhileTheAgentWaits: SIGKILL with a permission prompt open. The
// environment dies with nod; the next nod resumes the run and asks again; the old
// question is not answerable any more.
func TestKilledWhileTheAgentWaits(t *testing.T) {
	o := newOutside(t)
	kill := o.serve()
	o.enrol()
	if err := o.sim.Label(demoOwner, demoRepo, o.issue, "nod"); err != nil {
		t.Fatal(err)
	}
	first := o.push()
	alive := agentProcesses(t)
	if len(alive) == 0 {
		t.Error("no agent process can be seen: the check below proves nothing")
	}
	kill()
	o.until("every agent process is gone", func() bool {
		return !slices.ContainsFunc(agentProcesses(t), func(id string) bool { return slices.Contains(alive, id) })
	})
	o.serve()
	second := o.push()
	if err := o.browser.Answer(t.Context(), first, nod.Allow, ""); err == nil || !strings.Contains(err.Error(), "superseded") {
		t.Errorf("the dead agent's question took an answer: %v", err)
	}
	o.allow(second)
	o.allow(o.push()) // the commit
	o.allow(o.push()) // ready to push
	o.delivered()
}

// TestKilledBetweenPushAndPullRequest: SIGKILL after the branch was pushed, while
// GitHub refuses pull requests, and once more after a pull request was opened of
// which nod never heard.
func TestKilledBetweenPushAndPullRequest(t *testing.T) {
	for name, fault := range map[string]githubsim.Fault{
		"never opened":         {Method: "POST", Path: "/pulls", Times: 2, Status: 503},
		"opened, answer lost":  {Method: "POST", Path: "/pulls", Times: 1, Cut: githubsim.CutAfter},
		"connection cut first": {Method: "POST", Path: "/pulls", Times: 2, Cut: githubsim.CutBefore},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutside(t)
			kill := o.serve()
			o.enrol()
			o.sim.Inject(fault)
			if err := o.sim.Label(demoOwner, demoRepo, o.issue, "nod"); err != nil {
				t.Fatal(err)
			}
			o.allow(o.push()) // the change
			o.allow(o.push()) // the commit
			o.allow(o.push()) // ready to push
			tried := func() bool {
				for _, r := range o.sim.Requests() {
					if r.Method == "POST" && strings.HasSuffix(r.Path, "/pulls") {
						return true
					}
				}
				return false
			}
			o.until("a pull request is tried", tried)
			kill()
			o.serve()
			o.delivered()
		})
	}
}

// agentProcesses returns the ids of the processes that are a scripted agent in an
// environment, by their command line.
func agentProcesses(t *testing.T) []string {
	t.Helper()
	var ids []string
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		line, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(line), "/nod/guest\x00scripted-agent") {
			ids = append(ids, filepath.Base(filepath.Dir(path)))
		}
	}
	return ids
}
