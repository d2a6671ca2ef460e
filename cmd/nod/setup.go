package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nod"
	"nod/bot"
	"nod/bot/github"
)

// installTick is how often a new App's installations are looked for.
const installTick = 3 * time.Second

// setup is one run of nod setup github.
type setup struct {
	making  github.Making
	dir     string
	repos   []string
	trigger string
	wait    time.Duration
	tick    time.Duration
}

func setupCommand() *cobra.Command {
	root := &cobra.Command{Use: "setup", Short: "Set nod up"}
	s := setup{tick: installTick}
	var poll bool
	c := &cobra.Command{
		Use: "github", Short: "Make the GitHub App, keep its secrets, wait for its installation and make the labels",
		Long: `Prints an address on this machine. Open it in a browser that is signed in to GitHub: GitHub
shows what the App may do and makes it. Its private key and its webhook secret go into files
that only you can read, and are printed nowhere. Then install the App; nod waits for that,
makes its labels, and prints what belongs into the configuration file.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.making.Webhook = !poll
			if s.making.PublicURL == "" || s.dir == "" {
				return nod.E(nod.Invalid, "--public-url and --dir are required", nil)
			}
			return s.run(cmd)
		},
	}
	f := c.Flags()
	f.StringVar(&s.making.PublicURL, "public-url", "", "what your phone opens, as in the configuration file (required)")
	f.StringVar(&s.dir, "dir", "", "directory for the key and the webhook secret (required; made when absent)")
	f.StringVar(&s.making.Organization, "org", "", "organization that will own the App; default: you")
	f.StringVar(&s.making.Name, "name", "", "the App's name, unique on GitHub; default: nod and some letters")
	f.StringVar(&s.making.WebURL, "web-url", "https://github.com", "GitHub's web root; for a GitHub Enterprise Server its own")
	f.StringVar(&s.making.APIURL, "api-url", "", "GitHub's API root; default: of github.com, or <web-url>/api/v3/")
	f.StringSliceVar(&s.repos, "repo", nil, "repository (owner/name) to make labels in; default: all that the App is installed on")
	f.StringVar(&s.trigger, "trigger-label", "nod", "the label that starts work")
	f.BoolVar(&poll, "no-webhook", false, "switch the App's webhook off: nod will poll")
	f.BoolVar(&s.making.Workflows, "push-workflows", false, "ask for the permission to push workflow files")
	f.DurationVar(&s.wait, "wait", 30*time.Minute, "how long to wait for each step in the browser")
	root.AddCommand(c, setupNotifyCommand())
	return root
}

func (s *setup) run(cmd *cobra.Command) error {
	if s.making.Name == "" {
		s.making.Name = "nod-" + strings.ToLower(rand.Text()[:6])
	}
	if s.making.APIURL == "" {
		s.making.APIURL = "https://api.github.com/"
		if web := strings.TrimRight(s.making.WebURL, "/"); web != "https://github.com" {
			s.making.APIURL = web + "/api/v3/"
		}
	}
	keyFile, secretFile := filepath.Join(s.dir, "app.pem"), filepath.Join(s.dir, "webhook_secret")
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nod.E(nod.Internal, "the directory cannot be made", err)
	}
	for _, path := range []string{keyFile, secretFile} { // before GitHub is asked for something that cannot be kept
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			return &nod.Error{Code: nod.Conflict, Msg: path + " is there already", Hint: "move it away, or name another --dir", Err: err}
		}
	}
	made, err := s.inBrowser(cmd)
	if err != nil {
		return err
	}
	for path, secret := range map[string]nod.Secret{keyFile: made.PrivateKey, secretFile: made.WebhookSecret} {
		if err := writeSecret(path, secret); err != nil {
			return err
		}
	}
	talk := cmd.ErrOrStderr()
	fmt.Fprintf(talk, "nod: the App %s is made; its secrets are in %s\nnod: install it: %s/installations/new\n", printable(made.Slug), s.dir, printable(made.Page))
	client, host, err := newGitHub(Config{GitHub: GitHubConfig{APIURL: s.making.APIURL, WebURL: s.making.WebURL, AppID: made.ID}},
		secrets{privateKey: made.PrivateKey}, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	repos, err := s.installed(cmd.Context(), client)
	if err != nil {
		return err
	}
	labels := append([]string{s.trigger}, bot.StateLabels()...)
	var names []string
	for repo, installation := range repos {
		if err := client.EnsureLabels(cmd.Context(), installation, repo, labels...); err != nil {
			return err
		}
		names = append(names, repo.String())
	}
	slices.Sort(names)
	for _, n := range names {
		fmt.Fprintf(talk, "nod: %s has the labels %s\n", printable(n), strings.Join(labels, ", "))
	}
	owners := []int64{}
	if made.Owner.ID > 0 && !made.Owner.Bot {
		owners = append(owners, made.Owner.ID)
	} else {
		fmt.Fprintf(talk, "nod: put the numeric account ids of whoever may answer into github.owners; GitHub says them at %susers/LOGIN\n", s.making.APIURL)
	}
	out, err := json.MarshalIndent(map[string]any{"github": map[string]any{"api_url": s.making.APIURL, "web_url": s.making.WebURL, "app_id": made.ID,
		"private_key_file": keyFile, "webhook_secret_files": []string{secretFile}, "owners": owners}, "public_url": s.making.PublicURL, "trigger_label": s.trigger}, "", "  ")
	if err != nil {
		return nod.E(nod.Internal, "the configuration cannot be written", err)
	}
	fmt.Fprintf(talk, "nod: this belongs into the configuration file for %s:\n", host)
	_, err = fmt.Fprintln(cmd.OutOrStdout(), string(out))
	return err
}

// writeSecret makes a file that only its owner can read, never over another.
func writeSecret(path string, secret nod.Secret) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nod.E(nod.Internal, "the secret file "+path+" cannot be made", err)
	}
	_, err = f.WriteString(secret.Reveal())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nod.E(nod.Internal, "the secret file "+path+" cannot be written", err)
	}
	return nil
}

// installed waits until the App reaches what it should.
func (s *setup) installed(ctx context.Context, client *github.Client) (map[nod.Repo]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	tick := time.NewTicker(s.tick)
	defer tick.Stop()
	for {
		all, err := client.Installed(ctx)
		if err != nil && ctx.Err() == nil && nod.CodeOf(err) != nod.Unavailable && nod.CodeOf(err) != nod.RateLimited {
			return nil, err
		}
		if len(s.repos) == 0 && len(all) > 0 {
			return all, nil
		}
		found := map[nod.Repo]int64{}
		for repo, id := range all {
			if slices.ContainsFunc(s.repos, func(want string) bool { return strings.EqualFold(want, repo.String()) }) {
				found[repo] = id
			}
		}
		if len(found) == len(s.repos) && len(found) > 0 {
			return found, nil
		}
		select {
		case <-ctx.Done():
			return nil, &nod.Error{Code: nod.NeedsHuman, Msg: "the App is made, but it was not installed in time",
				Hint: "install it; the labels are made when they are first needed", Err: ctx.Err()}
		case <-tick.C:
		}
	}
}

//go:embed setup/page.html
var setupPage string

var setupTemplate = template.Must(template.New("setup").Parse(setupPage))

// inBrowser serves the form on loopback and waits for the browser to come back.
func (s *setup) inBrowser(cmd *cobra.Command) (github.Made, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return github.Made{}, nod.E(nod.Unavailable, "cannot listen on loopback", err)
	}
	base := "http://" + l.Addr().String()
	s.making.Redirect = base + "/made"
	state, key := rand.Text(), rand.Text()
	action, manifest, err := s.making.Form(state)
	if err != nil {
		return github.Made{}, errors.Join(err, l.Close())
	}
	raw, err := json.Marshal(manifest)
	if err != nil {
		return github.Made{}, errors.Join(nod.E(nod.Internal, "the manifest cannot be written", err), l.Close())
	}
	type result struct {
		made github.Made
		err  error
	}
	done, once := make(chan result, 1), make(chan struct{}, 1)
	once <- struct{}{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.URL.Query().Get("key")), []byte(key)) != 1 {
			http.Error(w, "open the whole address that nod printed", http.StatusForbidden)
			return
		}
		showSetup(w, map[string]any{"Action": action, "Manifest": string(raw), "Name": s.making.Name, "Organization": s.making.Organization, "Web": s.making.WebURL})
	})
	mux.HandleFunc("GET /made", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		if subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(state)) != 1 {
			http.Error(w, "this did not begin at nod", http.StatusForbidden)
			return
		}
		select {
		case <-once:
		default:
			http.Error(w, "the App is made already", http.StatusConflict)
			return
		}
		made, err := s.making.Exchange(r.Context(), q.Get("code"))
		if err != nil {
			http.Error(w, nod.PublicMessage(err), nod.CodeOf(err).HTTPStatus())
		} else {
			showSetup(w, map[string]any{"Made": made.Slug, "Install": made.Page + "/installations/new"})
		}
		done <- result{made, err}
	})
	server := &http.Server{Handler: setupHeaders(mux), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	fmt.Fprintf(cmd.ErrOrStderr(), "nod: open %s/?key=%s\n", base, key)
	var got result
	timer := time.NewTimer(s.wait)
	defer timer.Stop()
	select {
	case got = <-done:
	case <-cmd.Context().Done():
		got.err = nod.E(nod.NeedsHuman, "interrupted before the App was made", cmd.Context().Err())
	case <-timer.C:
		got.err = nod.E(nod.NeedsHuman, "nobody made the App in time", nil)
	case err := <-failed:
		return github.Made{}, nod.E(nod.Unavailable, "the page cannot be served", err)
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(cmd.Context()), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		_ = server.Close() // the browser keeps a connection; the page was sent
	}
	<-failed
	return got.made, got.err
}

func showSetup(w http.ResponseWriter, data map[string]any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = setupTemplate.Execute(w, data) // the browser may be gone
}

// setupHeaders keep the page to itself. The form leads elsewhere, and GitHub's answer
// leads back.
func setupHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		if host, _, err := net.SplitHostPort(r.Host); err != nil || !net.ParseIP(host).IsLoopback() { // another name was made to lead here
			http.Error(w, "open the address that nod printed", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
