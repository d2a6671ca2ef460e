package githubsim

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

const zeroSHA = "0000000000000000000000000000000000000000"

// observe compares the refs of r with those it had when it was last looked at,
// emits a push for each that changed, and brings pull requests up to date. by is
// who pushed. The caller holds s.mu.
func (s *Server) observe(r *repo, by *user) error {
	after, err := s.refs(r)
	if err != nil {
		return err
	}
	before := r.seen
	r.seen = after
	names := map[string]bool{}
	for name := range before {
		names[name] = true
	}
	for name := range after {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if before[name] == after[name] {
			continue
		}
		if err := s.emitPush(r, by, name, before[name], after[name]); err != nil {
			return err
		}
		if branch, ok := strings.CutPrefix(name, "refs/heads/"); ok {
			if err := s.followBranch(r, by, branch, before[name], after[name]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Server) emitPush(r *repo, by *user, ref, old, sha string) error {
	list := []obj{}
	var head any
	if sha != "" && strings.HasPrefix(ref, "refs/heads/") {
		base := old
		if base == "" {
			base = s.head(r, r.branch)
		}
		commits, err := s.commits(r, base, sha)
		if err != nil {
			return err
		}
		for _, c := range commits {
			list = append(list, s.pushCommit(r, c))
		}
		tip, err := s.commit(r, sha)
		if err != nil {
			return err
		}
		head = s.pushCommit(r, tip)
	}
	orZero := func(sha string) string {
		if sha == "" {
			return zeroSHA
		}
		return sha
	}
	pusher := obj{"name": "nobody", "email": ""}
	if by != nil {
		pusher = obj{"name": by.login, "email": by.noreply()}
	}
	s.emit(r, by, "push", "", obj{"ref": ref, "before": orZero(old), "after": orZero(sha), "created": old == "", "deleted": sha == "",
		"forced": old != "" && sha != "" && !s.ancestor(r, old, sha), "base_ref": nil, "commits": list, "head_commit": head,
		"compare": s.base + "/" + r.full() + "/compare/" + orZero(old) + "..." + orZero(sha), "pusher": pusher})
	return nil
}

func (s *Server) pushCommit(r *repo, c commit) obj {
	return obj{"id": c.sha, "tree_id": c.tree, "message": strings.TrimSuffix(c.message, "\n"), "timestamp": when(c.committer.at), "distinct": true,
		"url": s.base + "/" + r.full() + "/commit/" + c.sha, "author": obj{"name": c.author.name, "email": c.author.email},
		"committer": obj{"name": c.committer.name, "email": c.committer.email}, "added": []string{}, "removed": []string{}, "modified": []string{}}
}

// followBranch does what GitHub does to open pull requests when a branch moves: a
// new head synchronizes, a head that is gone closes, a base that has the head
// merges.
func (s *Server) followBranch(r *repo, by *user, branch, old, sha string) error {
	for _, i := range r.issues {
		p := i.pull
		if p == nil || i.closed {
			continue
		}
		switch {
		case p.head == branch && sha == "", p.base == branch && sha == "":
			if err := s.setState(r, i, by, true); err != nil {
				return err
			}
		case p.head == branch:
			p.headSHA, i.updated = sha, s.stamp()
			if err := s.keepHead(r, i); err != nil {
				return err
			}
			s.emitIssue(r, i, by, "synchronize", obj{"before": old, "after": sha})
		case p.base == branch && s.ancestor(r, p.headSHA, sha):
			s.markMerged(r, i, by, sha)
		case p.base == branch:
			p.baseSHA = sha
		}
	}
	return nil
}

// keepHead keeps refs/pull/N/head at the pull request's head, so that its commits
// stay when the branch goes.
func (s *Server) keepHead(r *repo, i *issue) error {
	_, err := s.git(r.dir, nil, "update-ref", "refs/pull/"+strconv.Itoa(i.number)+"/head", i.pull.headSHA)
	return err
}

func (s *Server) markMerged(r *repo, i *issue, by *user, sha string) {
	p := i.pull
	p.merged, p.mergeSHA, p.mergedBy, p.mergedAt = true, sha, by, s.stamp()
	i.closed, i.closeAt, i.updated = true, s.stamp(), s.stamp()
	s.record(i, by, "merged", nil)
	s.record(i, by, "closed", nil)
	s.emitIssue(r, i, by, "closed", obj{})
}

// moveRef sets, makes or removes one ref as the API does. The caller holds s.mu.
func (s *Server) moveRef(r *repo, by *user, ref, sha string, force bool) error {
	if (!strings.HasPrefix(ref, "refs/heads/") && !strings.HasPrefix(ref, "refs/tags/")) || !s.validBranch(strings.TrimPrefix(ref, "refs/")) {
		return &apiError{status: http.StatusUnprocessableEntity, msg: "Reference name must start with 'refs/heads/' or 'refs/tags/'"}
	}
	old := s.refAt(r, ref)
	var err error
	switch {
	case sha == "" && (old == "" || ref == "refs/heads/"+r.branch):
		return &apiError{status: http.StatusUnprocessableEntity, msg: "Reference does not exist or cannot be deleted"}
	case sha == "":
		_, err = s.git(r.dir, nil, "update-ref", "-d", ref, old)
	default:
		if got, err := s.resolve(r, sha); err != nil || got != sha {
			return &apiError{status: http.StatusUnprocessableEntity, msg: "Object does not exist"}
		}
		if old != "" && !force && !s.ancestor(r, old, sha) {
			return &apiError{status: http.StatusUnprocessableEntity, msg: "Update is not a fast forward"}
		}
		if err := s.ruleAgainst(r, ref, old, sha); err != nil {
			return err
		}
		if old == "" {
			old = zeroSHA
		}
		_, err = s.git(r.dir, nil, "update-ref", ref, sha, old)
	}
	if err != nil {
		return &apiError{status: http.StatusConflict, msg: "Reference cannot be updated"}
	}
	return s.observe(r, by)
}

// refAt returns what a ref points at now, or "".
func (s *Server) refAt(r *repo, ref string) string {
	out, err := s.git(r.dir, nil, "rev-parse", "--verify", "--quiet", "--end-of-options", ref)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
