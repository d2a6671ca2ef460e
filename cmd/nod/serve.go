package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"nod"
	"nod/agent/gateway"
)

// configFlag adds the flag that names the configuration file.
func configFlag(c *cobra.Command, path *string) {
	def := ""
	if dir, err := os.UserConfigDir(); err == nil {
		def = filepath.Join(dir, "nod", "nod.hujson")
	}
	c.Flags().StringVarP(path, "config", "c", def, "configuration file")
}

func serveCommand() *cobra.Command {
	var path string
	c := &cobra.Command{
		Use:   "serve",
		Short: "Receive labels, run agents, ask, publish: until interrupted",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := LoadConfig(path)
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			if err := os.MkdirAll(cfg.StateDir, 0o700); err != nil {
				return nod.E(nod.Internal, "the state directory cannot be made", err)
			}
			unlock, err := lock(filepath.Join(cfg.StateDir, "lock"))
			if err != nil {
				return err
			}
			defer unlock()
			p := parts{config: cfg, log: log, audit: newEgressLog(log), agents: map[string]program{},
				models: gateway.New(time.Now, log)}
			defer p.models.Close()
			if p.secrets, err = readSecrets(cfg); err != nil {
				return err
			}
			for name, a := range cfg.Agents {
				var key []nod.Secret
				if p.agents[name], key, err = newAgent(name, a, log); err != nil {
					return err
				}
				p.secrets.agents = append(p.secrets.agents, key...)
			}
			if p.driver, err = provenDriver(cmd.Context(), cfg.Runtime, cfg.StateDir, p.audit.proxy(p.models), log); err != nil {
				return err
			}
			s, err := assemble(cmd.Context(), p)
			if err != nil {
				return err
			}
			defer s.Close()
			l, err := net.Listen("tcp", cfg.Listen)
			if err != nil {
				return nod.E(nod.Unavailable, "cannot listen on "+cfg.Listen, err)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "nod: serving %s on %s\n", cfg.PublicURL, l.Addr())
			return s.serve(cmd.Context(), l)
		},
	}
	configFlag(c, &path)
	return c
}
