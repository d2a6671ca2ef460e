package githubsim

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// checkRun is one check of a commit, by the App itself or by one of those that run
// checks on their own account.
type checkRun struct {
	id, suite                                int64
	app                                      checkApp
	name, sha, external, link                string
	status, conclusion, title, summary, text string
	log                                      string
	started, completed                       time.Time
}

// checkSuite is a completed suite of checks by another App.
type checkSuite struct {
	id                      int64
	app                     checkApp
	branch, sha, conclusion string
	runs                    int
	at                      time.Time
}

func (s *Server) suiteJSON(r *repo, k *checkSuite) obj {
	api := fmt.Sprintf("%s/check-suites/%d", s.repoURL(r), k.id)
	return obj{"id": k.id, "node_id": nodeID("CS", k.id), "head_branch": k.branch, "head_sha": k.sha, "status": "completed", "conclusion": k.conclusion,
		"app": s.checkAppJSON(k.app), "pull_requests": []obj{}, "before": zeroSHA, "after": k.sha, "url": api, "created_at": when(k.at), "updated_at": when(k.at)}
}

// listSuites lists the suites of a commit, newest first, with what a webhook leaves out.
func listSuites(c *call) (int, any, error) {
	tip, err := c.commit(c.repo, c.r.PathValue("sha"))
	if err != nil {
		return 0, nil, errNotFound
	}
	out := []obj{}
	for _, k := range slices.Backward(c.repo.suites) {
		if k.sha != tip.sha {
			continue
		}
		one := c.suiteJSON(c.repo, k)
		one["repository"], one["head_commit"] = c.repoJSON(c.repo), c.pushCommit(c.repo, tip)
		one["latest_check_runs_count"], one["check_runs_url"] = k.runs, fmt.Sprintf("%s/check-suites/%d/check-runs", c.repoURL(c.repo), k.id)
		out = append(out, one)
	}
	return http.StatusOK, obj{"total_count": len(out), "check_suites": paginate(c, out)}, nil
}

// checkApp is an App that runs checks.
type checkApp struct {
	id   int64
	slug string
}

// CheckResult is one check of a suite.
type CheckResult struct {
	Name, Conclusion, Title, Summary string
	Log                              string // of a workflow's job
}

// CompleteSuite reports a suite of checks by another App, such as "github-actions", on a
// commit of a branch. Like on GitHub the report is sent as by whoever pushed.
func (s *Server) CompleteSuite(by, full, branch, sha, app, conclusion string, checks ...CheckResult) error {
	return s.withRepo(by, full, func(r *repo, u *user) error {
		if got, err := s.resolve(r, sha); err != nil || got != sha {
			return fmt.Errorf("githubsim: no commit %q", sha)
		}
		suite, as := s.id(), checkApp{1, app}
		for _, c := range checks {
			r.checks = append(r.checks, &checkRun{id: s.id(), suite: suite, app: as, name: c.Name, sha: sha, status: "completed", conclusion: c.Conclusion,
				title: c.Title, summary: c.Summary, log: c.Log, started: s.stamp(), completed: s.stamp()})
		}
		k := &checkSuite{id: suite, app: as, branch: branch, sha: sha, conclusion: conclusion, runs: len(checks), at: s.stamp()}
		r.suites = append(r.suites, k)
		s.emit(r, u, "check_suite", "completed", obj{"check_suite": s.suiteJSON(r, k)})
		return nil
	})
}

// CheckView is a check run as it is now.
type CheckView struct {
	Name, SHA, App, Status, Conclusion, Title, Summary string
}

// Checks returns every check run of a repository, oldest first.
func (s *Server) Checks(full string) ([]CheckView, error) {
	var out []CheckView
	err := s.withRepo("", full, func(r *repo, _ *user) error {
		for _, c := range r.checks {
			out = append(out, CheckView{c.name, c.sha, c.app.slug, c.status, c.conclusion, c.title, c.summary})
		}
		return nil
	})
	return out, err
}

func (s *Server) checkAppJSON(a checkApp) obj {
	out := s.appJSON()
	out["id"], out["slug"], out["name"], out["node_id"] = a.id, a.slug, a.slug, nodeID("A", a.id)
	return out
}

func (s *Server) checkJSON(r *repo, k *checkRun) obj {
	html := fmt.Sprintf("%s/%s/runs/%d", s.base, r.full(), k.id)
	api := fmt.Sprintf("%s/check-runs/%d", s.repoURL(r), k.id)
	out := obj{"id": k.id, "node_id": nodeID("CR", k.id), "name": k.name, "head_sha": k.sha, "external_id": k.external, "url": api, "html_url": html,
		"details_url": html, "status": k.status, "conclusion": nil, "started_at": when(k.started), "completed_at": when(k.completed),
		"check_suite": obj{"id": k.suite}, "app": s.checkAppJSON(k.app), "pull_requests": []obj{},
		"output": obj{"title": k.title, "summary": k.summary, "text": nil, "annotations_count": 0, "annotations_url": api + "/annotations"}}
	if k.link != "" {
		out["details_url"] = k.link
	}
	if k.conclusion != "" {
		out["conclusion"] = k.conclusion
	}
	return out
}

