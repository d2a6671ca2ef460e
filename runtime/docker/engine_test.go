//go:build linux

package docker

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"nod/runtime/runtimetest"
)

// engineRole is PID 1 of the namespaces in which a test's engine lives: it sees
// the host's files, has no network, and with it everything of the engine ends.
const engineRole = "nod-test-engine"

// engineInit mounts what an engine needs for itself, runs it and reaps.
func engineInit(run string, argv []string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	for _, m := range []struct{ source, target, kind string }{{"proc", "/proc", "proc"}, {"tmpfs", "/run", "tmpfs"}} {
		if err := unix.Mount(m.source, m.target, m.kind, unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
			return err
		}
	}
	if lo, err := net.InterfaceByName("lo"); err == nil && lo.Flags&net.FlagUp == 0 {
		if err := exec.Command("ip", "link", "set", "lo", "up").Run(); err != nil {
			return err
		}
	}
	if err := errors.Join(beside(run), serveRegistry(run)); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(run, "log"))
	if err != nil {
		return err
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, unix.SIGTERM)
	p, err := os.StartProcess(argv[0], argv, &os.ProcAttr{Env: os.Environ(), Files: []*os.File{nil, log, log}})
	if err != nil {
		return err
	}
	go func() {
		<-end
		_ = p.Signal(unix.SIGTERM) // one that has ended needs none
	}()
	for {
		pid, err := unix.Wait4(-1, nil, 0, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || pid == p.Pid {
			return err
		}
	}
}

// beside serves names and connections where an engine and its containers would
// reach them, shows that it does, and makes itself the machine's name server. Each
// packet but the shown ones is a line in a file.
func beside(run string) error {
	hits, err := os.Create(filepath.Join(run, "canary"))
	if err != nil {
		return err
	}
	say := func(what string) { _, _ = io.WriteString(hits, what+"\n") } // a file that is open
	packets, err := net.ListenPacket("udp", "0.0.0.0:53")
	if err != nil {
		return err
	}
	go func() {
		for buf := make([]byte, 512); ; {
			n, from, err := packets.ReadFrom(buf)
			if err != nil {
				return
			}
			say("packet")
			_, _ = packets.WriteTo(buf[:n], from)
		}
	}()
	for _, address := range []string{"0.0.0.0:53", "0.0.0.0:9999", "0.0.0.0:80"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return err
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				say("connection")
				_, _ = io.WriteString(c, "x")
				_ = c.Close()
			}
		}()
	}
	for network, address := range map[string]string{"udp": "127.0.0.1:53", "tcp": "127.0.0.1:9999"} {
		c, err := net.Dial(network, address)
		if err != nil {
			return err
		}
		if _, err := io.WriteString(c, "x"); err != nil {
			return err
		}
		if _, err := c.Read(make([]byte, 1)); err != nil {
			return err
		}
		if err := c.Close(); err != nil {
			return err
		}
	}
	names := filepath.Join(run, "resolv.conf")
	if err := os.WriteFile(names, []byte("nameserver 127.0.0.1\n"), 0o644); err != nil {
		return err
	}
	return unix.Mount(names, "/etc/resolv.conf", "", unix.MS_BIND, "")
}

// canary is how many packets have come to beside's servers since their control.
func (e *testEngine) canary(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(e.socket), "canary"))
	if err != nil {
		t.Fatal(err)
	}
	const control = 2
	lines := strings.Count(string(text), "\n")
	if lines < control {
		t.Fatalf("the servers beside the engine have not been shown to answer: %q", text)
	}
	return lines - control
}

// testEngine is an engine that a test started.
type testEngine struct {
	name   string
	socket string
	log    string
}

// startEngine starts an engine of this test's own and ends it with the test.
func startEngine(t testing.TB, name string) *testEngine {
	t.Helper()
	if os.Geteuid() != 0 {
		runtimetest.Missing(t, "root, who alone starts an engine")
	}
	need := map[string][]string{Docker: {"dockerd", "containerd", "runc", "iptables", "ip"}, Podman: {"podman", "runc", "conmon"}}[name]
	for _, program := range need {
		if _, err := exec.LookPath(program); err != nil {
			runtimetest.Missing(t, program)
		}
	}
	dir, err := os.MkdirTemp("", "nod-engine-")
	if err != nil {
		t.Fatal(err)
	}
	e := &testEngine{name: name, socket: filepath.Join(dir, "s"), log: filepath.Join(dir, "log")}
	at := func(parts ...string) string { return filepath.Join(append([]string{dir}, parts...)...) }
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + dir, "TMPDIR=" + dir}
	program, err := exec.LookPath(need[0])
	if err != nil {
		t.Fatal(err)
	}
	parent := "nod-test-" + filepath.Base(dir)
	argv := []string{program, "--data-root", at("data"), "--exec-root", at("exec"), "--pidfile", at("pid"), "--host", "unix://" + e.socket,
		"--bridge", "none", "--iptables=false", "--ip6tables=false", "--cgroup-parent", parent}
	if name == Podman {
		config := "[containers]\ndefault_ulimits=[\"nofile=4096:4096\",\"nproc=4096:4096\"]\n" +
			"[engine]\nruntime=\"runc\"\ncgroup_manager=\"cgroupfs\"\nevents_logger=\"file\"\n[network]\nnetwork_backend=\"netavark\"\n"
		policy := at(".config", "containers", "policy.json")
		if err := errors.Join(os.WriteFile(at("containers.conf"), []byte(config), 0o600), os.WriteFile(at("registries.conf"), []byte(registriesConf), 0o600),
			os.MkdirAll(filepath.Dir(policy), 0o700), os.WriteFile(policy, []byte(`{"default":[{"type":"insecureAcceptAnything"}]}`), 0o600)); err != nil {
			t.Fatal(err)
		}
		env = append(env, "CONTAINERS_CONF="+at("containers.conf"), "CONTAINERS_REGISTRIES_CONF="+at("registries.conf"))
		argv = []string{program, "--root", at("data"), "--runroot", at("exec"), "--storage-driver", "overlay", "--cgroup-manager", "cgroupfs", "--runtime", "runc",
			"system", "service", "--time", "0", "unix://" + e.socket}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{engineRole, dir}, argv...)...)
	cmd.Env = env
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC, Pdeathsig: unix.SIGKILL}
	begun := make(chan error, 1)
	ended := make(chan struct{})
	go func() { // the thread that started it must live as long: its death is the signal
		lockThread()
		defer close(ended)
		err := cmd.Start()
		begun <- err
		if err == nil {
			_ = cmd.Wait() // by a signal, mostly
		}
	}()
	if err := <-begun; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(unix.SIGTERM)
		select {
		case <-ended:
		case <-time.After(15 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			text, _ := os.ReadFile(e.log)
			t.Logf("%s said: %s", name, text[max(0, len(text)-4000):])
		}
		e.cleanUp(t, dir, parent)
	})
	for deadline := time.Now().Add(2 * time.Minute); ; {
		if c, err := net.Dial("unix", e.socket); err == nil {
			_ = c.Close()
			return e
		}
		select {
		case <-ended:
			t.Fatalf("%s ended", name)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not listen", name)
		}
	}
}

