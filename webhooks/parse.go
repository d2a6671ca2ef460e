package webhooks

import (
	"time"

	"github.com/google/go-github/v66/github"

	"nod"
)

// Parser returns the function that says what a stored delivery means. It returns
// nil and no error for what nod has nothing to do with. An error is Invalid and
// names the event and what it lacks: saying it again will not help.
//
// Every kind needs an installation. A payload without one was sent by a hook of a
// repository or an organization, for which nod holds no token.
func Parser(host string) func(d nod.Delivery) (*nod.Occurrence, error) {
	return func(d nod.Delivery) (*nod.Occurrence, error) {
		p := parser{host: host, delivery: d}
		switch d.Event + "." + d.Action {
		case string(nod.IssueLabeled), string(nod.IssueUnlabeled), string(nod.IssueClosed):
			return handle(p, p.issue)
		case string(nod.CommentCreated):
			return handle(p, p.comment)
		case string(nod.PullRequestClosed):
			return handle(p, p.pullRequest)
		case string(nod.ReviewSubmitted):
			return handle(p, p.review)
		case string(nod.ReviewCommentCreated):
			return handle(p, p.reviewComment)
		case string(nod.CheckSuiteCompleted):
			return handle(p, p.checkSuite)
		}
		switch d.Event {
		case "push":
			return handle(p, p.push)
		case "installation":
			return handle(p, p.installation)
		case "installation_repositories":
			return handle(p, p.installationRepositories)
		}
		return nil, nil
	}
}

type parser struct {
	host     string
	delivery nod.Delivery
}

// handle decodes the payload into the type that to takes.
func handle[E any](p parser, to func(e *E) (*nod.Occurrence, error)) (*nod.Occurrence, error) {
	decoded, err := github.ParseWebHook(p.delivery.Event, p.delivery.Payload)
	if err != nil {
		return nil, p.bad("the payload does not fit the event", err)
	}
	e, ok := decoded.(*E)
	if !ok || e == nil {
		return nil, p.bad("the payload is of another event", nil)
	}
	return to(e)
}

func (p parser) bad(what string, err error) error {
	where := p.delivery.Event
	if p.delivery.Action != "" {
		where += "." + p.delivery.Action
	}
	return nod.E(nod.Invalid, where+": "+what, err)
}

// start fills in what every kind has, and checks it.
func (p parser) start(kind nod.OccurrenceKind, action string, in *github.Installation, sender *github.User, at time.Time) (*nod.Occurrence, error) {
	if action != p.delivery.Action {
		return nil, p.bad("the payload has the action "+action, nil)
	}
	if in.GetID() <= 0 {
		err := nod.E(nod.Invalid, p.bad("no installation", nil).Error(), nil)
		err.Hint = "a hook of the repository sent it: remove that hook, the App has its own"
		return nil, err
	}
	if at.IsZero() {
		at = p.delivery.ReceivedAt
	}
	return &nod.Occurrence{Kind: kind, Installation: in.GetID(), Sender: p.actor(sender), At: at.UTC()}, nil
}

// on sets repository and number.
func (p parser) on(o *nod.Occurrence, repo *github.Repository, number int, noun string) (*nod.Occurrence, error) {
	o.Repo, o.Issue = p.repo(repo), number
	switch {
	case o.Repo == (nod.Repo{}):
		return nil, p.bad("no repository", nil)
	case number <= 0:
		return nil, p.bad("no "+noun+" number", nil)
	}
	return o, nil
}

func (p parser) issue(e *github.IssuesEvent) (*nod.Occurrence, error) {
	at := e.GetIssue().GetUpdatedAt().Time
	kind := nod.OccurrenceKind(p.delivery.Event + "." + p.delivery.Action)
	if closed := e.GetIssue().GetClosedAt().Time; kind == nod.IssueClosed && !closed.IsZero() {
		at = closed
	}
	o, err := p.start(kind, e.GetAction(), e.GetInstallation(), e.GetSender(), at)
	if err != nil {
		return nil, err
	}
	if kind != nod.IssueClosed {
		if o.Label = e.GetLabel().GetName(); o.Label == "" {
			return nil, p.bad("no label name", nil)
		}
	}
	return p.on(o, e.GetRepo(), e.GetIssue().GetNumber(), "issue")
}

func (p parser) comment(e *github.IssueCommentEvent) (*nod.Occurrence, error) {
	c := e.GetComment()
	o, err := p.start(nod.CommentCreated, e.GetAction(), e.GetInstallation(), e.GetSender(), c.GetCreatedAt().Time)
	if err != nil {
		return nil, err
	}
	if o.CommentID = c.GetID(); o.CommentID <= 0 {
		return nil, p.bad("no comment id", nil)
	}
	o.CommentBody = c.GetBody()
	return p.on(o, e.GetRepo(), e.GetIssue().GetNumber(), "issue")
}

func (p parser) pullRequest(e *github.PullRequestEvent) (*nod.Occurrence, error) {
	pr := e.GetPullRequest()
	at := pr.GetClosedAt().Time
	if at.IsZero() {
		at = pr.GetUpdatedAt().Time
	}
	o, err := p.start(nod.PullRequestClosed, e.GetAction(), e.GetInstallation(), e.GetSender(), at)
	if err != nil {
		return nil, err
	}
	o.Merged = pr.GetMerged()
	o.HeadRef = headRef(pr.GetHead(), e.GetRepo())
	number := pr.GetNumber()
	if number == 0 {
		number = e.GetNumber()
	}
	return p.on(o, e.GetRepo(), number, "pull request")
}

func (p parser) installation(e *github.InstallationEvent) (*nod.Occurrence, error) {
	o, err := p.start(nod.InstallationChanged, e.GetAction(), e.GetInstallation(), e.GetSender(), e.GetInstallation().GetUpdatedAt().Time)
	if err != nil {
		return nil, err
	}
	switch e.GetAction() {
	case "created", "unsuspend":
		o.Repos, err = p.repos(e.Repositories)
	case "deleted", "suspend":
		o.Removed, err = p.repos(e.Repositories)
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

func (p parser) installationRepositories(e *github.InstallationRepositoriesEvent) (*nod.Occurrence, error) {
	o, err := p.start(nod.InstallationChanged, e.GetAction(), e.GetInstallation(), e.GetSender(), e.GetInstallation().GetUpdatedAt().Time)
	if err != nil {
		return nil, err
	}
	if o.Repos, err = p.repos(e.RepositoriesAdded); err != nil {
		return nil, err
	}
	if o.Removed, err = p.repos(e.RepositoriesRemoved); err != nil {
		return nil, err
	}
	return o, nil
}

// repo reads owner and name from full_name, which every payload has; those of
// installations have nothing else.
func (p parser) repo(r *github.Repository) nod.Repo { return repoNamed(p.host, r.GetFullName()) }

func (p parser) repos(all []*github.Repository) ([]nod.Repo, error) {
	var repos []nod.Repo
	for _, r := range all {
		repo := p.repo(r)
		if repo == (nod.Repo{}) {
			return nil, p.bad("a repository without a name", nil)
		}
		repos = append(repos, repo)
	}
	return repos, nil
}

// actor names the sender. One who deleted their account is sent as nothing, or as
// GitHub's ghost; without an id nobody can be trusted.
func (p parser) actor(u *github.User) nod.Actor {
	a := nod.Actor{Kind: nod.ActorGitHub, Host: p.host, ID: u.GetID(), Login: u.GetLogin()}
	if a.ID <= 0 {
		return nod.Actor{Kind: nod.ActorGitHub, Host: p.host, Login: "ghost"}
	}
	a.Bot = u.GetType() != "User"
	return a
}
