package docker

import (
	"log/slog"
	"path/filepath"
	"strings"

	"nod"
	"nod/runtime/egress"
)

// Engines by their name, which is also the driver's.
const (
	Docker = "docker"
	Podman = "podman"
)

// Config is what the driver needs.
type Config struct {
	// Engine is Docker or Podman, required; an engine that says it is the other is
	// refused.
	Engine string
	// Socket is the absolute path of the engine's unix socket, or its unix:// form;
	// required. Anything that leads over a network is refused.
	Socket string
	// StateDir is required: an absolute directory of this driver alone, made with
	// mode 0700. One process at a time holds it; its containers are told from
	// others' by it.
	StateDir string
	// Owner, when set, is the only owner whose specs are taken.
	Owner string
	// Guest is a static binary that calls guest.Dispatch; required.
	Guest string
	// Image is the reference that stands for runtime.HostImage; required. What it
	// names must be in the engine, unless Archive or Pull says where it comes from.
	Image string
	// Archive, when set, is a tar of a root file system, imported as Image when the
	// engine does not have it.
	Archive string
	// Build, when set, is a directory with a Containerfile or Dockerfile, built as
	// Image when the engine does not have it.
	Build string
	// Pull lets the engine fetch an image that it does not have.
	Pull bool
	// Landlock is the least version required; 0 means 1, a negative number none.
	Landlock int
	// Egress is the template of each environment's proxy; Policy and Environment
	// are set here. Without an Audit, verdicts go to Log.
	Egress egress.Config
	Log    *slog.Logger // nil discards
}

// check completes c.
func (c *Config) check() error {
	path, err := socketPath(c.Socket)
	if err != nil {
		return err
	}
	c.Socket = path
	switch {
	case c.Engine != Docker && c.Engine != Podman:
		return nod.E(nod.Invalid, "the engine is docker or podman", nil)
	case !filepath.IsAbs(c.StateDir):
		return nod.E(nod.Invalid, "the runtime's state directory must be an absolute path", nil)
	case !filepath.IsAbs(c.Guest):
		return nod.E(nod.Invalid, "the guest binary must be an absolute path", nil)
	case !validReference(c.Image):
		return nod.E(nod.Invalid, "an image reference is required", nil)
	case c.Archive != "" && !filepath.IsAbs(c.Archive), c.Build != "" && !filepath.IsAbs(c.Build):
		return nod.E(nod.Invalid, "what the image is made of must be an absolute path", nil)
	case c.Archive != "" && c.Build != "":
		return nod.E(nod.Invalid, "an image is made of an archive or built, not both", nil)
	}
	switch {
	case c.Landlock == 0:
		c.Landlock = 1
	case c.Landlock < 0:
		c.Landlock = 0
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Egress.Log == nil {
		c.Egress.Log = c.Log
	}
	if c.Egress.Audit == nil {
		log := c.Log
		c.Egress.Audit = func(e egress.Event) { log.Info("egress", "event", e) }
	}
	return nil
}

// validReference reports whether s can stand in a path of the API.
func validReference(s string) bool { return s != "" && !strings.ContainsAny(s, " \t\n?#%*") }

// socketPath takes a path or its unix:// form. An engine over TCP is root on its
// machine for whoever reaches the port, and mounts would name another machine's
// files.
func socketPath(s string) (string, error) {
	path := strings.TrimPrefix(s, "unix://")
	if !filepath.IsAbs(path) || strings.Contains(path, "://") {
		return "", &nod.Error{Code: nod.Invalid, Msg: "the engine's socket must be an absolute path on this machine",
			Hint: "an engine over TCP or SSH cannot be used"}
	}
	return filepath.Clean(path), nil
}
