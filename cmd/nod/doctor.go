package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"nod"
)

func doctorCommand() *cobra.Command {
	root := &cobra.Command{Use: "doctor", Short: "Say what this machine can do"}
	var asJSON bool
	rt := &cobra.Command{
		Use: "runtime", Short: "Try what an environment needs, one line per fact", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			dir, err := os.MkdirTemp("", "nod-doctor-")
			if err != nil {
				return nod.E(nod.Internal, "no directory to try in", err)
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
			log := slog.New(slog.DiscardHandler)
			driver, err := embedded(cmd.Context(), dir, newEgressLog(log), log)
			if err != nil {
				return err
			}
			c := driver.Capabilities(cmd.Context())
			if asJSON {
				return printJSON(cmd, map[string]any{"driver": driver.Name(), "capabilities": c})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "driver: %s\nseccomp: %v\nlandlock ABI: %d\nenforced limits: %s\negress: %s\nkill proof: %s\n",
				driver.Name(), c.Seccomp, c.LandlockABI, strings.Join(c.Limits, ", "), c.Egress, c.KillProof)
			return err
		},
	}
	rt.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	root.AddCommand(rt)
	return root
}
