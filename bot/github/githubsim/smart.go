package githubsim

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// maxPush is how many bytes one push may send.
const maxPush = 1 << 30

// isGit reports whether rest, the path after the owner, is a smart HTTP request.
func isGit(rest string) bool {
	_, service, _ := strings.Cut(rest, "/")
	return service == "info/refs" || service == "git-upload-pack" || service == "git-receive-pack"
}

// serveGit serves clone and push through git http-backend. A token comes as the
// password of basic authentication; public repositories can be read without one.
func (s *Server) serveGit(w http.ResponseWriter, r *http.Request) {
	owner, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	name, service, _ := strings.Cut(rest, "/")
	name = strings.TrimSuffix(name, ".git")
	push := service == "git-receive-pack" || r.URL.Query().Get("service") == "git-receive-pack"

	repo, by, refusal := s.admitGit(r, owner, name, push)
	if refusal != nil {
		if refusal.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Basic realm="GitHub"`)
		}
		http.Error(w, refusal.msg, refusal.status)
		return
	}
	backend, err := gitBackend()
	if err != nil {
		s.log.Error("git http-backend is missing", "err", err)
		http.Error(w, "git is not available", http.StatusInternalServerError)
		return
	}
	h := &cgi.Handler{Path: backend, Root: "/", Dir: s.dir, InheritEnv: []string{}, Logger: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		Stderr: io.Discard, Env: append(s.gitEnv(), "GIT_PROJECT_ROOT="+repo.dir, "GIT_HTTP_EXPORT_ALL=1")}
	r = r.Clone(r.Context())
	r.URL.Path, r.URL.RawPath = "/"+service, ""
	r.Header.Del("Authorization")
	if by != nil {
		h.Env = append(h.Env, "REMOTE_USER="+by.login)
	}
	if err := s.spool(w, r); err != nil {
		http.Error(w, "the request is too large or was cut", http.StatusBadRequest)
		return
	}
	defer func() { _ = r.Body.Close() }() // a spooled body is removed already
	if service != "git-receive-pack" {
		h.ServeHTTP(w, r)
		return
	}
	h.ServeHTTP(w, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.observe(repo, by); err != nil {
		s.log.Error("look at a push", "repo", repo.full(), "err", err)
	}
}

// admitGit finds the repository and says who may reach it how.
func (s *Server) admitGit(r *http.Request, owner, name string, push bool) (*repo, *user, *apiError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, err := s.identify(r)
	if err != nil || id.app {
		return nil, nil, errBadCredentials
	}
	repo := s.repos[repoKey(owner, name)]
	n := need{name: "contents", level: "read"}
	if push {
		n.level = "write"
	}
	switch {
	case id.token == nil && repo != nil && !repo.private && !push:
		return repo, nil, nil
	case id.token == nil:
		return nil, nil, errRequiresAuth
	}
	if err := s.tokenMay(id.token, repo, n); err != nil {
		var e *apiError
		if errors.As(err, &e) {
			return nil, nil, e
		}
		return nil, nil, errIntegration
	}
	return repo, id.token.user, nil
}

// spool gives r a body of known length: CGI takes no chunked requests, and git
// sends large packs in chunks.
func (s *Server) spool(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxPush)
	if r.ContentLength >= 0 {
		return nil
	}
	f, err := os.CreateTemp(filepath.Join(s.dir, "spool"), "push-")
	if err != nil {
		return err
	}
	if err := os.Remove(f.Name()); err != nil {
		return errors.Join(err, f.Close())
	}
	n, err := io.Copy(f, r.Body)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r.Body, r.ContentLength, r.TransferEncoding = f, n, nil
	return nil
}

func gitBackend() (string, error) {
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		return "", err
	}
	path := filepath.Join(strings.TrimSpace(string(out)), "git-http-backend")
	_, err = os.Stat(path)
	return path, err
}
