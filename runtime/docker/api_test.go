//go:build linux

package docker

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"nod"
	"nod/runtime"
)

func TestAnEngineOverTheNetworkIsRefused(t *testing.T) {
	for _, socket := range []string{"", "tcp://127.0.0.1:2375", "127.0.0.1:2375", "http://host/x", "ssh://host/run/docker.sock", "docker.sock", "unix://docker.sock",
		"unix://tcp://127.0.0.1:2375", "/run/tcp://x"} {
		if got, err := socketPath(socket); nod.CodeOf(err) != nod.Invalid || err == nil {
			t.Errorf("%q is taken as %q", socket, got)
		}
	}
	for _, socket := range []string{"/run/docker.sock", "unix:///run/docker.sock"} {
		if got, err := socketPath(socket); err != nil || got != "/run/docker.sock" {
			t.Errorf("%q: %q, %v", socket, got, err)
		}
	}
}

// double answers as an engine of this version and kind would, and lists whatever
// it has, whoever asks.
type double struct {
	version, info string
	containers    string
}

func (d double) config(t *testing.T, engine string) Config {
	t.Helper()
	dir, err := os.MkdirTemp("", "nod")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	answer := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
	}
	mux.HandleFunc("/version", answer(d.version))
	mux.HandleFunc("/v1.41/info", answer(d.info))
	mux.HandleFunc("/v1.44/info", answer(d.info))
	mux.HandleFunc("/v1.41/containers/json", answer(d.containers))
	server := &http.Server{Handler: mux}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	guest := filepath.Join(dir, "guest")
	if err := os.WriteFile(guest, []byte("x"), 0o755); err != nil {
		t.Fatal(err)
	}
	return Config{Engine: engine, Socket: filepath.Join(dir, "s"), StateDir: filepath.Join(dir, "state"), Guest: guest, Image: "x"}
}

const (
	dockerVersion = `{"Version":"20.10.24","ApiVersion":"1.41","MinAPIVersion":"1.12","Components":[{"Name":"Engine"}]}`
	podmanVersion = `{"Version":"4.3.1","ApiVersion":"1.41","MinAPIVersion":"1.24","Components":[{"Name":"Podman Engine"}]}`
	allLimits     = `"MemoryLimit":true,"CpuCfsQuota":true,"PidsLimit":true`
)

