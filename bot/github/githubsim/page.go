package githubsim

import (
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

//go:embed page
var pageFiles embed.FS

// pageCSP lets a page load its own style sheet and post to its own server, and
// nothing else.
const pageCSP = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// maxDiff is how many bytes of a diff a page shows.
const maxDiff = 512 << 10

// pages renders what a person sees. Everything that people wrote is escaped by
// html/template, or by markdown.
type pages struct {
	s    *Server
	tmpl *template.Template
}

func (s *Server) webMux() (http.Handler, error) {
	p := &pages{s: s}
	var err error
	if p.tmpl, err = template.New("").ParseFS(pageFiles, "page/*.html"); err != nil {
		return nil, err
	}
	assets, err := fs.Sub(pageFiles, "page")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /assets/sim.css", http.StripPrefix("/assets/", http.FileServerFS(assets)))
	mux.HandleFunc("GET /{$}", p.show("home", p.home))
	mux.HandleFunc("GET /{owner}/{repo}", p.show("repo", p.repo))
	mux.HandleFunc("GET /{owner}/{repo}/issues/{number}", p.show("issue", p.issue))
	mux.HandleFunc("GET /{owner}/{repo}/pull/{number}", p.show("pull", p.pull))
	mux.HandleFunc("GET /assets/logs/{owner}/{repo}/{id}", s.serveLog)
	mux.HandleFunc("POST /{owner}/{repo}/issues", p.act(p.open))
	mux.HandleFunc("POST /{owner}/{repo}/issues/{number}/labels", p.act(p.label))
	mux.HandleFunc("POST /{owner}/{repo}/issues/{number}/comments", p.act(p.comment))
	mux.HandleFunc("POST /{owner}/{repo}/issues/{number}/state", p.act(p.state))
	mux.HandleFunc("POST /{owner}/{repo}/pull/{number}/merge", p.act(p.merge))
	return pageHeaders(http.NewCrossOriginProtection().Handler(mux)), nil
}

func pageHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", pageCSP)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		if r.Method != http.MethodGet && !localName(r.Host) {
			http.Error(w, "forms are taken on this machine's own names only", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// localName reports whether host means this machine. A page elsewhere whose name was
// made to resolve to here is of the same origin to a browser; its Host gives it away.
func localName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}

// view is what a template gets.
type pageView struct {
	Title   string
	Me      string // who the forms act as; empty: there are none
	Repos   []repoView
	Repo    repoView
	Issue   issueView
	Commits []commitView
	Files   []fileView
	Cut     bool // the diff is longer
}

type repoView struct {
	Full, Clone   string
	Issues, Pulls []issueView
}

type issueView struct {
	IssueView
	Text      template.HTML
	Talk      []commentView
	URL, API  string
	State     string // Open, Closed, Merged, Draft
	Labelled  []string
	HasPull   bool
	Mergeable bool
}

type commentView struct {
	CommentView
	Text template.HTML
}

type commitView struct {
	SHA, Short, Subject, Author string
	Verified                    bool
	Reason                      string
}

type pageFunc func(r *http.Request, by *user, v *pageView) error

// show renders a page with s.mu held while its data is gathered.
func (p *pages) show(name string, gather pageFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := pageView{Me: p.s.webUser}
		p.s.mu.Lock()
		err := gather(r, p.s.users[strings.ToLower(p.s.webUser)], &v)
		p.s.mu.Unlock()
		if err != nil {
			pageError(w, err)
			return
		}
		var out strings.Builder
		if err := p.tmpl.ExecuteTemplate(&out, name+".html", v); err != nil {
			p.s.log.Error("render a page", "page", name, "err", err)
			http.Error(w, "the page cannot be shown", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(out.String())) // the reader may be gone already
	}
}

// act does what a form asks, as the web user, and goes back to the page.
func (p *pages) act(do func(r *http.Request, by *user, repo *repo, i *issue) (*issue, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		if err := r.ParseForm(); err != nil {
			http.Error(w, "the form cannot be read", http.StatusBadRequest)
			return
		}
		p.s.mu.Lock()
		defer p.s.mu.Unlock()
		by := p.s.users[strings.ToLower(p.s.webUser)]
		if by == nil {
			http.Error(w, "nobody is signed in", http.StatusForbidden)
			return
		}
		repo, i, err := p.find(r, by)
		if err == nil {
			i, err = do(r, by, repo, i)
		}
		if err != nil {
			pageError(w, err)
			return
		}
		http.Redirect(w, r, path(repo, i), http.StatusSeeOther)
	}
}

func pageError(w http.ResponseWriter, err error) {
	var e *apiError
	if !errors.As(err, &e) {
		http.Error(w, "something went wrong", http.StatusInternalServerError)
		return
	}
	http.Error(w, e.msg, e.status)
}

// find returns the repository and, where the path has a number, the issue.
func (p *pages) find(r *http.Request, by *user) (*repo, *issue, error) {
	repo := p.s.repos[repoKey(r.PathValue("owner"), r.PathValue("repo"))]
	if repo == nil || repo.roleOf(by).level() == 0 {
		return nil, nil, errNotFound
	}
	if r.PathValue("number") == "" {
		return repo, nil, nil
	}
	i := repo.issue(atoi(r.PathValue("number")))
	if i == nil {
		return nil, nil, errNotFound
	}
	return repo, i, nil
}

func (p *pages) home(_ *http.Request, by *user, v *pageView) error {
	v.Title = "Repositories"
	for _, r := range p.s.repos {
		if r.roleOf(by).level() > 0 {
			v.Repos = append(v.Repos, p.repoView(r))
		}
	}
	slices.SortFunc(v.Repos, func(a, b repoView) int { return strings.Compare(a.Full, b.Full) })
	return nil
}

func (p *pages) repoView(r *repo) repoView {
	v := repoView{Full: r.full(), Clone: p.s.base + "/" + r.full() + ".git"}
	for _, i := range slices.Backward(r.issues) {
		if i.pull != nil {
			v.Pulls = append(v.Pulls, shownIssue(r, i))
			continue
		}
		v.Issues = append(v.Issues, shownIssue(r, i))
	}
	return v
}

// path is where the page of an issue or a pull request is.
func path(r *repo, i *issue) string {
	kind := "issues"
	if i.pull != nil {
		kind = "pull"
	}
	return "/" + r.full() + "/" + kind + "/" + strconv.Itoa(i.number)
}

func shownIssue(r *repo, i *issue) issueView {
	v := issueView{IssueView: view(i), State: "Open", HasPull: i.pull != nil}
	ref := func(n int) string {
		if other := r.issue(n); other != nil {
			return path(r, other)
		}
		return ""
	}
	v.Text = markdown(v.Body, ref)
	for _, c := range v.Comments {
		v.Talk = append(v.Talk, commentView{c, markdown(c.Body, ref)})
	}
	v.API = "/" + r.full() + "/issues/" + strconv.Itoa(i.number)
	v.URL = path(r, i)
	switch {
	case i.pull != nil && i.pull.merged:
		v.State = "Merged"
	case i.closed:
		v.State = "Closed"
	case i.pull != nil && i.pull.draft:
		v.State = "Draft"
	}
	if i.pull != nil {
		v.Mergeable = !i.closed
	}
	for _, l := range r.labels {
		if i.has(l.name) < 0 {
			v.Labelled = append(v.Labelled, l.name)
		}
	}
	return v
}

func (p *pages) repo(r *http.Request, by *user, v *pageView) error {
	repo, _, err := p.find(r, by)
	if err != nil {
		return err
	}
	v.Title, v.Repo = repo.full(), p.repoView(repo)
	return nil
}

func (p *pages) issue(r *http.Request, by *user, v *pageView) error {
	repo, i, err := p.find(r, by)
	if err != nil {
		return err
	}
	v.Title, v.Repo, v.Issue = i.title, repoView{Full: repo.full()}, shownIssue(repo, i)
	return nil
}

func (p *pages) pull(r *http.Request, by *user, v *pageView) error {
	repo, i, err := p.find(r, by)
	if err != nil {
		return err
	}
	if i.pull == nil {
		return errNotFound
	}
	v.Title, v.Repo, v.Issue = i.title, repoView{Full: repo.full()}, shownIssue(repo, i)
	list, err := p.s.commits(repo, i.pull.baseSHA, i.pull.headSHA)
	if err != nil {
		return err
	}
	for _, c := range list {
		verdict := p.s.verify(c)
		subject, _, _ := strings.Cut(c.message, "\n")
		v.Commits = append(v.Commits, commitView{c.sha, c.sha[:7], subject, c.author.name, verdict.ok, verdict.reason})
	}
	diff, err := p.s.git(repo.dir, nil, "diff", "--no-color", "--no-ext-diff", "--no-textconv", "-M", i.pull.baseSHA+"..."+i.pull.headSHA, "--")
	if err != nil {
		return err
	}
	v.Cut = len(diff) > maxDiff
	v.Files = parseDiff(string(diff[:min(len(diff), maxDiff)]))
	return nil
}

var errMustTriage = &apiError{status: http.StatusForbidden, msg: "You may not do that in this repository"}

func (p *pages) open(r *http.Request, by *user, repo *repo, _ *issue) (*issue, error) {
	return p.s.openIssue(repo, by, r.PostFormValue("title"), r.PostFormValue("body"))
}

func (p *pages) label(r *http.Request, by *user, repo *repo, i *issue) (*issue, error) {
	if repo.roleOf(by).level() < 2 {
		return nil, errMustTriage
	}
	name := strings.TrimSpace(r.PostFormValue("name"))
	if r.PostFormValue("do") == "remove" {
		p.s.dropLabel(repo, i, by, name)
		return i, nil
	}
	return i, p.s.setLabel(repo, i, by, name)
}

func (p *pages) comment(r *http.Request, by *user, repo *repo, i *issue) (*issue, error) {
	_, err := p.s.addComment(repo, i, by, r.PostFormValue("body"))
	return i, err
}

func (p *pages) state(r *http.Request, by *user, repo *repo, i *issue) (*issue, error) {
	if repo.roleOf(by).level() < 2 && by != i.author {
		return nil, errMustTriage
	}
	return i, p.s.setState(repo, i, by, r.PostFormValue("do") == "close")
}

// merge is the button of a person who has looked at the diff: it also takes a draft.
func (p *pages) merge(r *http.Request, by *user, repo *repo, i *issue) (*issue, error) {
	if i.pull == nil || repo.roleOf(by).level() < 3 {
		return nil, errNotFound
	}
	if seen := r.PostFormValue("head"); seen != i.pull.headSHA {
		return nil, &apiError{status: http.StatusConflict, msg: "The head moved since the page was shown. Look at it again."}
	}
	p.s.ready(repo, i, by)
	return i, p.s.merge(repo, i, by)
}
