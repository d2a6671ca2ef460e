package githubsim

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// obj is a JSON object on its way out.
type obj map[string]any

// epoch is when everything began that has no time of its own.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func itoa(n int) string { return strconv.Itoa(n) }

func when(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339)
}

func nodeID(kind string, id int64) string { return fmt.Sprintf("%s_%d", kind, id) }

func (s *Server) userJSON(u *user) any {
	if u == nil {
		return nil // a deleted account
	}
	api := userURL(s.base, u.login)
	return link(obj{"id": u.id, "node_id": nodeID("U", u.id), "login": u.login, "type": u.kind, "site_admin": false,
		"url": api, "html_url": s.base + "/" + url.PathEscape(u.login), "avatar_url": s.base + "/assets/avatar", "gravatar_id": ""}, api, userLinks)
}

func (s *Server) repoURL(r *repo) string { return s.base + "/repos/" + r.full() }

func (s *Server) repoJSON(r *repo) obj {
	html := s.base + "/" + r.full()
	open := 0
	for _, i := range r.issues {
		if !i.closed {
			open++
		}
	}
	out := obj{"id": r.id, "node_id": nodeID("R", r.id), "name": r.name, "full_name": r.full(), "private": r.private,
		"owner": s.userJSON(r.owner), "default_branch": r.branch, "has_issues": true,
		"visibility": map[bool]string{true: "private", false: "public"}[r.private],
		"url":        s.repoURL(r), "html_url": html, "clone_url": html + ".git", "git_url": html + ".git", "svn_url": html,
		"ssh_url":    "ssh://git@" + strings.TrimPrefix(html, "http://") + ".git",
		"created_at": when(r.created), "updated_at": when(r.created), "pushed_at": when(r.created), "open_issues": open, "open_issues_count": open}
	return link(out, s.repoURL(r), repoLinks).with(nil, "description", "homepage", "language", "license", "mirror_url").
		with(0, "forks", "forks_count", "size", "stargazers_count", "watchers", "watchers_count", "network_count", "subscribers_count").
		with(false, "fork", "archived", "disabled", "has_downloads", "has_projects", "has_wiki", "has_pages", "has_discussions")
}

func (s *Server) labelJSON(r *repo, l *label) obj {
	return obj{"id": l.id, "node_id": nodeID("LA", l.id), "name": l.name, "color": l.color, "description": l.description,
		"default": false, "url": s.repoURL(r) + "/labels/" + url.PathEscape(l.name)}
}

func (s *Server) labelsJSON(r *repo, ls []*label) []obj {
	out := []obj{}
	for _, l := range ls {
		out = append(out, s.labelJSON(r, l))
	}
	return out
}

// association is deliberately the least that GitHub ever says of somebody: it is
// known to be wrong about members, and nobody may decide by it.
func association(r *repo, u *user) string {
	switch {
	case u == nil:
		return "NONE"
	case u == r.owner:
		return "OWNER"
	case r.roles[u.id].level() > 0: // a member, whatever they may do
		return "CONTRIBUTOR"
	}
	return "NONE"
}

func stateOf(i *issue) string {
	if i.closed {
		return "closed"
	}
	return "open"
}

func (s *Server) issueURL(r *repo, i *issue) string {
	kind := "issues"
	if i.pull != nil {
		kind = "pull"
	}
	return fmt.Sprintf("%s/%s/%s/%d", s.base, r.full(), kind, i.number)
}

func (s *Server) issueJSON(r *repo, i *issue) obj {
	api := fmt.Sprintf("%s/issues/%d", s.repoURL(r), i.number)
	out := obj{"id": i.id, "node_id": nodeID("I", i.id), "number": i.number, "title": i.title, "body": i.body,
		"user": s.userJSON(i.author), "state": stateOf(i), "locked": i.locked, "labels": s.labelsJSON(r, i.labels),
		"assignees": []obj{}, "comments": len(i.comments), "created_at": when(i.created), "updated_at": when(i.updated),
		"closed_at": when(i.closeAt), "author_association": association(r, i.author), "url": api, "repository_url": s.repoURL(r),
		"html_url": s.issueURL(r, i), "comments_url": api + "/comments", "events_url": api + "/events",
		"labels_url": api + "/labels{/name}"}
	out.with(nil, "assignee", "milestone")
	if i.pull != nil {
		html := s.issueURL(r, i)
		out["pull_request"] = obj{"url": s.pullURL(r, i), "html_url": html, "diff_url": html + ".diff", "patch_url": html + ".patch",
			"merged_at": when(i.pull.mergedAt)}
	}
	return out
}

func (s *Server) commentJSON(r *repo, i *issue, c *comment) obj {
	out := obj{"id": c.id, "node_id": nodeID("IC", c.id), "body": c.body, "user": s.userJSON(c.author),
		"created_at": when(c.created), "updated_at": when(c.updated), "author_association": association(r, c.author),
		"url":       fmt.Sprintf("%s/issues/comments/%d", s.repoURL(r), c.id),
		"html_url":  fmt.Sprintf("%s#issuecomment-%d", s.issueURL(r, i), c.id),
		"issue_url": fmt.Sprintf("%s/issues/%d", s.repoURL(r), i.number), "performed_via_github_app": nil}
	if c.viaApp {
		out["performed_via_github_app"] = s.appJSON()
	}
	return out
}