// listChecks lists the newest check run of each App and name for a commit, newest
// first.
func listChecks(c *call) (int, any, error) {
	q := c.r.URL.Query()
	out, seen := []obj{}, map[string]bool{}
	for _, k := range slices.Backward(c.repo.checks) {
		key := k.app.slug + "/" + k.name
		if k.sha != c.r.PathValue("sha") || q.Get("check_name") != "" && q.Get("check_name") != k.name || seen[key] && q.Get("filter") != "all" {
			continue
		}
		seen[key] = true
		out = append(out, c.checkJSON(c.repo, k))
	}
	return http.StatusOK, obj{"total_count": len(out), "check_runs": paginate(c, out)}, nil
}

// checkInput is what is said when a check run is made or changed.
type checkInput struct {
	Name       string
	HeadSHA    string  `json:"head_sha"`
	DetailsURL string  `json:"details_url"`
	ExternalID string  `json:"external_id"`
	Status     string  `json:"status"`
	Conclusion *string `json:"conclusion"`
	Output     *struct{ Title, Summary, Text string }
}

func (c *call) setCheck(k *checkRun, in checkInput) error {
	if in.Output != nil {
		for field, text := range map[string]string{"summary": in.Output.Summary, "text": in.Output.Text} {
			if len([]rune(text)) >= MaxText {
				return invalid("CheckRun", field, "custom", field+" exceeds a maximum length of 65535 characters")
			}
		}
		k.title, k.summary, k.text = in.Output.Title, in.Output.Summary, in.Output.Text
	}
	k.link, k.external = in.DetailsURL, in.ExternalID
	if k.status = in.Status; k.status == "" {
		k.status = "queued"
	}
	k.conclusion, k.completed = "", time.Time{}
	if in.Conclusion != nil {
		k.status, k.conclusion, k.completed = "completed", *in.Conclusion, c.stamp()
	}
	if k.status == "completed" && k.conclusion == "" {
		return invalid("CheckRun", "conclusion", "missing_field", "")
	}
	return nil
}

func createCheck(c *call) (int, any, error) {
	var in checkInput
	if err := c.decode(&in); err != nil {
		return 0, nil, err
	}
	if got, err := c.resolve(c.repo, in.HeadSHA); err != nil || got != in.HeadSHA || in.Name == "" {
		return 0, nil, &apiError{status: http.StatusUnprocessableEntity, msg: "No commit found for SHA: " + in.HeadSHA}
	}
	k := &checkRun{id: c.Server.id(), suite: c.Server.id(), app: checkApp{c.app.id, c.app.slug}, name: in.Name, sha: in.HeadSHA, started: c.stamp()}
	if err := c.setCheck(k, in); err != nil {
		return 0, nil, err
	}
	c.repo.checks = append(c.repo.checks, k)
	return http.StatusCreated, c.checkJSON(c.repo, k), nil
}

// updateCheck changes a check run of the App's own.
func updateCheck(c *call) (int, any, error) {
	for _, k := range c.repo.checks {
		if k.id != int64(c.int("id")) {
			continue
		}
		if k.app.id != c.app.id {
			return 0, nil, &apiError{status: http.StatusForbidden, msg: "Invalid app_id `" + strconv.FormatInt(c.app.id, 10) + "` - check run can only be modified by the GitHub App that created it."}
		}
		var in checkInput
		if err := c.decode(&in); err != nil {
			return 0, nil, err
		}
		if err := c.setCheck(k, in); err != nil {
			return 0, nil, err
		}
		return http.StatusOK, c.checkJSON(c.repo, k), nil
	}
	return 0, nil, errNotFound
}

// jobLog answers with an address that needs no token, as GitHub does.
func jobLog(c *call) (int, any, error) {
	for _, k := range c.repo.checks {
		if k.id == int64(c.int("id")) && k.log != "" {
			c.w.Header().Set("Location", fmt.Sprintf("%s/assets/logs/%s/%d", c.base, c.repo.full(), k.id))
			return http.StatusFound, nil, nil
		}
	}
	return 0, nil, errNotFound
}

// serveLog is that address.
func (s *Server) serveLog(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if repo := s.repos[repoKey(r.PathValue("owner"), r.PathValue("repo"))]; repo != nil {
		for _, k := range repo.checks {
			if strconv.FormatInt(k.id, 10) == r.PathValue("id") && k.log != "" {
				if r.Header.Get("Authorization") != "" { // GitHub's storage refuses what it is not meant to see
					http.Error(w, "InvalidAuthenticationInfo", http.StatusBadRequest)
					return
				}
				w.Header().Set("Content-Type", "text/plain; charset=utf-8")
				_, _ = w.Write([]byte(k.log)) // the reader may be gone already
				return
			}
		}
	}
	http.NotFound(w, r)
}
