package githubsim

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"nod"
)

// User is an account, as CreateUser made it.
type User struct {
	ID    int64
	Login string
	Email string // verified, GitHub's noreply address
	Bot   bool
}

var (
	loginShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]*$`) // of 39 characters at most
	nameShape  = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)           // of 100
)

// reserved are first path segments that are not accounts.
var reserved = append([]string{"api", "assets", "settings", "organizations"}, apiRoots...)

// CreateUser makes a person's account.
func (s *Server) CreateUser(login string) (User, error) {
	if len(login) > 39 || !loginShape.MatchString(login) || slices.Contains(reserved, strings.ToLower(login)) {
		return User{}, fmt.Errorf("githubsim: %q cannot be a login", login)
	}
	return s.createAccount(login, "User")
}

// CreateBot makes an account that the API calls a Bot. The login is taken as it is:
// with the [bot] suffix of Apps, or without it, like Copilot's.
func (s *Server) CreateBot(login string) (User, error) { return s.createAccount(login, "Bot") }

func (s *Server) createAccount(login, kind string) (User, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users[strings.ToLower(login)] != nil {
		return User{}, fmt.Errorf("githubsim: there is a user %q already", login)
	}
	u := s.addUser(login, kind)
	return User{ID: u.id, Login: u.login, Email: u.noreply(), Bot: kind == "Bot"}, nil
}

// addUser makes an account. The caller holds s.mu, except in New.
func (s *Server) addUser(login, kind string) *user {
	u := &user{id: s.id(), login: login, kind: kind}
	u.emails = []string{strings.ToLower(u.noreply())}
	s.users[strings.ToLower(login)] = u
	return u
}

// RenameUser gives an account another login; the old one is free again.
func (s *Server) RenameUser(login, to string) error {
	return s.withUser(login, func(u *user) error {
		delete(s.users, strings.ToLower(login))
		u.login = to
		s.users[strings.ToLower(to)] = u
		return nil
	})
}

// AddEmail adds a verified address to an account.
func (s *Server) AddEmail(login, email string) error {
	return s.withUser(login, func(u *user) error {
		u.emails = append(u.emails, strings.ToLower(email))
		return nil
	})
}

// AddSigningKey registers an SSH signing key, in authorized_keys form.
func (s *Server) AddSigningKey(login, authorizedKey string) error {
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(authorizedKey))
	if err != nil {
		return fmt.Errorf("githubsim: read signing key: %w", err)
	}
	return s.withUser(login, func(u *user) error { u.keys = append(u.keys, key); return nil })
}

// SignsForApps says whether commits that the App makes through the API are signed, as
// they are from the start.
func (s *Server) SignsForApps(signs bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsigned = !signs
}

// UserToken returns a token that acts as a person, for REST and for git.
func (s *Server) UserToken(login string) (nod.Secret, error) {
	var made nod.Secret
	err := s.withUser(login, func(u *user) error {
		made = nod.NewSecret(s.mint("ghp", token{user: u}).value)
		return nil
	})
	return made, err
}

// withUser runs f with s.mu held.
func (s *Server) withUser(login string, f func(u *user) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := s.users[strings.ToLower(login)]
	if u == nil {
		return fmt.Errorf("githubsim: no user %q", login)
	}
	return f(u)
}

// withRepo runs f with s.mu held. by may be empty when nobody acts.
func (s *Server) withRepo(by, full string, f func(r *repo, by *user) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.repos[strings.ToLower(full)]
	if r == nil {
		return fmt.Errorf("githubsim: no repository %q", full)
	}
	u := s.users[strings.ToLower(by)]
	if u == nil && by != "" {
		return fmt.Errorf("githubsim: no user %q", by)
	}
	return f(r, u)
}

func (s *Server) withIssue(by, full string, n int, f func(r *repo, i *issue, by *user) error) error {
	return s.withRepo(by, full, func(r *repo, u *user) error {
		i := r.issue(n)
		if i == nil {
			return fmt.Errorf("githubsim: no issue %s#%d", full, n)
		}
		return f(r, i, u)
	})
}

// CreateRepo makes a public repository "owner/name" with files in one commit on
// main. The owner must be a user. The App is installed on the owner's account when
// it was not yet.
func (s *Server) CreateRepo(full string, files map[string]string) error {
	owner, name, _ := strings.Cut(full, "/")
	return s.withUser(owner, func(u *user) error {
		if len(name) > 100 || !nameShape.MatchString(name) || strings.Trim(name, ".") == "" || strings.HasSuffix(name, ".git") {
			return fmt.Errorf("githubsim: %q cannot be a repository", full)
		}
		if s.repos[repoKey(owner, name)] != nil {
			return fmt.Errorf("githubsim: there is a repository %q already", full)
		}
		r := &repo{id: s.id(), owner: u, name: name, branch: "main", roles: map[int64]role{}, created: s.stamp(),
			dir: filepath.Join(s.dir, "repos", strings.ToLower(u.login), strings.ToLower(name)+".git")}
		if _, err := s.git(r.dir, nil, "init", "--quiet", "--bare", "--initial-branch=main", "--template=", r.dir); err != nil {
			return err
		}
		if err := s.commitFiles(r, u, r.branch, "chore: begin\n", ptrs(files)); err != nil {
			return err
		}
		seen, err := s.refs(r)
		if err != nil {
			return err
		}
		r.seen = seen
		s.repos[repoKey(owner, name)] = r
		in := s.installationOf(u)
		if in == nil {
			s.install(u)
			return nil
		}
		s.post("installation_repositories", "added", in.id, 0, obj{"installation": s.installationJSON(in), "sender": s.userJSON(u),
			"repository_selection": "all", "repositories_added": []obj{s.briefRepo(r)}, "repositories_removed": []obj{}})
		return nil
	})
}

func ptrs(files map[string]string) map[string]*string {
	out := map[string]*string{}
	for path, content := range files {
		out[path] = &content
	}
	return out
}

func (s *Server) briefRepo(r *repo) obj {
	return obj{"id": r.id, "node_id": nodeID("R", r.id), "name": r.name, "full_name": r.full(), "private": r.private}
}

// SetPrivate hides a repository from strangers, or shows it.
func (s *Server) SetPrivate(full string, private bool) error {
	return s.withRepo("", full, func(r *repo, _ *user) error { r.private = private; return nil })
}

// Commit puts files on a branch as by, making the branch from the default one where
// it does not exist, and returns the new commit. A nil content removes the file.
func (s *Server) Commit(by, full, branch, message string, files map[string]*string) (string, error) {
	sha := ""
	err := s.withRepo(by, full, func(r *repo, u *user) error {
		if !s.validBranch(branch) {
			return fmt.Errorf("githubsim: %q cannot be a branch", branch)
		}
		if s.head(r, branch) == "" {
			if _, err := s.git(r.dir, nil, "update-ref", "refs/heads/"+branch, "refs/heads/"+r.branch); err != nil {
				return err
			}
		}
		if err := s.commitFiles(r, u, branch, message, files); err != nil {
			return err
		}
		sha = s.head(r, branch)
		return s.observe(r, u)
	})
	return sha, err
}

// SetPermission gives login a role: none, read, triage, write, maintain or admin.
func (s *Server) SetPermission(full, login, role string) error {
	return s.SetCustomRole(full, login, role, role)
}

// SetCustomRole gives login a role with a name of its own, built on base.
func (s *Server) SetCustomRole(full, login, name, base string) error {
	if !slices.Contains(levels, base) {
		return fmt.Errorf("githubsim: no role %q", base)
	}
	return s.withRepo(login, full, func(r *repo, u *user) error {
		r.roles[u.id] = role{name, base}
		return nil
	})
}

// Installation returns the id of the App's installation that reaches full.
func (s *Server) Installation(full string) (int64, error) {
	var id int64
	err := s.withRepo("", full, func(r *repo, _ *user) error {
		in := s.installationOf(r.owner)
		if in == nil {
			return fmt.Errorf("githubsim: the App is not installed for %s", r.owner.login)
		}
		id = in.id
		return nil
	})
	return id, err
}

// Reinstall removes the App from an account and installs it again: the
// installation gets another id, old tokens end.
func (s *Server) Reinstall(login string) (int64, error) {
	if err := s.Uninstall(login); err != nil {
		return 0, err
	}
	var id int64
	err := s.withUser(login, func(u *user) error { id = s.install(u).id; return nil })
	return id, err
}

// Uninstall removes the App from an account.
func (s *Server) Uninstall(login string) error {
	return s.withUser(login, func(u *user) error {
		in := s.installationOf(u)
		if in == nil {
			return fmt.Errorf("githubsim: the App is not installed for %s", login)
		}
		s.emitInstallation(in, u, "deleted")
		s.installations = slices.DeleteFunc(s.installations, func(x *installation) bool { return x == in })
		return nil
	})
}

// install puts the App on an account. The caller holds s.mu.
func (s *Server) install(u *user) *installation {
	in := &installation{id: s.id(), account: u, perms: maps.Clone(s.asked), created: s.stamp()}
	s.installations = append(s.installations, in)
	s.emitInstallation(in, u, "created")
	return in
}

func (s *Server) emitInstallation(in *installation, by *user, action string) {
	list := []obj{}
	for _, r := range s.reposOf(in.account) {
		list = append(list, s.briefRepo(r))
	}
	s.post("installation", action, in.id, 0, obj{"installation": s.installationJSON(in), "repositories": list, "sender": s.userJSON(by)})
}

// Grant sets what an account's installation allows, permission name to level. Live
// tokens keep what they were given, as on GitHub.
func (s *Server) Grant(login string, perms map[string]string) error {
	return s.withUser(login, func(u *user) error {
		in := s.installationOf(u)
		if in == nil {
			return fmt.Errorf("githubsim: the App is not installed for %s", login)
		}
		in.perms = maps.Clone(perms)
		return nil
	})
}

// Suspend switches an account's installation off, or on again.
func (s *Server) Suspend(login string, suspended bool) error {
	return s.withUser(login, func(u *user) error {
		in := s.installationOf(u)
		if in == nil {
			return fmt.Errorf("githubsim: the App is not installed for %s", login)
		}
		in.suspended = suspended
		s.emitInstallation(in, u, map[bool]string{true: "suspend", false: "unsuspend"}[suspended])
		return nil
	})
}
