package github

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	gh "github.com/google/go-github/v66/github"

	"nod"
)

// Prepared is where prepared commits are read from.
type Prepared interface {
	// Changes returns the commits that sha, prepared for t, reaches and base does
	// not, oldest first, with what each changes against its one parent.
	Changes(ctx context.Context, t nod.Task, base, sha string) ([]nod.CommitChange, error)
	// Blobs reads files by their object ids, in the order asked for.
	Blobs(ctx context.Context, t nod.Task, ids []string) ([][]byte, error)
}

// Commits performs nod.EffectPush in mode nod.SignGitHub: the prepared commits are
// made anew through the Git Data API. An App that names no author, committer and
// signature there has its commits signed by GitHub. Each commit must come out with
// exactly the tree, the message and the (likewise made) parent that were approved,
// and verified, before the next one is made; the branch moves after the last.
//
// What cannot be made that way is refused before anything is sent: see planned.
type Commits struct {
	*Client
	from Prepared

	mu   sync.Mutex
	made map[string]*progress // by effect key
}

// progress is what an effect that has to be tried again need not send again. It is
// forgotten with the process, and then made anew: commits that no branch holds do
// no harm.
type progress struct {
	blobs, trees map[string]bool
	commits      map[string]string // prepared → made
}

// maxProgress is how many unfinished effects are remembered; beyond it all are forgotten.
const maxProgress = 64

// Commits returns the performer of pushes that GitHub signs.
func (c *Client) Commits(from Prepared) *Commits {
	return &Commits{Client: c, from: from, made: map[string]*progress{}}
}

var permCommit = map[string]string{"metadata": "read", "contents": "write"}

// commitPlan is an effect that was read and checked.
type commitPlan struct {
	nod.PushBranch
	client *gh.Client
	repo   nod.Repo
	task   nod.Task
	series []nod.CommitChange
}

func (p *Commits) plan(ctx context.Context, t nod.Task, e nod.Effect) (commitPlan, error) {
	plan := commitPlan{repo: t.Repo, task: t}
	if err := intent(e, nod.EffectPush, &plan.PushBranch); err != nil {
		return plan, err
	}
	if err := p.check(t.Repo); err != nil {
		return plan, err
	}
	rest, ok := strings.CutPrefix(plan.Branch, "nod/")
	switch {
	case plan.Sign != nod.SignGitHub:
		return plan, nod.E(nod.Invalid, "this push is not one that GitHub signs", nil)
	case plan.Forward && (plan.Branch != t.BaseRef || plan.Branch == "" || plan.Old == ""), !plan.Forward && (!ok || rest == "" || strings.EqualFold(plan.Branch, t.BaseRef)):
		return plan, nod.E(nod.Forbidden, "only branches under nod/ are ever pushed to, and a named integration branch", nil)
	case plan.Base == "" || plan.Old != "" && plan.Old != plan.Base:
		// New commits go on top of what was published, or begin a branch.
		return plan, nod.E(nod.Conflict, "the push does not continue what is on the branch", nil)
	}
	series, err := p.from.Changes(ctx, t, plan.Base, plan.SHA)
	if err != nil {
		return plan, err
	}
	plan.series = series
	if err := planned(series); err != nil {
		return plan, err
	}
	perms := permCommit
	if p.workflows && touchesWorkflows(series) {
		perms = map[string]string{"metadata": "read", "contents": "write", "workflows": "write"}
	}
	plan.client, err = p.in(ctx, t.Installation, t.Repo, perms)
	return plan, err
}

