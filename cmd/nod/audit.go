package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"nod"
)

// envelope is what every --json prints.
type envelope struct {
	SchemaVersion int  `json:"schema_version"`
	OK            bool `json:"ok"`
	Data          any  `json:"data"`
}

func printJSON(cmd *cobra.Command, data any) error {
	enc := json.NewEncoder(cmd.OutOrStdout())
	enc.SetIndent("", "  ")
	return enc.Encode(envelope{SchemaVersion: 1, OK: true, Data: data})
}

func auditCommand() *cobra.Command {
	root := &cobra.Command{Use: "audit", Short: "Check the audit log"}
	var path, head string
	var asJSON bool
	verify := &cobra.Command{
		Use: "verify", Short: "Recompute the hash chain and check every passkey signature", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, s, err := openHost(cmd, path)
			if err != nil {
				return err
			}
			defer s.Close()
			report, err := s.VerifyChain(cmd.Context(), head)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd, report)
			} else {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d entries, %d signatures, head %s\n", report.Entries, report.Signatures, report.Head)
			}
			if err == nil && !report.Verified {
				err = nod.E(nod.Failed, "the audit log does not verify: "+report.Problem, nil)
			}
			return err
		},
	}
	configFlag(verify, &path)
	verify.Flags().StringVar(&head, "head", "", "hash that the chain must end in")
	verify.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	root.AddCommand(verify)
	return root
}

func inboxCommand() *cobra.Command {
	var path string
	var asJSON bool
	c := &cobra.Command{
		Use: "inbox", Short: "List what waits for an answer", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, s, err := openHost(cmd, path)
			if err != nil {
				return err
			}
			defer s.Close()
			open, err := s.OpenDecisions(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd, open)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, d := range open {
				deadline := "no deadline"
				if !d.Deadline.IsZero() {
					deadline = d.Deadline.Format(time.RFC3339)
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", d.ID, d.Cause, printable(d.Subject), deadline)
			}
			return w.Flush()
		},
	}
	configFlag(c, &path)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
