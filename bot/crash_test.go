package bot_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"nod"
	"nod/bot/github/githubsim"
	"nod/bot/hostgit"
	"nod/store"
)

// crashes is a simulated GitHub and children that die while they publish to it.
type crashes struct {
	*testing.T
	sim  *githubsim.Server
	plan crashPlan
}

const crashRepo = "ada/web"

func newCrashes(t *testing.T, sign nod.SignMode) *crashes {
	t.Helper()
	c := &crashes{T: t}
	var err error
	c.sim, err = githubsim.New(githubsim.Config{Dir: t.TempDir()})
	c.ok(err)
	t.Cleanup(func() { c.ok(c.sim.Close()) })
	base, err := c.sim.Start(t.Context())
	c.ok(err)
	owner, err := c.sim.CreateUser("ada")
	c.ok(err)
	c.ok(c.sim.CreateRepo(crashRepo, map[string]string{"README.md": "# web\n"}))
	keys := t.TempDir()
	public, err := hostgit.GenerateSigningKey(filepath.Join(keys, "signing"))
	c.ok(err)
	c.ok(c.sim.AddSigningKey("ada", public))
	app := c.sim.App()
	c.ok(os.WriteFile(filepath.Join(keys, "app.pem"), []byte(app.PEM.Reveal()), 0o600))
	c.plan = crashPlan{API: base + "/api/v3/", Web: base, Key: filepath.Join(keys, "app.pem"), App: app.ID, Owner: owner.ID, Sign: sign,
		Name: "Ada", Email: owner.Email}
	return c
}

func (c *crashes) ok(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// run labels a new issue, lets a child die at step, and another one finish.
func (c *crashes) run(step string) (steps []string) {
	c.Helper()
	n, err := c.sim.CreateIssue("ada", crashRepo, "Total is wrong", "It ignores the coupon.")
	c.ok(err)
	c.ok(c.sim.Label("ada", crashRepo, n, "nod"))
	in, err := c.sim.Installation(crashRepo)
	c.ok(err)
	p := c.plan
	p.Dir, p.Step = c.TempDir(), step
	p.Log = filepath.Join(p.Dir, "steps")
	s, err := store.Open(c.Context(), store.Config{Path: filepath.Join(p.Dir, "nod.db"), Now: time.Now})
	c.ok(err)
	raw, err := json.Marshal(nod.Occurrence{Kind: nod.IssueLabeled, Issue: n, Label: "nod", Installation: in, At: time.Now(),
		Sender: nod.Actor{Kind: nod.ActorGitHub, Host: "github.com", ID: p.Owner, Login: "ada"}, Repo: nod.Repo{Host: "github.com", Owner: "ada", Name: "web"}})
	c.ok(err)
	_, err = s.AcceptDelivery(c.Context(), nod.Delivery{GUID: fmt.Sprint("guid-", n), Event: "fake", Payload: raw, Order: fmt.Sprint(n), ReceivedAt: time.Now()})
	c.ok(err)
	c.ok(s.Close())
	before := len(c.sim.Requests())
	if step != "" {
		if out, err := c.child(p); err == nil || !strings.Contains(err.Error(), "killed") {
			c.Fatalf("the child that was to die: %v\n%s", err, out)
		}
		p.Step = ""
	}
	if out, err := c.child(p); err != nil {
		c.Fatalf("the child that was to finish: %v\n%s", err, out)
	}
	c.delivered(n, c.sim.Requests()[before:], p.Dir)
	log, err := os.ReadFile(p.Log)
	c.ok(err)
	return strings.Split(strings.TrimSpace(string(log)), "\n")
}

func (c *crashes) child(p crashPlan) (string, error) {
	raw, err := json.Marshal(p)
	c.ok(err)
	cmd := exec.CommandContext(c.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), crashEnv+"="+string(raw))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// delivered holds that one branch update and one pull request came of issue n.
func (c *crashes) delivered(n int, requests []githubsim.Request, dir string) {
	c.Helper()
	updates, opened := 0, 0
	for _, r := range requests {
		switch {
		case r.Method == "POST" && strings.HasSuffix(r.Path, "/git/refs"), r.Method == "PATCH" && strings.Contains(r.Path, "/git/refs/"),
			strings.HasSuffix(r.Path, "/git-receive-pack"):
			if r.Status < 300 {
				updates++
			}
		case r.Method == "POST" && strings.HasSuffix(r.Path, "/pulls") && r.Status < 300:
			opened++
		}
	}
	if updates != 1 || opened != 1 {
		c.Errorf("%d branch updates, %d pull requests", updates, opened)
	}
	v, err := c.sim.View(crashRepo, n)
	c.ok(err)
	if len(v.Comments) != 1 || !slices.Contains(v.Labels, "nod:review") {
		c.Errorf("the issue has %d comments and the labels %v", len(v.Comments), v.Labels)
	}
	s, err := store.Open(c.Context(), store.Config{Path: filepath.Join(dir, "nod.db"), Now: time.Now})
	c.ok(err)
	defer func() { c.ok(s.Close()) }()
	task, err := s.TaskOf(c.Context(), nod.Repo{Host: "github.com", Owner: "ada", Name: "web"}, n)
	c.ok(err)
	end, err := s.Case(c.Context(), task.ID)
	c.ok(err)
	r := end.Revision
	if task.State != nod.TaskReadyForReview || r.State != nod.RevisionPublished || len(r.Commits) != 2 || !r.Commits[0].Verified || !r.Commits[1].Verified {
		c.Errorf("the task is %s, its revision %+v", task.State, r)
	}
	if r, err := s.VerifyChain(c.Context(), ""); err != nil || !r.Verified {
		c.Errorf("audit chain: %+v, %v", r, err)
	}
}

// TestKilledAtEachStepOfPublishing holds invariants 8, 10 and 13 from the bundle to
// the pull request, with both ways to sign: wherever the process is killed, the next
// one ends with one branch update, one pull request and one comment. With
// NOD_TEST_LONG every step is taken, the transactions in between too, and twenty times.
func TestKilledAtEachStepOfPublishing(t *testing.T) {
	times, long := 1, os.Getenv("NOD_TEST_LONG") != ""
	if long {
		times = 20
	}
	for _, sign := range []nod.SignMode{nod.SignGitHub, nod.SignSSH} {
		t.Run(string(sign), func(t *testing.T) {
			c := newCrashes(t, sign)
			var steps []string
			for _, s := range c.run("") {
				if !slices.Contains(steps, s) && (long || telling(sign, s)) {
					steps = append(steps, s)
				}
			}
			if i := slices.Index(steps, "before import"); long && i > 0 {
				steps = append(slices.DeleteFunc(steps[:i:i], func(s string) bool { return !strings.Contains(s, "/comments") }), steps[i:]...)
			}
			if len(steps) < 2 {
				t.Fatalf("only the steps %q", steps)
			}
			for _, step := range steps {
				t.Run(step, func(t *testing.T) {
					c := *c
					c.T = t
					for range times {
						c.run(step)
					}
				})
			}
		})
	}
}

// telling chooses the steps that are taken each time: after each act that publishes,
// and before those that can be seen. Preparing and the pull request do not depend on
// who signs.
func telling(sign nod.SignMode, step string) bool {
	if sign == nod.SignSSH {
		return step == "before push" || step == "after push"
	}
	return slices.Contains([]string{"after import", "after prepare", "after POST /git/trees", "after POST /git/blobs", "after POST /git/commits",
		"before POST /git/refs", "after POST /git/refs", "after push", "before POST /pulls", "after POST /pulls", "after pull request",
		"after POST /issues/N/comments"}, step)
}
