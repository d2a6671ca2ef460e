package githubsim

import "net/url"

// The parts of GitHub's objects that nobody here reads but its description
// requires: links, counters that stay at zero, features that are off.

var userLinks = map[string]string{"events_url": "/events{/privacy}", "followers_url": "/followers", "following_url": "/following{/other_user}",
	"gists_url": "/gists{/gist_id}", "organizations_url": "/orgs", "received_events_url": "/received_events", "repos_url": "/repos",
	"starred_url": "/starred{/owner}{/repo}", "subscriptions_url": "/subscriptions"}

var repoLinks = map[string]string{"archive_url": "/{archive_format}{/ref}", "assignees_url": "/assignees{/user}", "blobs_url": "/git/blobs{/sha}",
	"branches_url": "/branches{/branch}", "collaborators_url": "/collaborators{/collaborator}", "comments_url": "/comments{/number}",
	"commits_url": "/commits{/sha}", "compare_url": "/compare/{base}...{head}", "contents_url": "/contents/{+path}",
	"contributors_url": "/contributors", "deployments_url": "/deployments", "downloads_url": "/downloads", "events_url": "/events",
	"forks_url": "/forks", "git_commits_url": "/git/commits{/sha}", "git_refs_url": "/git/refs{/sha}", "git_tags_url": "/git/tags{/sha}",
	"hooks_url": "/hooks", "issue_comment_url": "/issues/comments{/number}", "issue_events_url": "/issues/events{/number}",
	"issues_url": "/issues{/number}", "keys_url": "/keys{/key_id}", "labels_url": "/labels{/name}", "languages_url": "/languages",
	"merges_url": "/merges", "milestones_url": "/milestones{/number}", "notifications_url": "/notifications{?since,all,participating}",
	"pulls_url": "/pulls{/number}", "releases_url": "/releases{/id}", "stargazers_url": "/stargazers", "statuses_url": "/statuses/{sha}",
	"subscribers_url": "/subscribers", "subscription_url": "/subscription", "tags_url": "/tags", "teams_url": "/teams",
	"trees_url": "/git/trees{/sha}"}

// link adds to out what links names, below base.
func link(out obj, base string, links map[string]string) obj {
	for name, below := range links {
		out[name] = base + below
	}
	return out
}

// with adds the same value under several names.
func (o obj) with(value any, names ...string) obj {
	for _, n := range names {
		o[n] = value
	}
	return o
}

// accountJSON is an account by itself, with its profile, which is empty.
func (s *Server) accountJSON(u *user) obj {
	return s.userJSON(u).(obj).with("public", "user_view_type").with(nil, "bio", "blog", "company", "email", "hireable", "location", "name").
		with(0, "followers", "following", "public_gists", "public_repos").with(when(epoch), "created_at", "updated_at")
}

func (s *Server) pullLinks(r *repo, i *issue) obj {
	api := s.pullURL(r, i)
	issues := s.repoURL(r) + "/issues/" + itoa(i.number)
	href := func(u string) obj { return obj{"href": u} }
	return obj{"self": href(api), "html": href(s.issueURL(r, i)), "issue": href(issues), "comments": href(issues + "/comments"),
		"review_comments": href(api + "/comments"), "review_comment": href(s.repoURL(r) + "/pulls/comments{/number}"),
		"commits": href(api + "/commits"), "statuses": href(s.repoURL(r) + "/statuses/" + i.pull.headSHA)}
}

func userURL(base, login string) string { return base + "/users/" + url.PathEscape(login) }
