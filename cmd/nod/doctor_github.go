package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"nod"
	"nod/bot/github"
)

func doctorGitHubCommand() *cobra.Command {
	var path string
	var asJSON bool
	c := &cobra.Command{
		Use: "github", Short: "Look at the App, its permissions, its webhook, its installations, rules that would refuse a push, double hooks and the clock, one line per fact", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := LoadConfig(path)
			if err != nil {
				return err
			}
			sec, err := readSecrets(cfg)
			if err != nil {
				return err
			}
			client, host, err := newGitHub(cfg, sec, slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			var repos []github.Inspected
			for _, r := range cfg.Repos {
				owner, name, _ := strings.Cut(r.Repo, "/")
				repos = append(repos, github.Inspected{Repo: nod.Repo{Host: host, Owner: owner, Name: name}, Sign: r.Sign})
			}
			found := client.Inspect(cmd.Context(), strings.TrimSuffix(cfg.PublicURL, "/")+"/webhooks/github", repos)
			twice, err := toldTwice(cmd.Context(), cfg, sec)
			if err != nil {
				return err
			}
			found = append(found, twice...)
			bad := 0
			for _, f := range found {
				if !f.OK {
					bad++
				}
			}
			if asJSON {
				err = printJSON(cmd, found)
			} else {
				for _, f := range found {
					word := map[bool]string{true: "ok", false: "bad"}[f.OK]
					if _, err = fmt.Fprintf(cmd.OutOrStdout(), "%-4s%s: %s\n", word, printable(f.What), printable(f.Detail)); err == nil && f.Hint != "" {
						_, err = fmt.Fprintf(cmd.OutOrStdout(), "    hint: %s\n", printable(f.Hint))
					}
					if err != nil {
						break
					}
				}
			}
			if err != nil || bad == 0 {
				return err
			}
			return nod.E(nod.NeedsHuman, fmt.Sprintf("%d of %d things are not as they should be", bad, len(found)), nil)
		},
	}
	configFlag(c, &path)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// lately is how far back deliveries by other hooks are looked for.
const lately = 3 * 24 * time.Hour

// toldTwice says what the store knows of hooks that are not the App's and send to nod
// as well. It looks only where there is a store.
func toldTwice(ctx context.Context, cfg Config, sec secrets) (found []github.Finding, err error) {
	if _, err := os.Stat(filepath.Join(cfg.StateDir, "nod.db")); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	s, err := openStore(ctx, cfg, sec.all(), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	by, err := s.ForeignDeliveries(ctx, time.Now().Add(-lately))
	if err != nil {
		return nil, err
	}
	f := github.Finding{What: "deliveries by other hooks", OK: len(by) == 0, Detail: "none in three days"}
	if !f.OK {
		var from []string
		for repo, n := range by {
			from = append(from, fmt.Sprintf("%d of %q", n, repo))
		}
		slices.Sort(from)
		f.Detail, f.Hint = strings.Join(from, ", "), "delete the hook in the settings of the repository or the organization: the App has its own"
	}
	return []github.Finding{f}, nil
}
