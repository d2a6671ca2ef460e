package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mdp/qrterminal/v3"
	"github.com/spf13/cobra"

	"nod"
	"nod/store"
)

// enrolmentLife is how long an enrolment link can be used.
const enrolmentLife = 5 * time.Minute

// openHost opens the store for a command on the host, beside a running serve.
func openHost(cmd *cobra.Command, path string) (Config, *store.Store, error) {
	cfg, err := LoadConfig(path)
	if err != nil {
		return cfg, nil, err
	}
	sec, err := readSecrets(cfg)
	if err != nil {
		return cfg, nil, err
	}
	s, err := openStore(cmd.Context(), cfg, sec.all(), slog.New(slog.DiscardHandler))
	return cfg, s, err
}

func passkeyCommand() *cobra.Command {
	root := &cobra.Command{Use: "passkey", Short: "Enrol, list and revoke the passkeys that may answer"}
	var path string
	var repos []string
	add := &cobra.Command{
		Use: "add NAME", Short: "Print a single-use link that enrols a passkey", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, s, err := openHost(cmd, path)
			if err != nil {
				return err
			}
			defer s.Close()
			host, err := githubHost(cfg.GitHub.WebURL)
			if err != nil {
				return err
			}
			covers := []string{}
			for _, r := range repos {
				if !slices.ContainsFunc(cfg.Repos, func(c RepoConfig) bool { return strings.EqualFold(c.Repo, r) }) {
					return nod.E(nod.Invalid, "the configuration has no repository "+r, nil)
				}
				owner, name, _ := strings.Cut(r, "/")
				covers = append(covers, nod.Repo{Host: host, Owner: owner, Name: name}.Key())
			}
			link, err := enrolmentLink(cmd.Context(), s, cfg.PublicURL, args[0], covers...)
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), link)
			qrterminal.GenerateHalfBlock(link, qrterminal.M, cmd.ErrOrStderr())
			fmt.Fprintf(cmd.ErrOrStderr(), "nod: the link works once, for %d minutes\n", int(enrolmentLife.Minutes()))
			return nil
		},
	}
	add.Flags().StringSliceVar(&repos, "repo", nil, "owner/name that the passkey may read and answer for; repeatable; everything when not given")
	list := &cobra.Command{
		Use: "ls", Short: "List enrolled passkeys", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, s, err := openHost(cmd, path)
			if err != nil {
				return err
			}
			defer s.Close()
			keys, err := s.Passkeys(cmd.Context())
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, k := range keys {
				covers := "everything"
				if len(k.Repos) > 0 {
					covers = strings.Join(k.Repos, " ")
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", k.ID, printable(k.Name), k.CreatedAt.Format(time.RFC3339), covers)
			}
			return w.Flush()
		},
	}
	revoke := &cobra.Command{
		Use: "revoke ID", Short: "Revoke a passkey and end its sessions", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, s, err := openHost(cmd, path)
			if err != nil {
				return err
			}
			defer s.Close()
			return s.RevokePasskey(cmd.Context(), args[0], nod.Actor{Kind: nod.ActorHost})
		},
	}
	for _, c := range []*cobra.Command{add, list, revoke} {
		configFlag(c, &path)
		root.AddCommand(c)
	}
	return root
}

// enrolmentLink makes a single-use link that enrols a passkey called name for the
// repositories with these keys, or for everything.
func enrolmentLink(ctx context.Context, s *store.Store, public, name string, repos ...string) (string, error) {
	raw := make([]byte, 24)
	if _, err := rand.Read(raw); err != nil {
		return "", err
	}
	token := base64.RawURLEncoding.EncodeToString(raw)
	err := s.CreateEnrolment(ctx, nod.Enrolment{TokenDigest: nod.Digest([]byte(token)), Name: name, Repos: repos,
		ExpiresAt: time.Now().Add(enrolmentLife)})
	return strings.TrimSuffix(public, "/") + "/enrol/" + token, err
}
