package githubsim

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// maxBody is how long a JSON request may be, in bytes.
const maxBody = 44 << 20

// apiError is an error in GitHub's JSON shape.
type apiError struct {
	status int
	msg    string
	errors []obj
	retry  string // Retry-After
}

func (e *apiError) Error() string { return e.msg }

var (
	errBadCredentials = &apiError{status: http.StatusUnauthorized, msg: "Bad credentials"}
	errRequiresAuth   = &apiError{status: http.StatusUnauthorized, msg: "Requires authentication"}
	errNotFound       = &apiError{status: http.StatusNotFound, msg: "Not Found"}
	errIntegration    = &apiError{status: http.StatusForbidden, msg: "Resource not accessible by integration"}
)

// invalid is GitHub's 422.
func invalid(resource, field, code, msg string) *apiError {
	e := obj{"resource": resource, "field": field, "code": code}
	if msg != "" {
		e["message"] = msg
	}
	return &apiError{status: http.StatusUnprocessableEntity, msg: "Validation Failed", errors: []obj{e}}
}

func writeError(w http.ResponseWriter, err error) {
	var e *apiError
	if !errors.As(err, &e) {
		e = &apiError{status: http.StatusInternalServerError, msg: "Server Error"}
	}
	body := obj{"message": e.msg, "documentation_url": "https://docs.github.com/rest", "status": strconv.Itoa(e.status)}
	if e.errors != nil {
		body["errors"] = e.errors
	}
	if e.retry != "" {
		w.Header().Set("Retry-After", e.retry)
	}
	writeJSON(w, e.status, body)
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		status, raw = http.StatusInternalServerError, []byte(`{"message":"Server Error"}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-GitHub-Media-Type", "github.v3; format=json")
	w.WriteHeader(status)
	if status != http.StatusNoContent {
		_, _ = w.Write(append(raw, '\n')) // the client may be gone already
	}
}

// call is one API request under way. The server's mutex is held while it is handled.
type call struct {
	*Server
	w    http.ResponseWriter
	r    *http.Request
	by   *user // who acts; nil for the App itself and for strangers
	id   identity
	repo *repo // of /repos/{owner}/{repo}/…

	meter *meter // of whoever calls
}

// need is what a route asks of the caller.
type need struct {
	app         bool   // the App's own JWT
	open        bool   // anyone
	name, level string // permission of the repository in the path
	alt         string // a permission that does as well, at the same level
	anyone      bool   // a person who can read may do it, too
}

type handler func(c *call) (status int, body any, err error)

func (s *Server) route(mux *http.ServeMux, pattern string, n need, h handler) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		s.mu.Lock()
		defer s.mu.Unlock()
		c := &call{Server: s, w: w, r: r}
		w.Header().Set("Date", s.now().UTC().Format(http.TimeFormat))
		err := c.admit(n)
		if err == nil {
			err = c.spend()
		}
		if err != nil {
			writeError(w, err)
			return
		}
		status, body, err := h(c)
		if err != nil {
			s.log.Debug("api call refused", "method", r.Method, "path", r.URL.Path, "err", err)
			writeError(w, err)
			return
		}
		if !c.unchanged(status, body) {
			writeJSON(w, status, body)
		}
	})
}

// admit fills in who acts on what, or refuses as GitHub does: a private repository
// that the caller cannot see does not exist.
func (c *call) admit(n need) error {
	var err error
	if c.id, err = c.identify(c.r); err != nil {
		return err
	}
	c.by = c.id.user()
	if n.app {
		if !c.id.app {
			return errJWT("A JSON web token could not be decoded")
		}
		if c.r.PathValue("repo") == "" {
			return nil
		}
		if c.repo = c.repos[repoKey(c.r.PathValue("owner"), c.r.PathValue("repo"))]; c.repo == nil {
			return errNotFound
		}
		return nil
	}
	if c.id.app {
		return errJWT("A JSON web token could not be decoded")
	}
	if n.open {
		return nil
	}
	if c.id.token == nil {
		return errRequiresAuth
	}
	if c.r.PathValue("repo") == "" {
		return nil
	}
	c.repo = c.repos[repoKey(c.r.PathValue("owner"), c.r.PathValue("repo"))]
	return c.tokenMay(c.id.token, c.repo, n)
}

// tokenMay checks what t may do in r, which is nil where there is none.
func (s *Server) tokenMay(t *token, r *repo, n need) error {
	if r == nil {
		return errNotFound
	}
	if t.inst == nil {
		level := r.roleOf(t.user).level()
		switch {
		case level == 0:
			return errNotFound
		case n.level == "read", n.anyone:
			return nil
		case n.name == "issues" && level >= 2, level >= 3:
			return nil
		}
		return &apiError{status: http.StatusForbidden, msg: "Must have push access to Repository"}
	}
	reaches := t.inst.account == r.owner
	if t.repos != nil {
		reaches = false
		for _, id := range t.repos {
			reaches = reaches || id == r.id
		}
	}
	if !reaches && r.private {
		return errNotFound
	}
	if reaches && (t.perms.covers(n.name, n.level) || n.alt != "" && t.perms.covers(n.alt, n.level)) {
		return nil
	}
	return errIntegration
}

func (c *call) int(name string) int {
	n, err := strconv.Atoi(c.r.PathValue(name))
	if err != nil {
		return -1
	}
	return n
}

// decode reads the JSON body into v. An empty body leaves v as it is.
func (c *call) decode(v any) error {
	if c.r.ContentLength == 0 {
		return nil
	}
	if err := json.NewDecoder(c.r.Body).Decode(v); err != nil {
		return &apiError{status: http.StatusBadRequest, msg: "Problems parsing JSON"}
	}
	return nil
}

// issue returns the issue or pull request of {number}.
func (c *call) issue() (*issue, error) {
	if i := c.repo.issue(c.int("number")); i != nil {
		return i, nil
	}
	return nil, errNotFound
}

// paginate cuts items to the page asked for (30 a page, at most 100) and sets Link.
func paginate[T any](c *call, items []T) []T {
	q := c.r.URL.Query()
	page, per := max(1, atoi(q.Get("page"))), atoi(q.Get("per_page"))
	if per < 1 {
		per = 30
	}
	per = min(per, 100)
	last := max(1, (len(items)+per-1)/per)
	var links []string
	link := func(rel string, n int) {
		q.Set("page", strconv.Itoa(n))
		links = append(links, fmt.Sprintf(`<http://%s%s?%s>; rel="%s"`, c.r.Host, c.r.URL.Path, q.Encode(), rel))
	}
	if page > 1 {
		link("prev", page-1)
	}
	if page < last {
		link("next", page+1)
		link("last", last)
	}
	if page > 1 {
		link("first", 1)
	}
	if links != nil {
		c.w.Header().Set("Link", strings.Join(links, ", "))
	}
	from := min(len(items), (page-1)*per)
	return items[from:min(len(items), from+per)]
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

func repoKey(owner, name string) string { return strings.ToLower(owner + "/" + name) }

// apiMux is the whole REST API, each route with what it asks of the caller.
func (s *Server) apiMux() http.Handler {
	mux := http.NewServeMux()
	app := need{app: true}
	meta := need{name: "metadata", level: "read"}
	readCode, writeCode := need{name: "contents", level: "read"}, need{name: "contents", level: "write"}
	readIssue := need{name: "issues", level: "read", alt: "pull_requests"}
	writeIssue := need{name: "issues", level: "write", alt: "pull_requests"}
	writeOnlyIssue := need{name: "issues", level: "write"}
	comment := need{name: "issues", level: "write", alt: "pull_requests", anyone: true}
	readPull, writePull := need{name: "pull_requests", level: "read"}, need{name: "pull_requests", level: "write"}
	at := func(pattern string, n need, h handler) { s.route(mux, pattern, n, h) }

	at("POST /app-manifests/{code}/conversions", need{open: true}, convert)
	at("GET /app", app, getApp)
	at("GET /app/installations", app, listInstallations)
	at("GET /app/installations/{id}", app, getInstallation)
	at("POST /app/installations/{id}/access_tokens", app, createToken)
	at("GET /app/hook/config", app, getHookConfig)
	at("PATCH /app/hook/config", app, setHookConfig)
	at("GET /app/hook/deliveries", app, listDeliveries)
	at("GET /app/hook/deliveries/{id}", app, getDelivery)
	at("POST /app/hook/deliveries/{id}/attempts", app, redeliver)
	at("GET /repos/{owner}/{repo}/installation", app, repoInstallation)
	at("GET /installation/repositories", need{}, installationRepos)
	at("DELETE /installation/token", need{}, revokeToken)
	at("GET /users/{login}", need{open: true}, getUser)
	at("GET /user/{id}", need{open: true}, getUserByID)

	at("GET /repos/{owner}/{repo}", meta, getRepo)
	at("GET /repos/{owner}/{repo}/collaborators/{login}/permission", meta, getPermission)
	at("GET /repos/{owner}/{repo}/hooks", need{name: "repository_hooks", level: "read"}, listRepoHooks)
	at("GET /repos/{owner}/{repo}/labels", readIssue, listLabels)
	at("POST /repos/{owner}/{repo}/labels", writeIssue, createLabel)
	at("GET /repos/{owner}/{repo}/labels/{name}", readIssue, getLabel)

	at("GET /repos/{owner}/{repo}/issues", need{name: "issues", level: "read"}, listIssues)
	at("GET /repos/{owner}/{repo}/issues/events", need{name: "issues", level: "read"}, listRepoEvents)
	at("GET /repos/{owner}/{repo}/issues/comments", need{name: "issues", level: "read"}, listRepoComments)
	at("POST /repos/{owner}/{repo}/issues", need{name: "issues", level: "write", anyone: true}, createIssue)
	at("GET /repos/{owner}/{repo}/issues/{number}", readIssue, getIssue)
	at("PATCH /repos/{owner}/{repo}/issues/{number}", writeOnlyIssue, editIssue)
	at("GET /repos/{owner}/{repo}/issues/{number}/events", readIssue, listEvents)
	at("GET /repos/{owner}/{repo}/issues/{number}/labels", readIssue, listIssueLabels)
	at("POST /repos/{owner}/{repo}/issues/{number}/labels", writeIssue, addLabels)
	at("DELETE /repos/{owner}/{repo}/issues/{number}/labels/{name}", writeIssue, removeLabel)
	at("GET /repos/{owner}/{repo}/issues/{number}/comments", readIssue, listComments)
	at("POST /repos/{owner}/{repo}/issues/{number}/comments", comment, createComment)
	at("GET /repos/{owner}/{repo}/issue-comments/{id}", readIssue, getComment)
	at("PATCH /repos/{owner}/{repo}/issue-comments/{id}", writeIssue, editComment)
	at("DELETE /repos/{owner}/{repo}/issue-comments/{id}", writeIssue, deleteComment)
	at("POST /repos/{owner}/{repo}/issue-comments/{id}/reactions", writeIssue, createReaction)

	at("GET /repos/{owner}/{repo}/pulls", readPull, listPulls)
	at("POST /repos/{owner}/{repo}/pulls", writePull, createPull)
	at("GET /repos/{owner}/{repo}/pulls/{number}", readPull, getPull)
	at("PATCH /repos/{owner}/{repo}/pulls/{number}", writePull, editPull)
	at("GET /repos/{owner}/{repo}/pulls/{number}/commits", readPull, listPullCommits)

	at("GET /repos/{owner}/{repo}/pulls/{number}/reviews", readPull, listReviews)
	at("GET /repos/{owner}/{repo}/pulls/{number}/reviews/{id}", readPull, getReview)
	at("GET /repos/{owner}/{repo}/pulls/{number}/reviews/{id}/comments", readPull, listReviewComments)
	readCheck, writeCheck := need{name: "checks", level: "read"}, need{name: "checks", level: "write"}
	at("GET /repos/{owner}/{repo}/commits/{sha}/check-runs", readCheck, listChecks)
	at("GET /repos/{owner}/{repo}/commits/{sha}/check-suites", readCheck, listSuites)
	at("POST /repos/{owner}/{repo}/check-runs", writeCheck, createCheck)
	at("PATCH /repos/{owner}/{repo}/check-runs/{id}", writeCheck, updateCheck)
	at("GET /repos/{owner}/{repo}/actions/jobs/{id}/logs", need{name: "actions", level: "read"}, jobLog)
	at("POST /repos/{owner}/{repo}/pulls/{number}/requested_reviewers", writePull, requestReviewers)
	at("GET /repos/{owner}/{repo}/rules/branches/{branch...}", meta, branchRules)
	at("GET /repos/{owner}/{repo}/branches", readCode, listBranches)
	at("GET /repos/{owner}/{repo}/branches/{branch...}", readCode, getBranch)
	at("GET /repos/{owner}/{repo}/git/ref/{ref...}", readCode, getRef)
	at("GET /repos/{owner}/{repo}/git/matching-refs/{ref...}", readCode, matchingRefs)
	at("POST /repos/{owner}/{repo}/git/refs", writeCode, createRef)
	at("PATCH /repos/{owner}/{repo}/git/refs/{ref...}", writeCode, updateRef)
	at("DELETE /repos/{owner}/{repo}/git/refs/{ref...}", writeCode, deleteRef)
	at("POST /repos/{owner}/{repo}/git/blobs", writeCode, createBlob)
	at("POST /repos/{owner}/{repo}/git/trees", writeCode, createTree)
	at("POST /repos/{owner}/{repo}/git/commits", writeCode, createGitCommit)
	at("GET /repos/{owner}/{repo}/git/commits/{sha}", readCode, getGitCommit)
	at("GET /repos/{owner}/{repo}/commits/{ref...}", readCode, getCommit)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { writeError(w, errNotFound) })
	return mux
}
