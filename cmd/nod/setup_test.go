package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"nod"
	"nod/bot/github/githubsim"
)

// setupRun is nod setup github under way, and a browser that knows nothing but what it
// is shown.
type setupRun struct {
	*testing.T
	sim     *githubsim.Server
	base    string
	dir     string
	out     bytes.Buffer
	talk    bytes.Buffer
	address string
	ended   chan error
	talked  chan struct{} // closed when nothing more comes into talk
}

func startSetup(t *testing.T, args ...string) *setupRun {
	t.Helper()
	r := &setupRun{T: t, dir: filepath.Join(t.TempDir(), "etc"), ended: make(chan error, 1), talked: make(chan struct{})}
	var err error
	if r.sim, err = githubsim.New(githubsim.Config{Dir: t.TempDir(), WebUser: "ada"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.sim.Close(); err != nil {
			t.Error(err)
		}
	})
	if r.base, err = r.sim.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, login := range []string{"ada", "acme"} {
		if _, err := r.sim.CreateUser(login); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.sim.CreateRepo("ada/web", map[string]string{"README.md": "# web\n"}); err != nil {
		t.Fatal(err)
	}
	if err := r.sim.Uninstall("ada"); err != nil {
		t.Fatal(err)
	}
	pr, pw := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	c := setupCommand()
	c.SetArgs(append([]string{"github", "--public-url", "https://nod.example.org", "--dir", r.dir, "--web-url", r.base}, args...))
	c.SetOut(&r.out)
	c.SetErr(pw)
	c.SilenceUsage, c.SilenceErrors = true, true
	go func() {
		err := c.ExecuteContext(ctx)
		_ = pw.Close()
		r.ended <- err
	}()
	lines := bufio.NewScanner(pr)
	for lines.Scan() {
		r.talk.WriteString(lines.Text() + "\n")
		if _, address, ok := strings.Cut(lines.Text(), "nod: open "); ok {
			r.address = address
			break
		}
	}
	if r.address == "" {
		t.Fatalf("no address was printed: %s, %v", r.talk.String(), <-r.ended)
	}
	go func() {
		defer close(r.talked)
		if _, err := io.Copy(&r.talk, pr); err != nil {
			t.Error(err)
		}
	}()
	return r
}

func (r *setupRun) get(address string) (int, string) {
	r.Helper()
	res, err := http.Get(address)
	if err != nil {
		r.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		r.Fatal(err)
	}
	return res.StatusCode, string(body)
}

var formParts = regexp.MustCompile(`action="([^"]+)">\s*<input type="hidden" name="manifest" value="([^"]+)"`)

func (r *setupRun) form() (action, manifest string) {
	r.Helper()
	_, page := r.get(r.address)
	m := formParts.FindStringSubmatch(page)
	if m == nil {
		r.Fatalf("no form in\n%s", page)
	}
	return html.UnescapeString(m[1]), html.UnescapeString(m[2])
}

func TestSetupMakesTheApp(t *testing.T) {
	r := startSetup(t, "--repo", "Ada/Web", "--wait", "1m")
	action, manifest := r.form()
	var m struct {
		Public      bool
		Permissions map[string]string `json:"default_permissions"`
		Events      []string          `json:"default_events"`
		Hook        struct {
			URL    string
			Active bool
		} `json:"hook_attributes"`
	}
	if err := json.Unmarshal([]byte(manifest), &m); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(action, r.base+"/settings/apps/new?state=") || m.Public || m.Permissions["contents"] != "write" || m.Permissions["administration"] != "" ||
		m.Permissions["workflows"] != "" || !slices.Contains(m.Events, "pull_request_review") || m.Hook.URL != "https://nod.example.org/webhooks/github" || !m.Hook.Active {
		t.Errorf("posts to %s:\n%s", action, manifest)
	}
	// Neither a stranger's page nor a forged way back gets anywhere.
	at, err := url.Parse(r.address)
	if err != nil {
		t.Fatal(err)
	}
	if code, _ := r.get("http://" + at.Host + "/"); code != http.StatusForbidden {
		t.Errorf("the page without its key: %d", code)
	}
	if code, _ := r.get("http://" + at.Host + "/made?code=abcdefgh12345678&state=forged"); code != http.StatusForbidden {
		t.Errorf("a forged state: %d", code)
	}
	var back string
	browser := &http.Client{CheckRedirect: func(q *http.Request, _ []*http.Request) error { back = q.URL.String(); return nil }}
	res, err := browser.PostForm(action, url.Values{"manifest": {manifest}})
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(page), "installations/new") {
		t.Fatalf("%d %s %v", res.StatusCode, page, err)
	}
	if err := res.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(back, "code=") {
		t.Errorf("led back to %s", back)
	}
	if _, err := r.sim.Install("ada"); err != nil {
		t.Fatal(err)
	}
	if err := <-r.ended; err != nil {
		t.Fatal(err)
	}
	<-r.talked
	app := r.sim.App()
	for name, secret := range map[string]nod.Secret{"app.pem": app.PEM, "webhook_secret": app.WebhookSecret} {
		path := filepath.Join(r.dir, name)
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 || string(raw) != secret.Reveal() {
			t.Errorf("%s has mode %v and %d bytes: %v", name, info.Mode(), len(raw), err)
		}
		if all := r.out.String() + r.talk.String() + string(page); strings.Contains(all, secret.Reveal()) || strings.Contains(all, secret.Reveal()[len(secret.Reveal())/2:]) {
			t.Errorf("%s was printed", name)
		}
	}
	token, err := r.sim.UserToken("ada")
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.base+"/api/v3/repos/ada/web/labels", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token.Reveal())
	res, err = http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var labels []struct{ Name string }
	if err := json.NewDecoder(res.Body).Decode(&labels); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"nod", "nod:working", "nod:review", "nod:failed"} {
		if !slices.ContainsFunc(labels, func(l struct{ Name string }) bool { return l.Name == want }) {
			t.Errorf("the label %s is missing: %v", want, labels)
		}
	}
	// What was printed is a part of a configuration that nod takes.
	var part map[string]any
	if err := json.Unmarshal(r.out.Bytes(), &part); err != nil {
		t.Fatalf("%v in %s", err, r.out.String())
	}
	part["state_dir"], part["ntfy"] = "/var/lib/nod", map[string]string{"url": "https://ntfy.example.org", "topic_file": "/t"}
	part["agents"], part["repos"] = map[string]any{"claude": map[string]any{"argv": []string{"/opt/claude"}}}, []any{map[string]string{"repo": "ada/web", "agent": "claude"}}
	raw, err := json.Marshal(part)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := ParseConfig("printed", raw); err != nil || c.GitHub.AppID != app.ID || len(c.GitHub.Owners) != 1 || c.GitHub.APIURL != r.base+"/api/v3/" {
		t.Errorf("%+v, %v", c.GitHub, err)
	}
	// Again: what is there is not overwritten, and GitHub is not even asked.
	c := setupCommand()
	c.SetArgs([]string{"github", "--public-url", "https://nod.example.org", "--dir", r.dir, "--web-url", r.base})
	c.SetErr(io.Discard)
	c.SilenceUsage, c.SilenceErrors = true, true
	if err := c.ExecuteContext(t.Context()); nod.CodeOf(err) != nod.Conflict {
		t.Errorf("a second time: %v", err)
	}
}

func TestSetupForAnOrganizationThatPolls(t *testing.T) {
	r := startSetup(t, "--org", "acme", "--no-webhook", "--push-workflows", "--wait", "3s") // time enough to read the form
	action, manifest := r.form()
	if !strings.HasPrefix(action, r.base+"/organizations/acme/settings/apps/new?state=") || !strings.Contains(manifest, `"active":false`) || !strings.Contains(manifest, `"workflows":"write"`) {
		t.Errorf("posts to %s:\n%s", action, manifest)
	}
	select {
	case err := <-r.ended:
		if nod.CodeOf(err) != nod.NeedsHuman {
			t.Errorf("nobody came: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
	}
	if _, err := os.Stat(filepath.Join(r.dir, "app.pem")); !os.IsNotExist(err) {
		t.Errorf("a key without an App: %v", err)
	}
}
