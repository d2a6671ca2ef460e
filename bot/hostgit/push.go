package hostgit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"

	"nod"
)

// Pusher performs nod.EffectPush.
type Pusher struct{ g *Git }

// Pusher returns the performer of pushes.
func (g *Git) Pusher() *Pusher { return &Pusher{g} }

// intent reads and checks what is to be pushed.
func (p *Pusher) intent(ctx context.Context, t nod.Task, e nod.Effect) (nod.PushBranch, error) {
	var in nod.PushBranch
	if e.Kind != nod.EffectPush {
		return in, nod.E(nod.Invalid, "this effect is not a push", nil)
	}
	if err := json.Unmarshal(e.Intent, &in); err != nil {
		return in, nod.E(nod.Invalid, "the push cannot be read", err)
	}
	if err := checkTask(t); err != nil {
		return in, err
	}
	if err := checkSHA(in.SHA); err != nil {
		return in, err
	}
	if in.Old != "" {
		if err := checkSHA(in.Old); err != nil {
			return in, err
		}
	}
	rest, under := strings.CutPrefix(in.Branch, branchPrefix)
	switch {
	case in.Forward && in.Branch == t.BaseRef && in.Branch != "" && in.Old != "":
	case in.Forward || !under || rest == "" || strings.EqualFold(in.Branch, t.BaseRef):
		return in, nod.E(nod.Forbidden, "only branches under "+branchPrefix+" are ever pushed to, and a named integration branch", nil)
	}
	return in, p.g.checkBranch(ctx, in.Branch)
}

// Perform moves the branch to exactly the commit, forwards only, and reads it back.
// A branch that is not where the intent expects it is a Conflict and stays as it is.
func (p *Pusher) Perform(ctx context.Context, t nod.Task, e nod.Effect) (json.RawMessage, error) {
	ctx, cancel := p.g.deadline(ctx)
	defer cancel()
	in, err := p.intent(ctx, t, e)
	if err != nil {
		return nil, err
	}
	m, err := p.g.open(ctx, t.Repo)
	if err != nil {
		return nil, err
	}
	defer m.close()
	if err := m.pushable(ctx, t, in); err != nil {
		return nil, err
	}
	err = m.online(ctx, t, true, func(r *remote) error { return m.push(ctx, r, in) })
	if err != nil {
		return nil, err
	}
	p.g.log.Info("branch pushed", slog.String("task", t.ID), slog.String("repo", t.Repo.String()), slog.Int64("effect", e.ID))
	return json.Marshal(nod.PushOutcome{SHA: in.SHA})
}

// Lookup reads the branch: at the commit it has happened; where it was before, it
// has not; anywhere else nobody can tell.
func (p *Pusher) Lookup(ctx context.Context, t nod.Task, e nod.Effect) (json.RawMessage, error) {
	ctx, cancel := p.g.deadline(ctx)
	defer cancel()
	in, err := p.intent(ctx, t, e)
	if err != nil {
		return nil, err
	}
	m, err := p.g.open(ctx, t.Repo)
	if err != nil {
		return nil, err
	}
	defer m.close()
	var at string
	err = m.online(ctx, t, false, func(r *remote) error {
		heads, err := m.heads(ctx, r)
		at = heads[in.Branch]
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case at == in.SHA:
		return json.Marshal(nod.PushOutcome{SHA: at})
	case at == in.Old:
		return nil, nil
	default:
		return nil, nod.E(nod.NeedsHuman, "the branch "+quoted(in.Branch)+" is "+where(at)+", neither where it was before the push nor where it should be after", nil)
	}
}

func where(sha string) string {
	if sha == "" {
		return "gone"
	}
	return "at " + sha[:12]
}

// pushable checks before anything is sent that the commit was prepared for the task
// and is a step forward from where the branch should be.
func (m *mirror) pushable(ctx context.Context, t nod.Task, in nod.PushBranch) error {
	at, err := m.resolve(ctx, taskRefs(t)+"prepared/"+in.SHA)
	if err != nil {
		return err
	}
	if at != in.SHA {
		return nod.E(nod.NotFound, "the commit "+in.SHA[:12]+" was not prepared for this task", nil)
	}
	if in.Old == "" {
		return nil
	}
	if _, err := m.git(ctx, call{}, "cat-file", "-e", in.Old+"^{commit}"); err != nil {
		if exitCode(err) > 0 {
			return nod.E(nod.Conflict, "the branch held a commit that the supervisor never saw", err)
		}
		return err
	}
	forward, err := m.ancestor(ctx, in.Old, in.SHA)
	if err == nil && !forward {
		err = nod.E(nod.Conflict, "the push would not move the branch forward", nil)
	}
	return err
}

func (m *mirror) push(ctx context.Context, r *remote, in nod.PushBranch) error {
	heads, err := m.heads(ctx, r)
	if err != nil {
		return err
	}
	if heads[in.Branch] == in.SHA {
		return nil
	}
	if at := heads[in.Branch]; at != in.Old {
		return nod.E(nod.Conflict, "the branch "+quoted(in.Branch)+" was moved by someone else: it is "+where(at), nil)
	}
	if in.Forward {
		if err := m.notDefault(ctx, r, in.Branch); err != nil {
			return err
		}
	}
	for name := range heads {
		if name != in.Branch && strings.EqualFold(name, in.Branch) {
			return nod.E(nod.Conflict, "the branch "+quoted(name)+" differs from "+quoted(in.Branch)+" only in case", nil)
		}
	}
	out := &capped{limit: 1 << 20, over: func() {}}
	_, err = m.git(ctx, call{remote: r, stdout: out}, "push", "--porcelain", "--quiet", "--no-verify", "--no-follow-tags", "--no-signed",
		"--recurse-submodules=no", "--", r.url, in.SHA+":refs/heads/"+in.Branch)
	if err != nil {
		return m.rejected(ctx, in, out.buf.String(), err)
	}
	if heads, err = m.heads(ctx, r); err != nil {
		return err
	}
	if at := heads[in.Branch]; at != in.SHA {
		return nod.E(nod.Conflict, "the branch "+quoted(in.Branch)+" was read back after the push and is "+where(at), nil)
	}
	return nil
}

// notDefault refuses the branch that the remote's HEAD is on, and any where that cannot
// be told.
func (m *mirror) notDefault(ctx context.Context, r *remote, branch string) error {
	out, err := m.git(ctx, call{remote: r}, "ls-remote", "--quiet", "--symref", "--", r.url, "HEAD")
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(out), "\n")
	target, _, _ := strings.Cut(first, "\t")
	main, ok := strings.CutPrefix(target, "ref: refs/heads/")
	if !ok || strings.EqualFold(main, branch) {
		return nod.E(nod.Forbidden, "the default branch is never pushed to, and "+quoted(branch)+" is it or may be", nil)
	}
	return nil
}

