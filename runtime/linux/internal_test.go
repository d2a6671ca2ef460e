//go:build linux

package linux

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"nod"
	"nod/runtime"
	"nod/runtime/guest"
	"nod/runtime/runtimetest"
)

func TestCgroupsAreFoundBelowTheProcessesOwn(t *testing.T) {
	v2 := t.TempDir()
	if err := os.WriteFile(filepath.Join(v2, "cgroup.controllers"), []byte("cpuset cpu io memory pids\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	line := func(root, at, kind, options string) string {
		return fmt.Sprintf("30 25 0:26 %s %s rw,nosuid - %s %s rw,%s\n", root, at, kind, kind, options)
	}
	for name, c := range map[string]struct {
		mounts, own, parent string
		want                map[string]hierarchy
	}{
		"version 1": {
			line("/", "/cg/memory", "cgroup", "memory") + line("/", "/cg/cpu", "cgroup", "cpu,cpuacct") + line("/", "/cg/pids", "cgroup", "pids"),
			"4:memory:/user/x\n3:cpu,cpuacct:/\n2:pids:/\n", "",
			map[string]hierarchy{"memory": {dir: "/cg/memory/user/x"}, "cpu": {dir: "/cg/cpu"}, "pids": {dir: "/cg/pids"}},
		},
		"version 1 in a container": {
			line("/docker/abc", "/cg/memory", "cgroup", "memory"), "4:memory:/docker/abc\n", "",
			map[string]hierarchy{"memory": {dir: "/cg/memory"}},
		},
		"version 1 outside the mount": {
			line("/docker/abc", "/cg/memory", "cgroup", "memory"), "4:memory:/other\n", "", map[string]hierarchy{},
		},
		"version 2": {
			line("/", v2, "cgroup2", ""), "0::/\n", "",
			map[string]hierarchy{"memory": {v2, true}, "cpu": {v2, true}, "pids": {v2, true}},
		},
		"version 2 delegated": {
			line("/", "/nowhere", "cgroup2", ""), "0::/a\n", v2,
			map[string]hierarchy{"memory": {v2, true}, "cpu": {v2, true}, "pids": {v2, true}},
		},
		"version 2 beside version 1": {
			line("/", v2, "cgroup2", "") + line("/", "/cg/memory", "cgroup", "memory"), "4:memory:/\n0::/\n", "",
			map[string]hierarchy{"memory": {v2, true}, "cpu": {v2, true}, "pids": {v2, true}},
		},
		"none": {"garbage\n", "garbage\n", "", map[string]hierarchy{}},
	} {
		got := hierarchies(c.mounts, c.own, c.parent)
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(hierarchy{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestLimitsAreReadBack(t *testing.T) {
	s := runtime.Limits{MemoryBytes: 64<<20 + 5, CPUs: 1.5, PIDs: 50}
	for name, c := range map[string]struct {
		h     hierarchy
		files map[string]string
	}{
		"version 2": {hierarchy{v2: true}, map[string]string{"memory.max": "67108869", "memory.swap.max": "0", "memory.oom.group": "1", "cpu.max": "150000 100000", "pids.max": "50"}},
		"version 1": {hierarchy{}, map[string]string{"memory.limit_in_bytes": "67108869", "memory.memsw.limit_in_bytes": "67108869", "cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": "150000", "pids.max": "50"}},
	} {
		dir := t.TempDir()
		for f := range c.files {
			if err := os.WriteFile(filepath.Join(dir, f), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, kind := range limitKinds {
			if err := c.h.set(dir, kind, s); err != nil {
				t.Errorf("%s: %s: %v", name, kind, err)
			}
		}
		for f, want := range c.files {
			if got, err := os.ReadFile(filepath.Join(dir, f)); err != nil || string(got) != want {
				t.Errorf("%s: %s holds %q, %v; want %q", name, f, got, err, want)
			}
		}
		// A file that swallows what is written reads back as something else.
		for _, f := range []string{"memory.max", "memory.limit_in_bytes", "pids.max"} {
			if _, ok := c.files[f]; !ok {
				continue
			}
			if err := errors.Join(os.Remove(filepath.Join(dir, f)), os.Symlink("/dev/null", filepath.Join(dir, f))); err != nil {
				t.Fatal(err)
			}
		}
		for _, kind := range []string{limitMemory, limitPIDs} {
			if err := c.h.set(dir, kind, s); err == nil {
				t.Errorf("%s: a %s limit that did not take was accepted", name, kind)
			}
		}
	}
}

func TestRequiredLimitsThatCannotBeEnforcedAreRefused(t *testing.T) {
	l := &limiter{ok: []string{limitPIDs}}
	for _, c := range []struct {
		s  runtime.Limits
		ok bool
	}{
		{runtime.Limits{PIDs: 50, Required: true}, true},
		{runtime.Limits{Required: true}, true},
		{runtime.Limits{MemoryBytes: 1 << 30}, true},
		{runtime.Limits{MemoryBytes: 1 << 30, Required: true}, false},
		{runtime.Limits{PIDs: 50, CPUs: 1, Required: true}, false},
	} {
		err := l.check(c.s)
		if (err == nil) != c.ok || err != nil && nod.CodeOf(err) != nod.Unsupported {
			t.Errorf("%+v: %v", c.s, err)
		}
	}
}

func TestWhatIsMissingIsNamedWithItsRemedy(t *testing.T) {
	for name, c := range map[string]struct {
		err      error
		settings map[string]string
		missing  string
		hint     string
	}{
		"Debian":      {unix.EPERM, map[string]string{"kernel.unprivileged_userns_clone": "0"}, "unprivileged_userns_clone is 0", "sysctl kernel.unprivileged_userns_clone=1"},
		"Ubuntu":      {unix.EACCES, map[string]string{"kernel.apparmor_restrict_unprivileged_userns": "1"}, "AppArmor", "apparmor_restrict_unprivileged_userns=0"},
		"exhausted":   {unix.ENOSPC, map[string]string{"user.max_user_namespaces": "0"}, "max_user_namespaces is 0", "sysctl user.max_user_namespaces"},
		"container":   {unix.EPERM, nil, "user namespaces", "outside a container"},
		"masked proc": {&guestError{guest.Failure{Step: "mount /proc", Err: "operation not permitted", Errno: int(unix.EPERM)}}, nil, "/proc", "unmasked /proc"},
		"landlock":    {&guestError{guest.Failure{Step: "landlock", Err: "version 0", Errno: int(unix.EOPNOTSUPP)}}, nil, "landlock", "lsm="},
	} {
		missing, hint := diagnose(fmt.Errorf("start: %w", c.err), func(n string) string { return c.settings[n] })
		if !strings.Contains(strings.Join(missing, "\n"), c.missing) || !strings.Contains(hint, c.hint) {
			t.Errorf("%s: %q, hint %q", name, missing, hint)
		}
		if got := nod.CodeOf(startError(c.err)); got != nod.Unsupported {
			t.Errorf("%s has code %s", name, got)
		}
	}
}

func source(t *testing.T, dir string) runtime.Source {
	t.Helper()
	info, err := os.Lstat(dir)
	if err != nil {
		t.Fatal(err)
	}
	return runtime.Source{Path: dir, Info: info}
}

func TestOnlyATreeThatIsWhollyFreshIsGivenAway(t *testing.T) {
	if os.Geteuid() != 0 {
		runtimetest.Missing(t, "root, who alone gives files away")
	}
	const uid = 54322
	dir := t.TempDir()
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ownerOf := func(p string) uint32 {
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			t.Fatal(err)
		}
		return st.Uid
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "a", "b"), 0o755), os.WriteFile(filepath.Join(dir, "a", "f"), nil, 0o600),
		os.Symlink(victim, filepath.Join(dir, "a", "link")), os.Symlink("/etc", filepath.Join(dir, "dirlink")),
		os.Link(filepath.Join(dir, "a", "f"), filepath.Join(dir, "a", "g"))); err != nil {
		t.Fatal(err)
	}
	if err := runtime.GiveTree(source(t, dir), uid, nil); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"", "a", "a/b", "a/f", "a/g", "a/link", "dirlink"} {
		if got := ownerOf(filepath.Join(dir, p)); got != uid {
			t.Errorf("%q belongs to %d", p, got)
		}
	}
	for _, p := range []string{victim, "/etc"} {
		if ownerOf(p) == uid {
			t.Errorf("%s was given away through a link", p)
		}
	}
	// A hard link out of the tree would give the file away elsewhere too.
	other := t.TempDir()
	if err := os.Link(victim, filepath.Join(other, "hard")); err != nil {
		t.Fatal(err)
	}
	if err := runtime.GiveTree(source(t, other), uid, nil); nod.CodeOf(err) != nod.Forbidden || ownerOf(victim) == uid {
		t.Errorf("a hard link to another place: %v, owner %d", err, ownerOf(victim))
	}
	device := t.TempDir()
	if err := unix.Mknod(filepath.Join(device, "null"), unix.S_IFCHR|0o600, 1<<8|3); err != nil {
		t.Fatal(err)
	}
	if err := runtime.GiveTree(source(t, device), uid, nil); nod.CodeOf(err) != nod.Forbidden {
		t.Errorf("a device: %v", err)
	}
	// Another directory in the source's place.
	swapped := filepath.Join(t.TempDir(), "s")
	if err := os.Mkdir(swapped, 0o755); err != nil {
		t.Fatal(err)
	}
	src := source(t, swapped)
	if err := errors.Join(os.Rename(swapped, swapped+"-old"), os.Mkdir(swapped, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := runtime.GiveTree(src, uid, nil); nod.CodeOf(err) != nod.Forbidden {
		t.Errorf("a directory that was swapped: %v", err)
	}
}
