package guest

import "nod"

// Boot is what PID 1 builds its environment from. It crosses a socket, never an
// argument list or an environment variable.
type Boot struct {
	Image     string   `json:"image"`     // "" is the host's /usr, else Tree or Path of Binds[0]
	Binds     []Bind   `json:"binds"`     // sources the host has judged
	EtcFiles  []File   `json:"etc_files"` // generated files below /etc
	HomeTmp   bool     `json:"home_tmp"`  // the home is a tmpfs
	TmpBytes  int64    `json:"tmp_bytes"`
	PIDs      int      `json:"pids"` // also the process limit of the user namespace; 0 is none
	Landlock  int      `json:"landlock"`
	Proxy     string   `json:"proxy"` // address of the egress listener
	HostTools []string `json:"host_tools"`
}

// Bind is one mount. Tree, when not zero, is the number of a descriptor that came
// with the Boot, the first being 1: a detached mount that the host made; else Path
// is opened by the guest with the host user's own rights and must be the file that
// Dev and Ino name.
type Bind struct {
	Tree     int    `json:"tree"`
	Path     string `json:"path"`
	Dev      uint64 `json:"dev"`
	Ino      uint64 `json:"ino"`
	Target   string `json:"target"`
	Dir      bool   `json:"dir"`
	Writable bool   `json:"writable"`
}

// File is a generated file, readable by everyone in the environment.
type File struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// Ready says which optional defences took and, from the PID 1 of an embedded
// environment, what it saw of its own isolation.
type Ready struct {
	Landlock int       `json:"landlock_abi"`
	Saw      *Sighting `json:"saw,omitempty"`
}

// Failure says which step of the start did not work.
type Failure struct {
	Step  string `json:"step"`
	Err   string `json:"err"`
	Errno int    `json:"errno"`
}

// Swept says how many processes a sweep ended.
type Swept struct {
	Killed int `json:"killed"`
}

// Command is what a runner starts. Env is complete.
type Command struct {
	Argv     []string    `json:"argv"`
	Env      []string    `json:"env"`
	Dir      string      `json:"dir"`
	Terminal *nod.Window `json:"terminal,omitempty"`
}

// Started answers a Command: Err is empty when the process runs.
type Started struct {
	Code     nod.Code `json:"code"`
	Err      string   `json:"err"`
	Terminal bool     `json:"terminal"` // it has one
	Runner   uint64   `json:"runner"`   // identity of the runner, for a sweep of a container: pid << 32 | low half of its start time
}

// Exit is how a Command ended. Reaped is true once the kernel said that no child
// of the runner, to which every orphan falls, is left.
type Exit struct {
	Code   int  `json:"code"`
	Signal int  `json:"signal"`
	Killed int  `json:"killed"` // descendants ended with it
	Reaped bool `json:"reaped"`
}

// Sighting is what the probe reports: the facts of an attestation, the namespaces
// by their kernel names, and what it tried in vain or not.
type Sighting struct {
	Attestation nod.Attestation   `json:"attestation"`
	Namespaces  map[string]string `json:"namespaces"`
	Notes       []string          `json:"notes"`
	Files       map[string]string `json:"files"`  // "device:inode" of each path that was asked for
	Limits      SeenLimits        `json:"limits"` // of the control group it runs in
}

// SeenLimits are limits as the kernel states them inside; 0 is none, or none seen.
type SeenLimits struct {
	MemoryBytes int64   `json:"memory_bytes"`
	CPUs        float64 `json:"cpus"`
	PIDs        int64   `json:"pids"`
}

// NamespaceKinds are the kernel's names of the namespaces that an environment has
// for itself.
var NamespaceKinds = []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"}