// rejected gives a refused push its reason. Porcelain output has one line per ref:
// flag, TAB, refs, TAB, "[rejected] (why)".
func (m *mirror) rejected(ctx context.Context, in nod.PushBranch, out string, err error) error {
	why := ""
	for line := range strings.Lines(out) {
		if f := strings.SplitN(strings.TrimRight(line, "\n"), "\t", 3); len(f) == 3 && f[0] == "!" {
			why = f[2]
		}
	}
	var ge *gitError
	if why == "" || !errors.As(err, &ge) {
		return err // it did not come to that: the transport's error
	}
	whole := why + "\n" + ge.stderr
	switch {
	case strings.HasPrefix(why, "[rejected]"):
		return nod.E(nod.Conflict, "the branch "+quoted(in.Branch)+" was moved by someone else while it was pushed", err)
	case strings.Contains(whole, "workflow"):
		return m.workflows(ctx, in, err)
	case strings.Contains(why, "failed to update ref"), strings.Contains(why, "cannot lock ref"):
		return nod.E(nod.Conflict, "the branch "+quoted(in.Branch)+" could not be moved: another one is in its way or moved it first", err)
	default:
		return nod.E(nod.Forbidden, "GitHub refused the push: "+firstLine(why), err)
	}
}

// workflows tells apart why GitHub may refuse workflow files: the work touches them,
// or it touches none and only starts from an older target.
func (m *mirror) workflows(ctx context.Context, in nod.PushBranch, err error) error {
	touched, terr := m.touchesWorkflows(ctx, in)
	if terr != nil {
		return errors.Join(terr, err)
	}
	if !touched {
		return &nod.Error{Code: nod.Conflict, Msg: "GitHub refused the push because workflow files on the target branch have moved on, though this work touches none",
			Hint: "prepare it again on the newest target branch", Err: err}
	}
	return &nod.Error{Code: nod.Forbidden, Msg: "GitHub refused the push because it changes .github/workflows and the App may not",
		Hint: "give the App the permission Workflows: read and write, accept it for the installation and retry; nothing is lost", Err: err}
}

func (m *mirror) touchesWorkflows(ctx context.Context, in nod.PushBranch) (bool, error) {
	tips, err := m.git(ctx, call{}, "for-each-ref", "--format=^%(objectname)", branchRefs)
	if err != nil {
		return false, err
	}
	stdin := append([]byte(in.SHA+"\n"), tips...)
	out, err := m.git(ctx, call{stdin: bytes.NewReader(stdin)}, "rev-list", "--stdin", "--max-count=1", "--", ".github/workflows")
	return len(out) > 0, err
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, line[:min(len(line), 200)])
}
