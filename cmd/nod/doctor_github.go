package main

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"nod"
)

func doctorGitHubCommand() *cobra.Command {
	var path string
	var asJSON bool
	c := &cobra.Command{
		Use: "github", Short: "Look at the App, its permissions, its webhook, its installations and the clock, one line per fact", Args: cobra.NoArgs,
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
			var repos []nod.Repo
			for _, r := range cfg.Repos {
				owner, name, _ := strings.Cut(r.Repo, "/")
				repos = append(repos, nod.Repo{Host: host, Owner: owner, Name: name})
			}
			found := client.Inspect(cmd.Context(), strings.TrimSuffix(cfg.PublicURL, "/")+"/webhooks/github", repos)
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
