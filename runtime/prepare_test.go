package runtime_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nod"
	"nod/runtime"
	"nod/runtime/egress"
)

type place struct{ root, workspace, home, secret string }

func newPlace(t *testing.T) place {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := place{root: root}
	for name, into := range map[string]*string{"workspace": &p.workspace, "home": &p.home, "secret": &p.secret} {
		*into = filepath.Join(root, name)
		if err := os.Mkdir(*into, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", filepath.Join(root, "nobody"))
	return p
}

func (p place) spec() runtime.Spec {
	return runtime.Spec{ID: "e1", Owner: "o", Image: runtime.HostImage, Workspace: p.workspace, Home: p.home}
}

func (p place) roots() runtime.Roots {
	return runtime.Roots{Allowed: []string{p.root}, Denied: []string{p.secret}}
}

func TestPreparedSourcesAreResolvedAndKnownByIdentity(t *testing.T) {
	p := newPlace(t)
	link := filepath.Join(p.root, "link")
	if err := os.Symlink(p.workspace, link); err != nil {
		t.Fatal(err)
	}
	s := p.spec()
	s.Workspace = link
	got, err := runtime.Prepare(s, p.roots())
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(p.workspace)
	if err != nil {
		t.Fatal(err)
	}
	if w := got.Workspace(); w.Path != p.workspace || !os.SameFile(w.Info, info) || got.Spec().Workspace != p.workspace {
		t.Errorf("workspace %+v of %+v", w, got.Spec())
	}
	if got.Image().Info != nil || got.Home().Target != runtime.HomePath || got.Policy() == nil || got.Digest() == "" {
		t.Errorf("prepared %+v", got)
	}
	direct, err := runtime.Prepare(p.spec(), p.roots())
	if err != nil || direct.Digest() != got.Digest() {
		t.Errorf("the same resolved spec has another digest: %v", err)
	}
	s.Egress = []egress.Rule{{Host: "example.com"}}
	other, err := runtime.Prepare(s, p.roots())
	if err != nil || other.Digest() == got.Digest() {
		t.Errorf("another spec has the same digest: %v", err)
	}
	s.Egress[0].Host = "changed.example"
	if other.Spec().Egress[0].Host != "example.com" {
		t.Error("a prepared spec changes with its source")
	}
}

func TestSourcesThatHandTheHostInAreForbidden(t *testing.T) {
	p := newPlace(t)
	home := filepath.Join(p.root, "nobody")
	for _, dir := range []string{home, filepath.Join(home, ".ssh"), filepath.Join(home, "code"), filepath.Join(p.secret, "below")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"to-etc": "/etc", "to-root": "/", "to-secret": p.secret, "to-home": home, "to-proc": "/proc/self/cwd"} {
		if err := os.Symlink(to, filepath.Join(p.root, name)); err != nil {
			t.Fatal(err)
		}
	}
	outside := t.TempDir()
	everywhere := p.roots()
	everywhere.Allowed = []string{"/"}
	for _, c := range []struct {
		source string
		roots  runtime.Roots
	}{
		{"/", everywhere}, {"/etc", everywhere}, {"/etc/ssl", everywhere}, {"/usr/share", everywhere}, {"/proc", everywhere}, {"/dev", everywhere},
		{"/tmp", everywhere}, {"/var", everywhere}, {"/home", everywhere},
		{home, p.roots()}, {filepath.Join(home, ".ssh"), p.roots()}, {p.root, p.roots()}, {p.secret, p.roots()}, {filepath.Join(p.secret, "below"), p.roots()},
		{filepath.Join(p.root, "to-etc"), everywhere}, {filepath.Join(p.root, "to-root"), everywhere}, {filepath.Join(p.root, "to-secret"), p.roots()},
		{filepath.Join(p.root, "to-home"), p.roots()}, {outside, p.roots()}, {p.workspace, runtime.Roots{}},
	} {
		s := p.spec()
		s.Home, s.Workspace = "", c.source
		if _, err := runtime.Prepare(s, c.roots); nod.CodeOf(err) != nod.Forbidden {
			t.Errorf("workspace %s: %v", c.source, err)
		}
	}
	s := p.spec()
	s.Workspace = filepath.Join(home, "code")
	if _, err := runtime.Prepare(s, p.roots()); err != nil {
		t.Errorf("a directory below the home: %v", err)
	}
}

func TestADeniedPathThatIsNotThereYetKeepsItsParentsOut(t *testing.T) {
	p := newPlace(t)
	r := p.roots()
	r.Denied = append(r.Denied, filepath.Join(p.workspace, "later", "secret"))
	if _, err := runtime.Prepare(p.spec(), r); nod.CodeOf(err) != nod.Forbidden {
		t.Errorf("the parent of a denied path: %v", err)
	}
}

func TestMountsWithSpecialFilesAreForbidden(t *testing.T) {
	p := newPlace(t)
	tools := filepath.Join(p.root, "tools")
	if err := os.MkdirAll(filepath.Join(tools, "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	s := p.spec()
	s.Mounts = []runtime.Mount{{Source: tools, Target: "/opt/tools"}}
	if _, err := runtime.Prepare(s, p.roots()); err != nil {
		t.Fatalf("a plain directory: %v", err)
	}
	// The path of a socket is short, wherever the test's own directory is.
	dir, err := os.MkdirTemp("", "nod")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "daemon.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r := p.roots()
	r.Allowed = append(r.Allowed, dir)
	for _, source := range []string{dir, filepath.Join(dir, "daemon.sock"), "/dev/null"} {
		s.Mounts[0].Source = source
		if _, err := runtime.Prepare(s, r); nod.CodeOf(err) != nod.Forbidden {
			t.Errorf("%s: %v", source, err)
		}
	}
}

func TestMalformedSpecsAreInvalid(t *testing.T) {
	p := newPlace(t)
	file := filepath.Join(p.root, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*runtime.Spec){
		"empty id":              func(s *runtime.Spec) { s.ID = "" },
		"id with a path":        func(s *runtime.Spec) { s.ID = "../e1" },
		"id in capitals":        func(s *runtime.Spec) { s.ID = "E1" },
		"long id":               func(s *runtime.Spec) { s.ID = strings.Repeat("a", 65) },
		"empty owner":           func(s *runtime.Spec) { s.Owner = "" },
		"owner with a line":     func(s *runtime.Spec) { s.Owner = "a\nb" },
		"relative workspace":    func(s *runtime.Spec) { s.Workspace = "workspace" },
		"no workspace":          func(s *runtime.Spec) { s.Workspace = "" },
		"missing workspace":     func(s *runtime.Spec) { s.Workspace += "/none" },
		"no image":              func(s *runtime.Spec) { s.Image = "" },
		"home is the workspace": func(s *runtime.Spec) { s.Home = s.Workspace },
		"home in the workspace": func(s *runtime.Spec) { s.Home = s.Workspace + "/h" },
		"negative limit":        func(s *runtime.Spec) { s.Limits.PIDs = -1 },
		"tiny memory":           func(s *runtime.Spec) { s.Limits.MemoryBytes = 1 },
		"egress to an address":  func(s *runtime.Spec) { s.Egress = []egress.Rule{{Host: "127.0.0.1"}} },
		"mount over /usr":       func(s *runtime.Spec) { s.Mounts = []runtime.Mount{{p.secret, "/usr/x"}} },
		"mount over the guest":  func(s *runtime.Spec) { s.Mounts = []runtime.Mount{{p.home, nod.GuestPath}} },
		"mount climbing":        func(s *runtime.Spec) { s.Mounts = []runtime.Mount{{p.home, "/opt/../usr"}} },
		"mount of all of /opt":  func(s *runtime.Spec) { s.Mounts = []runtime.Mount{{p.home, "/opt"}} },
		"two mounts, one place": func(s *runtime.Spec) { s.Mounts = []runtime.Mount{{file, "/opt/a"}, {file, "/opt/a/b"}} },
		"mount of the home":     func(s *runtime.Spec) { s.Mounts = []runtime.Mount{{p.home, "/opt/a"}} },
	} {
		if err := os.MkdirAll(filepath.Join(p.workspace, "h"), 0o755); err != nil {
			t.Fatal(err)
		}
		s := p.spec()
		change(&s)
		if _, err := runtime.Prepare(s, p.roots()); nod.CodeOf(err) != nod.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
