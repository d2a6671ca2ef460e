package docker

import "encoding/json"

// deniedCalls is refused by the engine's filter. The guest installs its own, which
// knows more, on top; this one holds from the container's first instruction on.
var deniedCalls = []string{
	"ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp", "process_madvise",
	"unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "open_tree", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr",
	"open_by_handle_at", "name_to_handle_at", "fanotify_init", "fanotify_mark",
	"bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register", "keyctl", "add_key", "request_key",
	"kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot", "swapon", "swapoff", "acct", "quotactl", "quotactl_fd",
	"syslog", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "sethostname", "setdomainname", "vhangup", "personality", "lookup_dcookie",
	"nfsservctl", "mbind", "migrate_pages", "move_pages", "set_mempolicy", "set_mempolicy_home_node",
	"iopl", "ioperm", "modify_ldt", "uselib", "ustat", "sysfs", "_sysctl", "create_module", "get_kernel_syms", "query_module",
}

const (
	errnoPerm         = 1
	errnoNoSystemCall = 38
	errnoNoFamily     = 97
	lastPlainFamily   = 16 // AF_NETLINK
	ioctlTIOCSTI      = 0x5412
	ioctlTIOCLINUX    = 0x541C
)

// allowedFamilies are AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK.
var allowedFamilies = map[uint64]bool{1: true, 2: true, 10: true, 16: true}

type seccompArg struct {
	Index    int    `json:"index"`
	Value    uint64 `json:"value"`
	ValueTwo uint64 `json:"valueTwo"`
	Op       string `json:"op"`
}

type seccompRule struct {
	Names    []string     `json:"names"`
	Action   string       `json:"action"`
	ErrnoRet int          `json:"errnoRet"`
	Args     []seccompArg `json:"args"`
}

// seccompProfile is the profile in the form that both engines take. Calls of any
// other ABI end the process, as libseccomp does unless it is told otherwise.
func seccompProfile() (string, error) {
	refuse := func(errno int, args []seccompArg, names ...string) seccompRule {
		return seccompRule{Names: names, Action: "SCMP_ACT_ERRNO", ErrnoRet: errno, Args: args}
	}
	rules := []seccompRule{refuse(errnoPerm, nil, deniedCalls...), refuse(errnoNoSystemCall, nil, "clone3")}
	// CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET.
	for _, flag := range []uint64{0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000} {
		rules = append(rules, refuse(errnoPerm, []seccompArg{{Index: 0, Value: flag, ValueTwo: flag, Op: "SCMP_CMP_MASKED_EQ"}}, "clone"))
	}
	for _, request := range []uint64{ioctlTIOCSTI, ioctlTIOCLINUX} {
		rules = append(rules, refuse(errnoPerm, []seccompArg{{Index: 1, Value: 0xffffffff, ValueTwo: request, Op: "SCMP_CMP_MASKED_EQ"}}, "ioctl"))
	}
	for _, call := range []string{"socket", "socketpair"} {
		for family := range uint64(lastPlainFamily) {
			if !allowedFamilies[family] {
				rules = append(rules, refuse(errnoNoFamily, []seccompArg{{Index: 0, Value: family, Op: "SCMP_CMP_EQ"}}, call))
			}
		}
		rules = append(rules, refuse(errnoNoFamily, []seccompArg{{Index: 0, Value: lastPlainFamily, Op: "SCMP_CMP_GT"}}, call))
	}
	blob, err := json.Marshal(map[string]any{
		"defaultAction": "SCMP_ACT_ALLOW",
		"archMap":       []map[string]any{{"architecture": "SCMP_ARCH_X86_64"}, {"architecture": "SCMP_ARCH_AARCH64"}},
		"syscalls":      rules,
	})
	return string(blob), err
}
