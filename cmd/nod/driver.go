package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"nod"
	"nod/runtime"
	"nod/runtime/apple"
	"nod/runtime/docker"
	"nod/runtime/egress"
	"nod/runtime/image"
)

// RuntimeConfig says where environments live.
type RuntimeConfig struct {
	Driver  string `json:"driver"`  // "linux", which needs no daemon and is the default; "docker"; "podman"; "apple"
	Socket  string `json:"socket"`  // the engine's unix socket; for "apple", the path of the container program; required for an engine
	Image   string `json:"image"`   // reference of the image that environments have; required for an engine, "linux" shows the host's own files without
	Guest   string `json:"guest"`   // path of the static nod-guest; required for an engine
	Archive string `json:"archive"` // what image is made of when it is not there: a tar of a root file system; "linux" also takes an OCI layout and docker save
	Build   string `json:"build"`   // directory with a Containerfile that docker or podman build image from when it is not there
	Pull    bool   `json:"pull"`    // fetch an image that is not there from its registry
}

const (
	embeddedDriver = "linux"
	appleDriver    = "apple"
)

func (c RuntimeConfig) check() error {
	switch c.Driver {
	case "", embeddedDriver:
		if c.Socket != "" {
			return fmt.Errorf("runtime: only an engine has a socket")
		}
		if c.Build != "" {
			return fmt.Errorf("runtime: only docker and podman build images; save one that is built, and name it as archive")
		}
		if c.Image == "" && (c.Archive != "" || c.Pull) {
			return fmt.Errorf("runtime: an archive or a pull needs the image's reference")
		}
		for name, p := range map[string]string{"guest": c.Guest, "archive": c.Archive} {
			if p != "" && !filepath.IsAbs(p) {
				return fmt.Errorf("runtime.%s must be an absolute path", name)
			}
		}
		if c.Image != "" {
			if err := image.Check(c.Image); err != nil {
				return fmt.Errorf("runtime.image: %w", err)
			}
		}
	case docker.Docker, docker.Podman, appleDriver:
		if c.Socket == "" || c.Image == "" || !filepath.IsAbs(c.Guest) {
			return fmt.Errorf("runtime: %s needs socket, image and the absolute path of guest", c.Driver)
		}
	default:
		return fmt.Errorf("runtime.driver is %q: linux, docker, podman or apple", c.Driver)
	}
	return nil
}

// closer is what every driver that this program opens can do.
type closer interface {
	runtime.Driver
	Close() error
}

// openDriver opens the configured driver, whatever it can enforce. e is the template
// of each environment's proxy.
func openDriver(ctx context.Context, c RuntimeConfig, stateDir string, e egress.Config, log *slog.Logger) (closer, error) {
	if c.Driver == "" || c.Driver == embeddedDriver {
		return openEmbedded(c, stateDir, e, log)
	}
	if c.Driver == appleDriver {
		if c.Archive != "" || c.Build != "" || c.Pull {
			return nil, nod.E(nod.Invalid, "the apple driver takes an image that is there: no archive, no build, no pull", nil)
		}
		return apple.New(ctx, apple.Config{Program: c.Socket, StateDir: filepath.Join(stateDir, "vm"), Guest: c.Guest, Image: c.Image,
			Egress: e, Log: log})
	}
	return docker.New(ctx, docker.Config{Engine: c.Driver, Socket: c.Socket, StateDir: filepath.Join(stateDir, c.Driver), Guest: c.Guest,
		Image: c.Image, Archive: c.Archive, Build: c.Build, Pull: c.Pull, Egress: e, Log: log})
}

// provenDriver is openDriver, refused where this host cannot hold an environment:
// nothing weaker is tried.
func provenDriver(ctx context.Context, c RuntimeConfig, stateDir string, e egress.Config, log *slog.Logger) (closer, error) {
	d, err := openDriver(ctx, c, stateDir, e, log)
	if err != nil {
		return nil, err
	}
	if caps := d.Capabilities(ctx); !caps.Supported {
		err := &nod.Error{Code: nod.Unsupported, Msg: "this machine cannot hold an environment: " + strings.Join(caps.Missing, "; "), Hint: caps.Hint}
		if cerr := d.Close(); cerr != nil {
			err.Err = cerr
		}
		return nil, err
	}
	return d, nil
}
