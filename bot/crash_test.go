package bot_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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

// file labels a new issue and puts the delivery that tells of it into a new store.
func (c *crashes) file(title string) (int, crashPlan) {
	c.Helper()
	n, err := c.sim.CreateIssue("ada", crashRepo, title, "It ignores the coupon.")
	c.ok(err)
	c.ok(c.sim.Label("ada", crashRepo, n, "nod"))
	in, err := c.sim.Installation(crashRepo)
	c.ok(err)
	p := c.plan
	p.Dir = c.TempDir()
	p.Log = filepath.Join(p.Dir, "steps")
	s, err := store.Open(c.Context(), store.Config{Path: filepath.Join(p.Dir, "nod.db"), Now: time.Now})
	c.ok(err)
	raw, err := json.Marshal(nod.Occurrence{Kind: nod.IssueLabeled, Issue: n, Label: "nod", Installation: in, At: time.Now(),
		Sender: nod.Actor{Kind: nod.ActorGitHub, Host: "github.com", ID: p.Owner, Login: "ada"}, Repo: nod.Repo{Host: "github.com", Owner: "ada", Name: "web"}})
	c.ok(err)
	_, err = s.AcceptDelivery(c.Context(), nod.Delivery{GUID: fmt.Sprint("guid-", n), Event: "fake", Payload: raw, Order: fmt.Sprint(n), ReceivedAt: time.Now()})
	c.ok(err)
	c.ok(s.Close())
	return n, p
}

// run labels a new issue and lets one child after the other work on it. Each dies at
// the first of the steps left that it comes to; the last one finishes. It returns
// every step that was come to, and how often a child died at each.
func (c *crashes) run(left []string) (came []string, died map[string]int) {
	c.Helper()
	n, p := c.file("Total is wrong")
	p.Left = slices.Clone(left)
	before := len(c.sim.Requests())
	died = map[string]int{}
	for {
		out, err := c.child(p)
		log, rerr := os.ReadFile(p.Log)
		c.ok(rerr)
		came = strings.Split(strings.TrimSpace(string(log)), "\n")
		if err == nil {
			break
		}
		step := came[len(came)-1]
		if !slices.Contains(p.Left, step) || !strings.Contains(err.Error(), "killed") {
			c.Fatalf("a child that was to die at one of %q: %v\n%s", p.Left, err, out)
		}
		died[step]++
		p.Left = slices.DeleteFunc(p.Left, func(s string) bool { return s == step })
	}
	c.delivered(n, c.sim.Requests()[before:], p.Dir)
	return came, died
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

// points are where the process is killed, with who signs: after each act that
// publishes, and before those that can be seen. Where a kill has the next process
// look up an act instead of doing it, the points after that come with the other way
// to sign.
var points = map[nod.SignMode][]string{
	nod.SignGitHub: {"after POST /issues/N/comments", "after import", "after prepare", "after POST /git/trees", "after POST /git/blobs", "after POST /git/commits",
		"before POST /git/refs", "after POST /git/refs", "before POST /pulls", "after POST /pulls"},
	nod.SignSSH: {"before import", "before push", "after push", "after pull request"},
}

// TestKilledAtEachStepOfPublishing holds invariants 8, 10 and 13 from the bundle to
// the pull request, with both ways to sign: wherever the process is killed, the next
// one ends with one branch update, one pull request and one comment. Each task goes
// through one kill at every point. There are two tasks, or as many as NOD_TEST_KILLS
// says; with NOD_TEST_LONG every transaction in between is a point too.
func TestKilledAtEachStepOfPublishing(t *testing.T) {
	times := 2
	if n := os.Getenv("NOD_TEST_KILLS"); n != "" {
		var err error
		if times, err = strconv.Atoi(n); err != nil || times < 2 {
			t.Fatalf("NOD_TEST_KILLS is %q, not a number of at least 2", n)
		}
	}
	for sign, at := range points {
		for half := range 2 {
			t.Run(fmt.Sprint(sign, half), func(t *testing.T) {
				t.Parallel()
				c := newCrashes(t, sign)
				at := slices.Clone(at)
				if os.Getenv("NOD_TEST_LONG") != "" {
					came, _ := c.run(nil)
					at = append(at, slices.DeleteFunc(came, func(s string) bool { return !strings.Contains(s, "write ") })...)
				}
				died := map[string]int{}
				for range times / 2 {
					_, n := c.run(at)
					for s := range n {
						died[s]++
					}
				}
				for _, step := range at {
					if died[step] < times/2 {
						t.Errorf("killed %d times %s, not %d times", died[step], step, times/2)
					}
				}
				t.Logf("killed %d times at each of %d points", times/2, len(died))
			})
		}
	}
}
