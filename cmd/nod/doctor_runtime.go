package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"nod"
	"nod/runtime"
)

// fact is one thing about a driver on this machine.
type fact struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
	// Optional says that environments are held without it, for who asks for no more.
	Optional bool `json:"optional,omitempty"`
}

// report is what doctor runtime says of one driver.
type report struct {
	Driver       string               `json:"driver"`
	Supported    bool                 `json:"supported"`
	Facts        []fact               `json:"facts"`
	Capabilities runtime.Capabilities `json:"capabilities"`
}

func doctorRuntimeCommand() *cobra.Command {
	var asJSON bool
	var c RuntimeConfig
	rt := &cobra.Command{
		Use: "runtime", Short: "Start an environment, look from inside at what holds, one line per fact", Args: cobra.NoArgs,
		Long: "Starts an environment of the driver, looks from inside at what holds, and removes it again: nothing is taken\n" +
			"from what the kernel or an engine promises. An image that is not there is unpacked for the look only.",
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
			driver, err := openDriver(cmd.Context(), c, dir, newEgressLog(log).proxy(nil), log)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, driver.Close()) }()
			caps := driver.Capabilities(cmd.Context())
			r := report{Driver: driver.Name(), Supported: caps.Supported, Facts: facts(caps), Capabilities: caps}
			if asJSON {
				err = printJSON(cmd, r)
			} else {
				err = r.print(cmd)
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
	f.StringVar(&c.Archive, "archive", "", "what to make the image of when it is not there")
	f.StringVar(&c.Build, "build", "", "directory with a Containerfile to build the image from when it is not there")
	f.BoolVar(&c.Pull, "pull", false, "fetch the image when it is not there")
	return rt
}

// facts are what the self-test saw, one by one.
func facts(c runtime.Capabilities) []fact {
	a := c.Seen
	out := []fact{{Name: "an environment starts", OK: c.Supported, Detail: "started, attested, ended", Hint: c.Hint}}
	if !c.Supported {
		out[0].Detail = strings.Join(c.Missing, "; ")
	}
	if a.Isolation == "" {
		return out // nothing was seen
	}
	out = append(out,
		fact{Name: "isolation", OK: a.Isolation != "none", Detail: a.Isolation},
		fact{Name: "user", OK: a.UID != 0 && a.GID != 0, Detail: fmt.Sprintf("%d:%d", a.UID, a.GID)},
		fact{Name: "capabilities", OK: a.Capabilities == "0000000000000000", Detail: a.Capabilities},
		fact{Name: "no new privileges", OK: a.NoNewPrivs, Detail: yes(a.NoNewPrivs)},
		fact{Name: "seccomp filter", OK: a.Seccomp, Detail: yes(a.Seccomp)},
		fact{Name: "landlock", OK: a.Landlock > 0, Detail: fmt.Sprintf("version %d", a.Landlock), Optional: true},
		fact{Name: "network interfaces", OK: slices.Equal(a.Interfaces, []string{"lo"}), Detail: strings.Join(a.Interfaces, ", ")},
		fact{Name: "root is read-only", OK: a.RootReadOnly, Detail: yes(a.RootReadOnly)},
		fact{Name: "unlisted hosts are refused", OK: a.EgressRefused, Detail: yes(a.EgressRefused) + ", by a " + c.Egress},
		fact{Name: "no route past the proxy", OK: a.DirectRefused, Detail: yes(a.DirectRefused)},
		fact{Name: "proof of an end", OK: c.KillProof != "", Detail: c.KillProof},
	)
	for _, kind := range []string{"memory", "cpu", "pids", "disk"} {
		f := fact{Name: kind + " limit", OK: slices.Contains(c.Limits, kind), Detail: "set and read back", Optional: true}
		if !f.OK {
			f.Detail = "cannot be enforced here: a spec that requires it is refused"
		}
		out = append(out, f)
	}
	return out
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func (r report) print(cmd *cobra.Command) error {
	if _, err := fmt.Fprintf(cmd.OutOrStdout(), "driver: %s\n", r.Driver); err != nil {
		return err
	}
	for _, f := range r.Facts {
		word := "bad"
		switch {
		case f.OK:
			word = "ok"
		case f.Optional:
			word = "no"
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%-4s%s: %s\n", word, f.Name, printable(f.Detail)); err != nil {
			return err
		}
		if f.OK || f.Hint == "" {
			continue
		}
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "    hint: %s\n", printable(f.Hint)); err != nil {
			return err
		}
	}
	return nil
}