// Perform makes the commits and moves the branch to the last. The outcome is a
// nod.PushOutcome with Published set.
func (p *Commits) Perform(ctx context.Context, t nod.Task, e nod.Effect) (json.RawMessage, error) {
	act := "push to " + t.Repo.String()
	plan, err := p.plan(ctx, t, e)
	if err != nil {
		return nil, p.fault(act, err)
	}
	at, err := head(ctx, plan.client, t.Repo, plan.Branch)
	if err != nil {
		return nil, p.fault(act, err)
	}
	if at != plan.Old {
		out, err := p.found(ctx, plan, at)
		if err != nil || out != nil {
			return out, p.fault(act, err)
		}
		return nil, nod.E(nod.Conflict, "the branch "+plan.Branch+" was moved by someone else", nil)
	}
	if plan.Forward {
		if err := p.notDefault(ctx, plan); err != nil {
			return nil, p.fault(act, err)
		}
	}
	if at == "" {
		if err := p.alone(ctx, plan); err != nil {
			return nil, p.fault(act, err)
		}
	}
	done := p.progress(e.Key)
	base, _, err := plan.client.Git.GetCommit(ctx, t.Repo.Owner, t.Repo.Name, plan.Base)
	if err != nil {
		return nil, p.fault(act, err)
	}
	parent, tree := plan.Base, base.GetTree().GetSHA()
	for _, c := range plan.series {
		if err := p.tree(ctx, plan, done, tree, c); err != nil {
			return nil, p.refused(act, plan, err)
		}
		tree = c.Commit.Tree
		if parent, err = p.commit(ctx, plan, done, parent, c.Commit); err != nil {
			return nil, p.refused(act, plan, err)
		}
	}
	if err := p.move(ctx, plan, parent); err != nil {
		return nil, p.refused(act, plan, err)
	}
	out, err := outcome(nod.PushOutcome{SHA: parent, Published: done.commits})
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.made, e.Key)
	return out, err
}

func (p *Commits) progress(key string) *progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.made[key] == nil {
		if len(p.made) >= maxProgress {
			clear(p.made)
		}
		p.made[key] = &progress{blobs: map[string]bool{}, trees: map[string]bool{}, commits: map[string]string{}}
	}
	return p.made[key]
}

// alone refuses a branch beside one that differs from it only in case.
func (p *Commits) alone(ctx context.Context, plan commitPlan) error {
	_, _, err := pages(0, func(page int) ([]*gh.Reference, *gh.Response, error) {
		refs, res, err := plan.client.Git.ListMatchingRefs(ctx, plan.repo.Owner, plan.repo.Name,
			&gh.ReferenceListOptions{Ref: "heads/nod/", ListOptions: gh.ListOptions{Page: page, PerPage: perPage}})
		for _, r := range refs {
			name := strings.TrimPrefix(r.GetRef(), "refs/heads/")
			if name != plan.Branch && strings.EqualFold(name, plan.Branch) {
				return nil, nil, nod.E(nod.Conflict, "the branch "+name+" differs from "+plan.Branch+" only in case", nil)
			}
		}
		return refs, res, err
	})
	return err
}

// notDefault refuses the repository's default branch, and any where that cannot be told.
func (p *Commits) notDefault(ctx context.Context, plan commitPlan) error {
	got, _, err := plan.client.Repositories.Get(ctx, plan.repo.Owner, plan.repo.Name)
	if err != nil {
		return err
	}
	if main := got.GetDefaultBranch(); main == "" || strings.EqualFold(main, plan.Branch) {
		return nod.E(nod.Forbidden, "the default branch is never pushed to, and "+plan.Branch+" is it or may be", nil)
	}
	return nil
}

// commit makes one commit, or takes the one that an earlier attempt made, and holds
// it against what was approved.
func (p *Commits) commit(ctx context.Context, plan commitPlan, done *progress, parent string, c nod.Commit) (string, error) {
	if sha := done.commits[c.SHA]; sha != "" {
		return sha, nil
	}
	ask := &gh.Commit{Message: &c.Message, Tree: &gh.Tree{SHA: &c.Tree}, Parents: []*gh.Commit{{SHA: &parent}}}
	made, _, err := plan.client.Git.CreateCommit(ctx, plan.repo.Owner, plan.repo.Name, ask, nil)
	if err != nil {
		return "", err
	}
	if !made.GetVerification().GetVerified() { // GitHub may look at it a moment later
		if made, _, err = plan.client.Git.GetCommit(ctx, plan.repo.Owner, plan.repo.Name, made.GetSHA()); err != nil {
			return "", err
		}
	}
	if wrong := differs(made, c, parent); wrong != "" {
		return "", nod.E(nod.Failed, fmt.Sprintf("GitHub made another commit of %.8s than was approved: its %s differs", c.SHA, wrong), nil)
	}
	if v := made.GetVerification(); !v.GetVerified() {
		return "", &nod.Error{Code: nod.Failed, Msg: fmt.Sprintf("GitHub did not sign commit %.8s: %s", c.SHA, tidy(v.GetReason())),
			Hint: `set sign to "ssh" for this repository, with commit_author and a key that GitHub knows`}
	}
	done.commits[c.SHA] = made.GetSHA()
	return made.GetSHA(), nil
}

