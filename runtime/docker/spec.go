package docker

import (
	"fmt"
	"strconv"

	"nod"
	"nod/runtime"
	"nod/runtime/guest"
)

// Labels of what the driver makes. They tell whose a container is; nothing else is
// ever touched.
const (
	labelSupervisor = "nod.supervisor" // of the state directory
	labelOwner      = "nod.owner"
	labelEnv        = "nod.env"
	labelSpec       = "nod.spec"
)

const (
	defaultTmp = 1 << 30
	shmBytes   = 64 << 20
	probeBytes = 64 << 10
	agent      = "1000:1000"
)

// container is the body of a create.
type container struct {
	Image        string
	User         string
	Entrypoint   []string
	Cmd          []string
	Env          []string
	WorkingDir   string
	Hostname     string
	Labels       map[string]string
	Healthcheck  healthcheck
	StopSignal   string
	AttachStdout bool
	HostConfig   hostConfig
}

type healthcheck struct{ Test []string }

type hostConfig struct {
	NetworkMode    string
	IpcMode        string
	CgroupnsMode   string
	UsernsMode     string `json:",omitempty"`
	ReadonlyRootfs bool
	Privileged     bool
	CapDrop        []string
	SecurityOpt    []string
	Mounts         []mount
	Tmpfs          map[string]string
	ShmSize        int64
	Memory         int64 `json:",omitempty"`
	MemorySwap     int64 `json:",omitempty"`
	NanoCpus       int64 `json:",omitempty"`
	PidsLimit      int64 `json:",omitempty"`
	Ulimits        []ulimit
	Dns            []string
	LogConfig      logConfig
	RestartPolicy  restartPolicy
	AutoRemove     bool
}

type mount struct {
	Type        string
	Source      string
	Target      string
	ReadOnly    bool
	BindOptions bindOptions
}

type bindOptions struct {
	Propagation  string
	NonRecursive bool
}

type ulimit struct {
	Name       string
	Soft, Hard int64
}

type logConfig struct {
	Type   string
	Config map[string]string
}

type restartPolicy struct{ Name string }

// body says everything about p's container. What it leaves to the engine's default
// is nothing that isolates.
func (d *Driver) body(p runtime.PreparedSpec, image string) container {
	s := p.Spec()
	tmp := s.Limits.TmpBytes
	if tmp == 0 {
		tmp = defaultTmp
	}
	h := hostConfig{
		NetworkMode: "none", IpcMode: "private", CgroupnsMode: "private", ReadonlyRootfs: true,
		CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges", "seccomp=" + d.seccomp},
		// Docker's own default is noexec and has no bound.
		Tmpfs:   map[string]string{"/tmp": d.tmpfs("exec", tmp), guest.ProbeDir: d.tmpfs("noexec", probeBytes)},
		ShmSize: shmBytes, Ulimits: d.ulimits(), Dns: []string{"127.0.0.1"},
		Memory: s.Limits.MemoryBytes, MemorySwap: s.Limits.MemoryBytes, NanoCpus: int64(s.Limits.CPUs * 1e9), PidsLimit: int64(s.Limits.PIDs),
		LogConfig: logConfig{"json-file", map[string]string{"max-size": "1m"}}, RestartPolicy: restartPolicy{"no"},
	}
	if d.engine.podman {
		h.LogConfig.Config = nil // podman's log has no options of this name
	}
	if d.keepID {
		h.UsernsMode = "keep-id:uid=1000,gid=1000"
	}
	for _, src := range d.places(p) {
		h.Mounts = append(h.Mounts, mount{
			Type: "bind", Source: src.Path, Target: src.Target, ReadOnly: !writable(src.Target),
			BindOptions: bindOptions{Propagation: "rprivate", NonRecursive: writable(src.Target)},
		})
	}
	h.Mounts = append(h.Mounts,
		mount{Type: "bind", Source: d.guest, Target: nod.GuestPath, ReadOnly: true, BindOptions: bindOptions{Propagation: "rprivate"}},
		mount{Type: "bind", Source: d.socketDir(s.ID), Target: guest.SocketDir, ReadOnly: true, BindOptions: bindOptions{Propagation: "rprivate"}})
	if p.Home().Info == nil {
		h.Tmpfs[runtime.HomePath] = d.tmpfs("exec", tmp)
	}
	return container{
		Image: image, User: agent, Entrypoint: []string{nod.GuestPath}, Cmd: []string{guest.RoleContain, strconv.Itoa(d.cfg.Landlock)},
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"}, WorkingDir: "/", Hostname: "nod", StopSignal: "SIGKILL",
		Labels:      map[string]string{labelSupervisor: d.supervisor, labelOwner: s.Owner, labelEnv: s.ID, labelSpec: p.Digest()},
		Healthcheck: healthcheck{[]string{"NONE"}}, HostConfig: h,
	}
}

// tmpfs bounds a mount. Where the image has the directory, its mode wins; Docker
// takes an owner as well.
func (d *Driver) tmpfs(exec string, size int64) string {
	options := fmt.Sprintf("rw,nosuid,nodev,%s,size=%d,mode=1777", exec, size)
	if !d.engine.podman {
		options += fmt.Sprintf(",uid=%d,gid=%d", agentUID, agentUID)
	}
	return options
}

// places are p's own sources, in the order in which they are mounted.
func (d *Driver) places(p runtime.PreparedSpec) []runtime.Source {
	list := []runtime.Source{p.Workspace()}
	if p.Home().Info != nil {
		list = append(list, p.Home())
	}
	return append(list, p.Mounts()...)
}

func writable(target string) bool {
	return target == runtime.WorkspacePath || target == runtime.HomePath
}
