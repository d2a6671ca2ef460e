//go:build linux

package linux

import (
	"context"
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"nod"
	"nod/runtime"
)

// Build is Unsupported: steps of a build want to be root, which no environment has.
func (d *Driver) Build(context.Context, string, string) (string, error) {
	return "", &nod.Error{Code: nod.Unsupported, Msg: "the embedded driver builds no images",
		Hint: "build it with docker or podman, save it, and name the file as archive"}
}

// Capabilities starts an environment, attests it and ends it again.
func (d *Driver) Capabilities(ctx context.Context) runtime.Capabilities {
	c := runtime.Capabilities{Egress: "fdlistener", KillProof: "subreaper, then pid namespace", Limits: d.limiter.enforced()}
	if os.Geteuid() == 0 && quotas(d.cfg.StateDir) == nil {
		c.Limits = append(c.Limits, limitDisk)
	}
	a, err := d.try(ctx)
	c.Seen = a
	if err != nil {
		c.Missing, c.Hint = diagnose(err, sysctl)
		return c
	}
	c.Supported, c.Seccomp, c.LandlockABI = true, a.Seccomp, a.Landlock
	return c
}

func (d *Driver) try(ctx context.Context) (a nod.Attestation, err error) {
	dir, err := os.MkdirTemp(d.cfg.StateDir, trialPrefix)
	if err != nil {
		return a, nod.E(nod.Internal, "no directory for a trial", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p, err := runtime.Prepare(runtime.Spec{ID: "trial", Owner: "trial", Image: runtime.HostImage, Workspace: dir}, runtime.Roots{Allowed: []string{dir}})
	if err != nil {
		return a, err
	}
	root, err := d.rootOf(ctx, p)
	if err != nil {
		return a, err
	}
	uid, err := d.newUID()
	if err != nil {
		return a, err
	}
	// It ends here and has no state; what a killed process leaves of it dies with it.
	i, a, err := d.launch(ctx, p, root, uid, func(process) error { return nil })
	if err != nil {
		return a, err
	}
	return a, i.stop(context.WithoutCancel(ctx))
}

// sysctl returns the value of a kernel setting, or "".
func sysctl(name string) string {
	b, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// startError gives an error of the start its code: what the host forbids is
// Unsupported, with the setting that would change it.
func startError(err error) error {
	for _, errno := range []unix.Errno{unix.EPERM, unix.EACCES, unix.ENOSYS, unix.EINVAL, unix.EOPNOTSUPP, unix.ENOSPC, unix.EUSERS} {
		if errors.Is(err, errno) {
			_, hint := diagnose(err, sysctl)
			return &nod.Error{Code: nod.Unsupported, Msg: "this host does not let an environment start", Hint: hint, Err: err}
		}
	}
	return nod.E(nod.Unavailable, "the environment does not start", err)
}

// diagnose turns an error of the start into what is missing and how to get it.
func diagnose(err error, setting func(string) string) (missing []string, hint string) {
	add := func(line, how string) {
		missing = append(missing, line)
		if hint == "" {
			hint = how
		}
	}
	var g *guestError
	inside := errors.As(err, &g)
	if setting("kernel.unprivileged_userns_clone") == "0" {
		add("unprivileged user namespaces: kernel.unprivileged_userns_clone is 0", "sysctl kernel.unprivileged_userns_clone=1 (Debian)")
	}
	if setting("user.max_user_namespaces") == "0" {
		add("user namespaces: user.max_user_namespaces is 0", "sysctl user.max_user_namespaces=15000")
	}
	if setting("kernel.apparmor_restrict_unprivileged_userns") == "1" {
		add("unprivileged user namespaces: AppArmor restricts them (kernel.apparmor_restrict_unprivileged_userns is 1)",
			"add an AppArmor profile with userns for the nod binary, or sysctl kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu)")
	}
	switch {
	case inside && g.Step == "mount /proc":
		add("a fresh /proc: the host's own is partly covered, as inside a container", "run nod on the machine itself, or in a container with an unmasked /proc (systempaths=unconfined)")
	case inside && g.Step == "landlock":
		add("landlock: "+g.Err, "boot with landlock in the lsm= list, or lower the required version in the configuration")
	case inside && g.Step == "pivot_root":
		add("pivot_root: the root is an initial ramfs", "boot from a file system that can be left")
	case len(missing) > 0:
	case inside:
		add(g.Step+": "+g.Err, "")
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EUSERS), errors.Is(err, unix.EINVAL):
		add("user namespaces: the kernel, a container's seccomp profile or a security module refuses them", "enable CONFIG_USER_NS, or run nod outside a container")
	default:
		add(nod.PublicMessage(err), "")
	}
	return missing, hint
}