func TestEnginesAreWhoTheyShouldBe(t *testing.T) {
	for name, c := range map[string]struct {
		version, engine string
		want            nod.Code
		api             string
	}{
		"docker":           {dockerVersion, Docker, "", "/v1.41"},
		"podman":           {podmanVersion, Podman, "", "/v1.41"},
		"podman as docker": {podmanVersion, Docker, nod.Invalid, ""},
		"docker as podman": {dockerVersion, Podman, nod.Invalid, ""},
		"too old":          {`{"ApiVersion":"1.40","MinAPIVersion":"1.12"}`, Docker, nod.Unsupported, ""},
		"no version":       {`{}`, Docker, nod.Unsupported, ""},
		"new":              {`{"ApiVersion":"1.52","MinAPIVersion":"1.44"}`, Docker, "", "/v1.44"},
	} {
		e, err := connect(t.Context(), double{version: c.version, info: `{}`}.config(t, c.engine))
		if c.want != "" {
			if nod.CodeOf(err) != c.want || err == nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || e.api != c.api {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLimitsThatAnEngineWouldIgnoreAreRefused is B15: Podman without root on
// version 1 takes a limit, warns and ignores it.
func TestLimitsThatAnEngineWouldIgnoreAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		info string
		want []string
	}{
		"rootless, version 1": {`{` + allLimits + `,"CgroupVersion":"1","SecurityOptions":["name=seccomp,profile=default","name=rootless"]}`, nil},
		"rootless, version 2": {`{` + allLimits + `,"CgroupVersion":"2","SecurityOptions":["name=rootless"]}`, []string{"memory", "cpu", "pids"}},
		"no swap accounting":  {`{"MemoryLimit":false,"CpuCfsQuota":true,"PidsLimit":true,"CgroupVersion":"2","SecurityOptions":["name=rootless"]}`, []string{"cpu", "pids"}},
	} {
		d, err := New(t.Context(), double{version: podmanVersion, info: c.info, containers: "[]"}.config(t, Podman))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := d.enforced(); strings.Join(got, " ") != strings.Join(c.want, " ") {
			t.Errorf("%s: enforced are %v", name, got)
		}
		err = d.checkLimits(runtime.Limits{MemoryBytes: 64 << 20, Required: true})
		if refusedIt := nod.CodeOf(err) == nod.Unsupported && err != nil; refusedIt == strings.Contains(strings.Join(c.want, " "), "memory") {
			t.Errorf("%s: a required memory limit: %v", name, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOnlyExactLabelsCount has an engine whose filter lets everything through.
func TestOnlyExactLabelsCount(t *testing.T) {
	id := func(c string) string { return strings.Repeat(c, 64) }
	row := func(id string, labels map[string]string) map[string]any {
		return map[string]any{"Id": id, "Labels": labels, "State": "exited"}
	}

	c := double{version: dockerVersion, info: `{"SecurityOptions":[]}`, containers: "[]"}.config(t, Docker)
	d, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	s := d.supervisor
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	blob, err := json.Marshal([]any{
		row(id("a"), map[string]string{labelSupervisor: s, labelOwner: "o", labelEnv: "e1"}),
		row(id("b"), map[string]string{labelSupervisor: s, labelOwner: "ox", labelEnv: "e1"}),
		row(id("c"), map[string]string{labelSupervisor: s + "x", labelOwner: "o", labelEnv: "e1"}),
		row(id("d"), map[string]string{labelOwner: "o", labelEnv: "e1"}),
		row("short", map[string]string{labelSupervisor: s, labelOwner: "o", labelEnv: "e1"}),
		row(id("e"), map[string]string{labelSupervisor: s, labelOwner: "o", labelEnv: "../e1"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	c2 := double{version: dockerVersion, info: `{"SecurityOptions":[]}`, containers: string(blob)}.config(t, Docker)
	c2.StateDir = c.StateDir
	if d, err = New(t.Context(), c2); err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	list, err := d.List(t.Context(), "o")
	if err != nil || len(list) != 1 || list[0].ID != "e1" {
		t.Errorf("List: %v, %v", list, err)
	}
}

func piece(stream byte, text string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{stream, 0, 0, 0}, uint32(len(text))), text...)
}

func TestStderrOfTheEngineIsKeptApart(t *testing.T) {
	long := strings.Repeat("e", 3*maxSaid)
	in := bytes.Join([][]byte{piece(1, "a"), piece(2, long), piece(1, ""), piece(1, "bc"), piece(2, "tail")}, nil)
	s := &streams{r: bufio.NewReader(bytes.NewReader(in))}
	out, err := io.ReadAll(s)
	if err != nil || string(out) != "abc" || s.Said() != long[:maxSaid] {
		t.Errorf("stdout %q, %d bytes of stderr, %v", out, len(s.Said()), err)
	}
	for _, bad := range [][]byte{{9, 0, 0, 0, 0, 0, 0, 1, 'x'}, piece(1, "abc")[:9], {1, 0, 0}} {
		s := &streams{r: bufio.NewReader(bytes.NewReader(bad))}
		if _, err := io.ReadAll(s); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}

func FuzzStreams(f *testing.F) {
	f.Add(piece(1, "abc"))
	f.Add(append(piece(2, "x"), piece(1, "y")...))
	f.Fuzz(func(t *testing.T, in []byte) {
		s := &streams{r: bufio.NewReader(bytes.NewReader(in))}
		out, err := io.ReadAll(io.LimitReader(s, 1<<20))
		if len(out)+len(s.Said()) > len(in) {
			t.Fatalf("%d bytes came of %d, %v", len(out), len(in), err)
		}
	})
}

func TestSeccompProfileIsWhole(t *testing.T) {
	text, err := seccompProfile()
	var p struct {
		DefaultAction string
		Syscalls      []seccompRule
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &p)
	}
	if err != nil || p.DefaultAction != "SCMP_ACT_ALLOW" {
		t.Fatalf("%v, %+v", err, p)
	}
	families := map[uint64]bool{}
	for _, r := range p.Syscalls {
		if r.Action != "SCMP_ACT_ERRNO" || r.ErrnoRet == 0 || len(r.Names) == 0 {
			t.Errorf("a rule that refuses nothing: %+v", r)
		}
		if r.Names[0] == "socket" && r.Args[0].Op == "SCMP_CMP_EQ" {
			families[r.Args[0].Value] = true
		}
	}
	for family := range uint64(lastPlainFamily + 1) {
		if families[family] == allowedFamilies[family] {
			t.Errorf("family %d is refused: %v", family, families[family])
		}
	}
}
