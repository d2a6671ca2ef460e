package runtime

import "nod/runtime/egress"

// HostImage is the image that needs no download: the host's own /usr, read-only,
// under a synthesised /etc.
const HostImage = "host"

// Where every environment has its directories, whatever the driver.
const (
	WorkspacePath = "/workspace"
	HomePath      = "/home/agent"
	ProxyAddress  = "127.0.0.1:3128"
)

// Spec asks for one environment. Prepare turns it into a PreparedSpec.
type Spec struct {
	ID    string // 1 to 64 of [a-z0-9-], starting with a letter or digit
	Owner string // the supervisor it belongs to; as ID, at most 128 characters
	Image string // HostImage, the absolute path of an unpacked root directory, or a reference such as "debian:12"

	Workspace string        // host directory, read-write at WorkspacePath
	Home      string        // host directory, read-write at HomePath; empty is a tmpfs
	Mounts    []Mount       // further read-only directories or files, at most 32
	Limits    Limits        //
	Egress    []egress.Rule // what the proxy lets through; nil is nothing
}

// Mount is a host directory or file seen read-only at Target, an absolute path
// inside the environment below /opt, /srv, /mnt or HomePath.
type Mount struct {
	Source string
	Target string
}

// Limits bounds what an environment may use. A zero number is no limit, except
// for TmpBytes, which always holds.
type Limits struct {
	MemoryBytes int64   // resident memory and swap together
	CPUs        float64 // cores
	PIDs        int     // processes and threads
	DiskBytes   int64   // of the workspace, and of a home that is a directory: together where they share a file system
	TmpBytes    int64   // of /tmp, and of a home without a directory; 0 is 1 GiB
	// Required refuses the environment when one of the above cannot be enforced
	// and read back. Otherwise the driver's Capabilities say which are.
	Required bool
}

// Roots says where mount sources may lie.
type Roots struct {
	Allowed []string // sources must resolve to inside one of these; none allows nothing
	Denied  []string // and neither to, nor to inside, nor to a parent of one of these
}
