package linux

import (
	"log/slog"

	"nod/runtime/egress"
)

// Config is what the driver needs.
type Config struct {
	// StateDir is required: an absolute directory of this driver alone, made with
	// mode 0700. One process at a time holds it.
	StateDir string
	// Owner, when set, is the only owner whose specs are taken.
	Owner string
	// Guest is the binary that becomes PID 1: one that calls guest.Dispatch. Empty
	// is the running binary. Images other than the host's need a static one.
	Guest string
	// Image, when set, is the reference of the image that stands for
	// runtime.HostImage.
	Image string
	// Archive, when set, is a file or directory that image.Store.Load takes, unpacked
	// as Image when that is not there.
	Archive string
	// Pull lets the driver fetch an image that is not there from its registry.
	Pull bool
	// Landlock is the least version required; 0 means 1, a negative number none.
	Landlock int
	// CgroupParent is a version 2 cgroup directory delegated to this process. Empty
	// is its own cgroup.
	CgroupParent string
	// HostTools are host directories besides /usr that the host image shows at the
	// same path, read-only, such as "/opt".
	HostTools []string
	// Egress is the template of each environment's proxy; Policy and Environment
	// are set here. Without an Audit, verdicts go to Log.
	Egress egress.Config
	Log    *slog.Logger // nil discards
}