// differs says in what a commit on GitHub is not what was prepared as c onto parent,
// or "". GitHub shows messages without the newlines at their end.
func differs(on *gh.Commit, c nod.Commit, parent string) string {
	switch {
	case on.GetTree().GetSHA() != c.Tree:
		return "tree"
	case len(on.Parents) != 1 || on.Parents[0].GetSHA() != parent:
		return "parent"
	case strings.TrimRight(on.GetMessage(), "\n") != strings.TrimRight(c.Message, "\n"):
		return "message"
	}
	return ""
}

// move makes the branch or moves it forward, and reads it back.
func (p *Commits) move(ctx context.Context, plan commitPlan, to string) error {
	ref := &gh.Reference{Ref: gh.String("refs/heads/" + plan.Branch), Object: &gh.GitObject{SHA: &to}}
	var err error
	if plan.Old == "" {
		_, _, err = plan.client.Git.CreateRef(ctx, plan.repo.Owner, plan.repo.Name, ref)
	} else {
		_, _, err = plan.client.Git.UpdateRef(ctx, plan.repo.Owner, plan.repo.Name, ref, false)
	}
	if err != nil {
		if statusOf(err) == http.StatusUnprocessableEntity && (says(err, "already exists") || says(err, "fast forward")) {
			return nod.E(nod.Conflict, "the branch "+plan.Branch+" was moved by someone else", err)
		}
		return err
	}
	at, err := head(ctx, plan.client, plan.repo, plan.Branch)
	if err == nil && at != to {
		err = nod.E(nod.Conflict, "the branch "+plan.Branch+" was read back and is not where it was moved to", nil)
	}
	return err
}

// refused says what the matter is where GitHub has no words for it: it hides what a
// token may not do.
func (p *Commits) refused(act string, plan commitPlan, err error) error {
	if s := statusOf(err); (s == http.StatusForbidden || s == http.StatusNotFound) && touchesWorkflows(plan.series) && nod.CodeOf(p.fault(act, err)) != nod.RateLimited {
		return &nod.Error{Code: nod.Forbidden, Msg: "GitHub refused the push, which changes .github/workflows",
			Hint: "give the App the permission Workflows: read and write, accept it for the installation, set github.push_workflows and retry; nothing is lost", Err: err}
	}
	return p.fault(act, err)
}

// Lookup reads the branch. Where it was before, nothing has happened; at commits
// that are the prepared ones in all but their ids, it has; anywhere else nobody can
// tell.
func (p *Commits) Lookup(ctx context.Context, t nod.Task, e nod.Effect) (json.RawMessage, error) {
	act := "look for its branch in " + t.Repo.String()
	plan, err := p.plan(ctx, t, e)
	if err != nil {
		return nil, p.fault(act, err)
	}
	at, err := head(ctx, plan.client, t.Repo, plan.Branch)
	if err != nil || at == plan.Old {
		return nil, p.fault(act, err)
	}
	out, err := p.found(ctx, plan, at)
	if err == nil && out == nil {
		err = nod.E(nod.NeedsHuman, "the branch "+plan.Branch+" is neither where it was before the push nor at what was approved", nil)
	}
	return out, p.fault(act, err)
}

// found walks down from at and returns the outcome when what is there is the whole
// prepared series.
func (p *Commits) found(ctx context.Context, plan commitPlan, at string) (json.RawMessage, error) {
	published := map[string]string{}
	sha := at
	for i := len(plan.series) - 1; i >= 0; i-- {
		on, _, err := plan.client.Git.GetCommit(ctx, plan.repo.Owner, plan.repo.Name, sha)
		if statusOf(err) == http.StatusNotFound {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		parent := plan.Base
		if i > 0 && len(on.Parents) == 1 {
			parent = on.Parents[0].GetSHA()
		}
		if differs(on, plan.series[i].Commit, parent) != "" {
			return nil, nil
		}
		published[plan.series[i].Commit.SHA], sha = sha, parent
	}
	return outcome(nod.PushOutcome{SHA: at, Published: published})
}
