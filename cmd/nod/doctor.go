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
	var c RuntimeConfig
	rt := &cobra.Command{
		Use: "runtime", Short: "Try what an environment needs, one line per fact", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := c.check(); err != nil {
				return nod.E(nod.Invalid, err.Error(), nil)
			}
			dir, err := os.MkdirTemp("", "nod-doctor-")
			if err != nil {
				return nod.E(nod.Internal, "no directory to try in", err)
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
			log := slog.New(slog.DiscardHandler)
			driver, err := openDriver(cmd.Context(), c, dir, newEgressLog(log), log)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, driver.Close()) }()
			caps := driver.Capabilities(cmd.Context())
			if asJSON {
				err = printJSON(cmd, map[string]any{"driver": driver.Name(), "capabilities": caps})
			} else {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "driver: %s\nholds environments: %v\nseccomp: %v\nlandlock ABI: %d\nenforced limits: %s\negress: %s\nkill proof: %s\n",
					driver.Name(), caps.Supported, caps.Seccomp, caps.LandlockABI, strings.Join(caps.Limits, ", "), caps.Egress, caps.KillProof)
			}
			if err == nil && !caps.Supported {
				err = &nod.Error{Code: nod.Unsupported, Msg: "this machine cannot hold an environment: " + strings.Join(caps.Missing, "; "), Hint: caps.Hint}
			}
			return err
		},
	}
	f := rt.Flags()
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.StringVar(&c.Driver, "driver", embeddedDriver, "linux, docker, podman or apple")
	f.StringVar(&c.Socket, "socket", "", "the engine's unix socket, or Apple's container program")
	f.StringVar(&c.Image, "image", "", "the image that environments have")
	f.StringVar(&c.Guest, "guest", "", "path of the static nod-guest")
	f.StringVar(&c.Archive, "archive", "", "tar to import as the image when the engine does not have it")
	root.AddCommand(rt, doctorGitHubCommand())
	return root
}