func (s *Server) eventJSON(r *repo, e *event) obj {
	out := obj{"id": e.id, "node_id": nodeID("EV", e.id), "event": e.kind, "actor": s.userJSON(e.by), "created_at": when(e.at),
		"commit_id": nil, "commit_url": nil, "performed_via_github_app": nil, "url": fmt.Sprintf("%s/issues/events/%d", s.repoURL(r), e.id)}
	if e.label != nil {
		out["label"] = obj{"name": e.label.name, "color": e.label.color}
	}
	return out
}

func (s *Server) branchSideJSON(r *repo, ref, sha string) obj {
	return obj{"label": r.owner.login + ":" + ref, "ref": ref, "sha": sha, "user": s.userJSON(r.owner), "repo": s.repoJSON(r)}
}

func (s *Server) pullURL(r *repo, i *issue) string {
	return fmt.Sprintf("%s/pulls/%d", s.repoURL(r), i.number)
}

func (s *Server) pullJSON(r *repo, i *issue) obj {
	p := i.pull
	api := s.pullURL(r, i)
	out := obj{"id": i.id, "node_id": nodeID("PR", i.id), "number": i.number, "title": i.title, "body": i.body,
		"user": s.userJSON(i.author), "state": stateOf(i), "locked": i.locked, "draft": p.draft, "merged": p.merged,
		"labels": s.labelsJSON(r, i.labels), "assignees": []obj{}, "requested_reviewers": s.reviewersJSON(p),
		"head": s.branchSideJSON(r, p.head, p.headSHA), "base": s.branchSideJSON(r, p.base, p.baseSHA),
		"merge_commit_sha": nil, "merged_by": s.userJSON(p.mergedBy), "merged_at": when(p.mergedAt),
		"created_at": when(i.created), "updated_at": when(i.updated), "closed_at": when(i.closeAt),
		"comments": len(i.comments), "author_association": association(r, i.author),
		"url": api, "html_url": s.issueURL(r, i), "issue_url": fmt.Sprintf("%s/issues/%d", s.repoURL(r), i.number),
		"diff_url": s.issueURL(r, i) + ".diff", "patch_url": s.issueURL(r, i) + ".patch", "commits_url": api + "/commits",
		"review_comments_url": api + "/comments", "review_comment_url": s.repoURL(r) + "/pulls/comments{/number}",
		"statuses_url": s.repoURL(r) + "/statuses/" + p.headSHA, "comments_url": fmt.Sprintf("%s/issues/%d/comments", s.repoURL(r), i.number),
		"_links": s.pullLinks(r, i)}
	out.with(nil, "assignee", "milestone", "auto_merge", "active_lock_reason")
	if p.mergeSHA != "" {
		out["merge_commit_sha"] = p.mergeSHA
	}
	return out
}

func (s *Server) installationJSON(in *installation) obj {
	out := obj{"id": in.id, "account": s.userJSON(in.account), "app_id": s.app.id, "app_slug": s.app.slug,
		"repository_selection": "all", "permissions": in.perms, "events": s.told,
		"target_id": in.account.id, "target_type": in.account.kind, "created_at": when(in.created), "updated_at": when(in.created),
		"suspended_at": nil, "suspended_by": nil, "single_file_name": nil, "repositories_url": s.base + "/installation/repositories", "html_url": fmt.Sprintf("%s/settings/installations/%d", s.base, in.id),
		"access_tokens_url": fmt.Sprintf("%s/app/installations/%d/access_tokens", s.base, in.id)}
	if in.suspended {
		out["suspended_at"], out["suspended_by"] = when(s.stamp()), s.userJSON(in.account)
	}
	return out
}

func personJSON(p person) obj {
	return obj{"name": p.name, "email": p.email, "date": when(p.at)}
}

func (s *Server) gitCommitJSON(r *repo, c commit) obj {
	parents := []obj{}
	for _, p := range c.parents {
		parents = append(parents, obj{"sha": p, "url": s.repoURL(r) + "/git/commits/" + p, "html_url": s.base + "/" + r.full() + "/commit/" + p})
	}
	v := s.verify(c)
	verification := obj{"verified": v.ok, "reason": v.reason, "signature": nil, "payload": nil, "verified_at": nil}
	if c.signature != "" {
		verification["signature"], verification["payload"] = c.signature, string(c.payload)
	}
	return obj{"sha": c.sha, "node_id": "C_" + c.sha, "url": s.repoURL(r) + "/git/commits/" + c.sha,
		"html_url": s.base + "/" + r.full() + "/commit/" + c.sha, "author": personJSON(c.author), "committer": personJSON(c.committer),
		"message": strings.TrimSuffix(c.message, "\n"), "tree": obj{"sha": c.tree, "url": s.repoURL(r) + "/git/trees/" + c.tree},
		"parents": parents, "verification": verification}
}

// commitJSON is the richer shape of /commits, with GitHub accounts beside git's names.
func (s *Server) commitJSON(r *repo, c commit) obj {
	inner := s.gitCommitJSON(r, c)
	inner["comment_count"] = 0
	return obj{"sha": c.sha, "node_id": inner["node_id"], "commit": inner, "parents": inner["parents"],
		"url": s.repoURL(r) + "/commits/" + c.sha, "html_url": inner["html_url"], "comments_url": s.repoURL(r) + "/commits/" + c.sha + "/comments",
		"author": s.userJSON(s.byEmail(c.author.email)), "committer": s.userJSON(s.byEmail(c.committer.email))}
}
