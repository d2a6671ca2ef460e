package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"nod"
	"nod/notify/answer"
	"nod/store"
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
	root := &cobra.Command{Use: "audit", Short: "Check the audit log, and take evidence out of it"}
	root.AddCommand(auditVerifyCommand(), auditExportCommand())
	return root
}

func auditVerifyCommand() *cobra.Command {
	var path, head, file string
	var asJSON bool
	c := &cobra.Command{
		Use: "verify", Short: "Recompute the hash chain and check every passkey signature", Args: cobra.NoArgs,
		Long: "Recompute the hash chain and check every passkey signature: of this machine's database, or with --file of what\n" +
			"nod audit export wrote, which needs neither the database nor a configuration.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := audited(cmd, path, file, head)
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
	configFlag(c, &path)
	c.Flags().StringVar(&head, "head", "", "hash that the chain must hold, as written down earlier")
	c.Flags().StringVarP(&file, "file", "f", "", "check this export instead of the database; - is standard input")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// audited verifies the export in file, or the database when there is none.
func audited(cmd *cobra.Command, path, file, head string) (nod.ChainReport, error) {
	if file == "" {
		_, s, err := openHost(cmd, path)
		if err != nil {
			return nod.ChainReport{}, err
		}
		defer s.Close()
		return s.VerifyChain(cmd.Context(), head)
	}
	raw, err := io.ReadAll(cmd.InOrStdin())
	if file != "-" {
		raw, err = os.ReadFile(file)
	}
	if err != nil {
		return nod.ChainReport{}, nod.E(nod.NotFound, "the export cannot be read", err)
	}
	return store.VerifyExport(raw, head, verifyAssertion, answer.VerifyAct)
}

func auditExportCommand() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use: "export TASK", Short: "Print the evidence of a task as JSON for nod audit verify --file", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, s, err := openHost(cmd, path)
			if err != nil {
				return err
			}
			defer s.Close()
			raw, err := s.ExportTask(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(raw)
			return err
		},
	}
	configFlag(c, &path)
	return c
}