// cleanUp removes what a killed engine leaves: its directory and control groups.
func (e *testEngine) cleanUp(t testing.TB, dir, parent string) {
	if err := os.RemoveAll(dir); err != nil {
		t.Errorf("remove the engine's directory: %v", err)
	}
	for _, pattern := range []string{"/sys/fs/cgroup/*/" + parent + "*/*", "/sys/fs/cgroup/*/" + parent + "*", "/sys/fs/cgroup/" + parent + "*/*", "/sys/fs/cgroup/" + parent + "*"} {
		list, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range list {
			if info, err := os.Lstat(p); err == nil && info.IsDir() {
				_ = syscall.Rmdir(p) // one that is used says so by staying
			}
		}
	}
}

// tools are what the suite's commands use inside.
var tools = []string{"sh", "bash", "id", "env", "cat", "ls", "sleep", "setsid", "nohup", "grep", "tr", "head", "tail", "wc", "yes", "true", "mkdir", "mv", "test", "echo", "stty", "tty"}

var library = regexp.MustCompile(`(/\S+) \(0x`)

// image makes a tar of a small root file system from this machine's own programs.
func image(t testing.TB) string {
	t.Helper()
	files := map[string]bool{}
	for _, name := range tools {
		path, err := exec.LookPath(name)
		if err != nil {
			runtimetest.Missing(t, name)
		}
		files[path] = true
		out, err := exec.Command("ldd", path).CombinedOutput()
		if err != nil {
			t.Fatalf("ldd %s: %v %s", path, err, out)
		}
		for _, m := range library.FindAllStringSubmatch(string(out), -1) {
			files[m[1]] = true
		}
	}
	path := filepath.Join(t.TempDir(), "root.tar")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(f)
	dirs := map[string]bool{}
	for _, d := range []string{"etc/ssl", "var", "opt", "srv", "home", "tmp", "run", "proc", "dev", "sys", "nod", "workspace", "usr/bin", "usr/lib", "usr/lib64"} {
		for ; d != "."; d = filepath.Dir(d) {
			dirs[d] = true
		}
	}
	for name := range files {
		for d := filepath.Dir(within(name)); d != "."; d = filepath.Dir(d) {
			dirs[d] = true
		}
	}
	for _, d := range slices.Sorted(maps.Keys(dirs)) {
		mode := int64(0o755)
		if d == "tmp" {
			mode = 0o1777
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d + "/", Mode: mode}); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64", "sbin": "usr/bin"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: from, Linkname: to, Mode: 0o777}); err != nil {
			t.Fatal(err)
		}
	}
	for name := range files {
		put(t, w, name)
	}
	if err := errors.Join(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644, Size: int64(len(passwd))}), writeAll(w, passwd),
		w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

const testImage = "nod.test/suite:1"

const passwd = "agent:x:1000:1000::/home/agent:/bin/sh\n"

func writeAll(w io.Writer, s string) error {
	_, err := io.WriteString(w, s)
	return err
}

// within is where a file of the host lies in the image: /lib is a link there.
func within(name string) string {
	inside := strings.TrimPrefix(name, "/")
	if !strings.HasPrefix(inside, "usr/") {
		inside = "usr/" + inside
	}
	return strings.Replace(inside, "usr/sbin/", "usr/bin/", 1)
}

func put(t testing.TB, w *tar.Writer, name string) {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: within(name), Mode: 0o755, Size: int64(len(b))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
}

// config is a driver's configuration on e.
func (e *testEngine) config(t testing.TB, archive string) Config {
	t.Helper()
	return Config{Engine: e.name, Socket: e.socket, Guest: runtimetest.Static(t), Image: testImage, Archive: archive,
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))}
}

func open(t testing.TB, c Config) *Driver {
	t.Helper()
	d, err := New(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
