package githubsim

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// manifest is how an App is described to be made.
type manifest struct {
	Name, URL   string
	RedirectURL string `json:"redirect_url"`
	Hook        struct {
		URL    string
		Active bool
	} `json:"hook_attributes"`
	Permissions grant    `json:"default_permissions"`
	Events      []string `json:"default_events"`
	owner       *user
}

// newApp takes a manifest from a browser, as GitHub's page does once its button was
// pressed, and sends the browser back with a code. Only pages of the App's maker post
// here, so it is open to other origins.
func (s *Server) newApp(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	var m manifest
	if err := json.Unmarshal([]byte(r.PostFormValue("manifest")), &m); err != nil || m.Name == "" || m.URL == "" || m.RedirectURL == "" {
		http.Error(w, "Error: the manifest is not valid", http.StatusUnprocessableEntity)
		return
	}
	back, err := url.Parse(m.RedirectURL)
	if err != nil || back.Host == "" {
		http.Error(w, "Error: redirect_url is not a URL", http.StatusUnprocessableEntity)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	owner := s.webUser
	if part := strings.Split(strings.Trim(r.URL.Path, "/"), "/"); part[0] == "organizations" {
		owner = part[1]
	}
	if m.owner = s.users[strings.ToLower(owner)]; m.owner == nil {
		http.Error(w, "nobody is signed in", http.StatusForbidden)
		return
	}
	code := rand.Text()
	s.manifests[code] = m
	q := back.Query()
	q.Set("code", code)
	if state := r.URL.Query().Get("state"); state != "" {
		q.Set("state", state)
	}
	back.RawQuery = q.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound)
}

// convert gives the App of a manifest to whoever has its code, once. It is the one App
// of this GitHub, which is then what the manifest says.
func convert(c *call) (int, any, error) {
	code := c.r.PathValue("code")
	m, ok := c.manifests[code]
	if !ok {
		return 0, nil, errNotFound
	}
	delete(c.manifests, code)
	c.asked, c.told, c.appOwner = m.Permissions, m.Events, m.owner
	if c.SetWebhook(""); m.Hook.Active {
		c.SetWebhook(m.Hook.URL)
	}
	out := c.appJSON()
	app := c.Server.App()
	out["client_secret"], out["webhook_secret"], out["pem"] = rand.Text(), app.WebhookSecret.Reveal(), app.PEM.Reveal()
	return http.StatusCreated, out, nil
}

// Install puts the App on an account, with what it asks for.
func (s *Server) Install(login string) (int64, error) {
	var id int64
	err := s.withUser(login, func(u *user) error {
		if in := s.installationOf(u); in != nil {
			id = in.id
			return nil
		}
		id = s.install(u).id
		return nil
	})
	return id, err
}

// isNewApp reports whether a path is the page that takes manifests.
func isNewApp(path string) bool {
	part := strings.Split(strings.Trim(path, "/"), "/")
	return slices.Equal(part, []string{"settings", "apps", "new"}) ||
		len(part) == 5 && part[0] == "organizations" && slices.Equal(part[2:], []string{"settings", "apps", "new"})
}
