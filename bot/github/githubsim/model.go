package githubsim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
)

// user is an account. Bots have kind "Bot", as the API calls it.
type user struct {
	id     int64
	login  string
	kind   string
	emails []string // verified, lower case
	keys   []ssh.PublicKey
}

func (u *user) noreply() string {
	return fmt.Sprintf("%d+%s@users.noreply.github.com", u.id, u.login)
}

func (u *user) hasEmail(email string) bool {
	return slices.Contains(u.emails, strings.ToLower(email))
}

// role is what a user may do in a repository. Name may be a custom role's; base is
// one of none, read, triage, write, maintain, admin.
type role struct{ name, base string }

// levels orders base roles.
var levels = []string{"none", "read", "triage", "write", "maintain", "admin"}

func (r role) level() int { return max(0, slices.Index(levels, r.base)) }

// legacy is the older of GitHub's two words for a role: maintain is write there,
// triage is read.
func (r role) legacy() string {
	switch r.base {
	case "maintain":
		return "write"
	case "triage":
		return "read"
	}
	return r.base
}

type repo struct {
	id      int64
	owner   *user
	name    string
	private bool
	branch  string // default branch
	dir     string // bare repository
	roles   map[int64]role
	labels  []*label
	issues  []*issue // issue number n is issues[n-1]
	created time.Time
	seen    map[string]string // refs when they were last looked at
	ruled   string            // prefix of the branches that rules apply to
	rules   []string          // kinds
	checks  []*checkRun       // oldest first
	hooks   []repoHook
	suites  []*checkSuite
}

func (r *repo) full() string { return r.owner.login + "/" + r.name }

// roleOf is u's role: admin for the owner, read for everyone where it is public.
func (r *repo) roleOf(u *user) role {
	if u != nil {
		if u.id == r.owner.id {
			return role{"admin", "admin"}
		}
		if got, ok := r.roles[u.id]; ok {
			return got
		}
	}
	if r.private {
		return role{"none", "none"}
	}
	return role{"read", "read"}
}

func (r *repo) issue(n int) *issue {
	if n < 1 || n > len(r.issues) {
		return nil
	}
	return r.issues[n-1]
}

func (r *repo) label(name string) *label {
	for _, l := range r.labels {
		if strings.EqualFold(l.name, name) {
			return l
		}
	}
	return nil
}

type label struct {
	id                       int64
	name, color, description string
}

type issue struct {
	id                        int64
	number                    int
	title, body               string
	author                    *user
	closed, locked            bool
	labels                    []*label
	comments                  []*comment
	events                    []*event
	created, updated, closeAt time.Time
	pull                      *pull // nil for an issue
}

func (i *issue) has(name string) int {
	return slices.IndexFunc(i.labels, func(l *label) bool { return strings.EqualFold(l.name, name) })
}

type comment struct {
	id               int64
	body             string
	author           *user
	viaApp           bool
	created, updated time.Time
	reactions        []*reaction
}

type reaction struct {
	id      int64
	by      *user
	content string
	at      time.Time
}

// event is an entry of an issue's event list.
type event struct {
	id    int64
	kind  string // labeled, unlabeled, closed, reopened, merged
	by    *user
	label *label
	at    time.Time
}

type pull struct {
	head, base       string // branches
	headSHA, baseSHA string // the newest seen; kept when the branch is gone
	draft, merged    bool
	reviewers        []*user // asked for
	reviews          []*review
	mergeSHA         string
	mergedBy         *user
	mergedAt         time.Time
}
