package github

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	gh "github.com/google/go-github/v66/github"

	"nod"
)

// Making says where and how an App is made by GitHub's manifest flow: a form leads
// the browser to GitHub, which leads it back with a code that is good for one hour and
// one exchange.
type Making struct {
	APIURL, WebURL string            // as in Config
	Organization   string            // that will own it; empty: whoever is signed in
	Name           string            // unique on that GitHub
	PublicURL      string            // of nod
	Redirect       string            // where the browser comes back to
	Webhook        bool              // deliver to PublicURL; else the hook is there but off
	Workflows      bool              // ask for the permission to push workflow files
	HTTP           http.RoundTripper // nil: a transport of its own
}

// Events are what the App is told of.
func Events() []string { return append([]string(nil), neededEvents...) }

// Permissions are what the App asks for, name to level. actions is for the logs of red
// checks, and nod does without.
func Permissions(workflows bool) map[string]string {
	need := (&Client{workflows: workflows}).Needed()
	need["actions"] = "read"
	return need
}

var organizationShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,38}$`)

// Form returns the address that the manifest is posted to, in a field called
// "manifest", and the manifest. GitHub gives state back with the code.
func (m Making) Form(state string) (action string, manifest map[string]any, err error) {
	web, err := root(orElse(m.WebURL, "https://github.com"))
	if err != nil {
		return "", nil, err
	}
	public, err := root(m.PublicURL)
	if err != nil {
		return "", nil, nod.E(nod.Invalid, "the public URL of nod must be https, or http on this machine", err)
	}
	to := web.JoinPath("settings", "apps", "new")
	if m.Organization != "" {
		if !organizationShape.MatchString(m.Organization) {
			return "", nil, nod.E(nod.Invalid, "that cannot be an organization", nil)
		}
		to = web.JoinPath("organizations", m.Organization, "settings", "apps", "new")
	}
	to.RawQuery = url.Values{"state": {state}}.Encode()
	return to.String(), map[string]any{
		"name": m.Name, "url": public.String(), "public": false, "redirect_url": m.Redirect,
		"description":         "Label an issue, nod on your phone, review the pull request",
		"hook_attributes":     map[string]any{"url": public.JoinPath("webhooks", "github").String(), "active": m.Webhook},
		"default_permissions": Permissions(m.Workflows), "default_events": Events(),
	}, nil
}

// Made is a new App.
type Made struct {
	ID            int64
	Slug          string
	Owner         nod.Actor // Bot when it is an organization
	Page          string    // its public page
	PrivateKey    nod.Secret
	WebhookSecret nod.Secret
}

var codeShape = regexp.MustCompile(`^[0-9A-Za-z_-]{8,128}$`)

// Exchange turns the code into the App's identity and secrets. It works once.
func (m Making) Exchange(ctx context.Context, code string) (Made, error) {
	if !codeShape.MatchString(code) {
		return Made{}, nod.E(nod.Invalid, "that is not a code of GitHub's", nil)
	}
	api, err := root(orElse(m.APIURL, "https://api.github.com/"))
	if err != nil {
		return Made{}, err
	}
	inner := m.HTTP
	if inner == nil {
		inner = &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	}
	client := gh.NewClient(&http.Client{Transport: &guard{scheme: api.Scheme, host: api.Host, next: inner}, Timeout: callTimeout})
	client.BaseURL, client.UserAgent = api, "nod"
	got, _, err := client.Apps.CompleteAppManifest(ctx, code)
	if err != nil {
		return Made{}, (&Client{}).fault("make the App", err)
	}
	made := Made{ID: got.GetID(), Slug: got.GetSlug(), Page: got.GetHTMLURL(), PrivateKey: nod.NewSecret(got.GetPEM()), WebhookSecret: nod.NewSecret(got.GetWebhookSecret()),
		Owner: nod.Actor{Kind: nod.ActorGitHub, ID: got.GetOwner().GetID(), Login: got.GetOwner().GetLogin(), Bot: got.GetOwner().GetType() != "User"}}
	if made.ID <= 0 || made.PrivateKey.Empty() || made.WebhookSecret.Empty() {
		return Made{}, nod.E(nod.Internal, "GitHub made the App but did not give its key and its webhook secret", nil)
	}
	return made, nil
}

// Installed lists the repositories that the App's installations reach, with the
// installation of each. It is empty while the App is installed nowhere.
func (c *Client) Installed(ctx context.Context) (map[nod.Repo]int64, error) {
	all, _, err := pages(0, func(page int) ([]*gh.Installation, *gh.Response, error) {
		return c.app.Apps.ListInstallations(ctx, &gh.ListOptions{Page: page, PerPage: perPage})
	})
	if err != nil {
		return nil, c.fault("list its installations", err)
	}
	out := map[nod.Repo]int64{}
	for _, in := range all {
		if in.SuspendedAt != nil {
			continue
		}
		a, err := c.access(reachOf(in.GetID(), nod.Repo{}, permMeta))
		if err != nil {
			return nil, err
		}
		repos, _, err := pages(0, func(page int) ([]*gh.Repository, *gh.Response, error) {
			some, res, err := a.client.Apps.ListRepos(ctx, &gh.ListOptions{Page: page, PerPage: perPage})
			if err != nil {
				return nil, res, err
			}
			return some.Repositories, res, nil
		})
		if err != nil {
			return nil, c.fault("list its repositories", err)
		}
		for _, r := range repos {
			if owner, name, ok := strings.Cut(r.GetFullName(), "/"); ok {
				out[nod.Repo{Host: c.host, Owner: owner, Name: name}] = in.GetID()
			}
		}
	}
	return out, nil
}

// EnsureLabels makes those of labels that repo lacks.
func (c *Client) EnsureLabels(ctx context.Context, installation int64, repo nod.Repo, labels ...string) error {
	act := "make labels in " + repo.String()
	if err := c.check(repo); err != nil {
		return err
	}
	client, err := c.in(ctx, installation, repo, permWrite)
	if err != nil {
		return c.fault(act, err)
	}
	for _, name := range labels {
		if err := c.SwapLabels().ensure(ctx, client, repo, name); err != nil {
			return c.fault(act, err)
		}
	}
	return nil
}
