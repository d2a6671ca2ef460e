package runtimetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nod"
	"nod/runtime"
)

// contract is what the interface promises besides isolation.
var contract = []check{
	{"an attestation holds after the start", attestationHolds, false},
	{"exec: streams and status", execStreams, false},
	{"exec: backpressure", execBackpressure, true},
	{"exec: an environment of its own", execEnvironment, false},
	{"the lifecycle is idempotent and keeps what the operator has", lifecycle, false},
	{"an unprepared spec is refused", unprepared, true},
	{"a build makes an image, or says what to do instead", builds, true},
}

func attestationHolds(b *bench) {
	a := b.attested
	if err := a.Holds(); err != nil {
		b.t.Errorf("%+v: %v", a, err)
	}
	if a.UID != 1000 || a.GID != 1000 {
		b.t.Errorf("the agent is %d:%d", a.UID, a.GID)
	}
}

func execStreams(b *bench) {
	for script, want := range map[string]struct {
		out, err string
		status   nod.ExitStatus
	}{
		"echo out; echo err >&2; exit 3": {"out\n", "err\n", nod.ExitStatus{Code: 3}},
		"kill -TERM $$":                  {"", "", nod.ExitStatus{Code: 143, Signal: 15}},
		"pwd":                            {"/workspace\n", "", nod.ExitStatus{}},
		"cat; cat":                       {"in", "", nod.ExitStatus{}},
		"true > /dev/stdout; echo x > /dev/stderr": {"", "x\n", nod.ExitStatus{}},
	} {
		out, stderr, status := b.run("e1", "in", nod.Command{Argv: []string{"sh", "-c", script}})
		if out != want.out || stderr != want.err || status != want.status {
			b.t.Errorf("%q: %q, %q, %+v; want %+v", script, out, stderr, status, want)
		}
	}
	_, err := b.Exec(b.t.Context(), "e1", nod.Command{Argv: []string{"no-such-program"}})
	wantCode(b.t, "a program that is not there", err, nod.NotFound)
	_, err = b.Exec(b.t.Context(), "e1", nod.Command{})
	wantCode(b.t, "an empty command", err, nod.Invalid)
	_, err = b.Exec(b.t.Context(), "e1", nod.Command{Argv: []string{"true"}, Dir: "/no/such"})
	wantCode(b.t, "a directory that is not there", err, nod.NotFound)
	_, err = b.Exec(b.t.Context(), "e1", nod.Command{Argv: []string{"true"}, Dir: "relative"})
	wantCode(b.t, "a relative directory", err, nod.Invalid)
}

func execBackpressure(b *bench) {
	data := make([]byte, 5<<20)
	if _, err := rand.Read(data); err != nil {
		b.t.Fatal(err)
	}
	out, _, status := b.run("e1", string(data), nod.Command{Argv: []string{"cat"}})
	if sha256.Sum256([]byte(out)) != sha256.Sum256(data) || status.Code != 0 {
		b.t.Errorf("%d bytes went in, %d other ones came out", len(data), len(out))
	}
	// Nobody reads, the command writes without end: it blocks, and can be killed.
	p := b.exec("e1", nod.Command{Argv: []string{"sh", "-c", "yes >&2"}})
	if err := p.Kill(within(b.t, killBound)); err != nil {
		b.t.Errorf("kill a command that blocks on its output: %v", err)
	}
	// Nobody reads its input: the writer blocks until the command is gone.
	p = b.exec("e1", nod.Command{Argv: []string{"sleep", "600"}})
	wrote := make(chan error, 1)
	go func() {
		_, err := io.Copy(p.Stdin(), bytes.NewReader(data))
		wrote <- err
	}()
	if err := p.Kill(within(b.t, killBound)); err != nil {
		b.t.Errorf("kill a command that does not read: %v", err)
	}
	select {
	case err := <-wrote:
		if err == nil {
			b.t.Error("5 MiB were taken by a command that reads nothing")
		}
	case <-within(b.t, killBound).Done():
		b.t.Error("the writer still blocks")
	}
}

func execEnvironment(b *bench) {
	b.t.Setenv("NOD_TEST_LEAK", "1")
	out, _, _ := b.run("e1", "", nod.Command{Argv: []string{"env"}, Env: map[string]string{"LANG": "C", "MINE": "a b\nc"}})
	for _, want := range []string{"HOME=/home/agent\n", "TMPDIR=/tmp\n", "LANG=C\n", "MINE=a b\nc\n", "HTTPS_PROXY=http://127.0.0.1:3128\n"} {
		if !strings.Contains(out, want) {
			b.t.Errorf("%q is missing in %q", want, out)
		}
	}
	if strings.Contains(out, "NOD_TEST_LEAK") {
		b.t.Error("the host's environment leaks")
	}
	_, err := b.Exec(b.t.Context(), "e1", nod.Command{Argv: []string{"env"}, Env: map[string]string{"A=B": "x"}})
	wantCode(b.t, "a malformed variable", err, nod.Invalid)
}

func lifecycle(b *bench) {
	workspace, home := b.provision("e7", owner, nil)
	ctx := b.t.Context()
	_, err := b.Exec(ctx, "e7", nod.Command{Argv: []string{"true"}})
	wantCode(b.t, "exec before start", err, nod.Conflict)
	_, err = b.Start(ctx, "nope")
	wantCode(b.t, "start of the unknown", err, nod.NotFound)
	wantCode(b.t, "stop of the unknown", b.Stop(ctx, "nope"), nod.NotFound)
	for i := range 2 {
		if _, err := b.Start(ctx, "e7"); err != nil {
			b.t.Fatal(err)
		}
		_, err = b.Start(ctx, "e7")
		wantCode(b.t, "start of a running one", err, nod.Conflict)
		b.listed("e7", true, true)
		if out, _, _ := b.run("e7", "", nod.Command{Argv: []string{"sh", "-c", "ls /tmp; echo x > /tmp/left; mkdir -p d; cat d/f ~/f; echo w >> d/f; echo h >> ~/f"}}); out != strings.Repeat("w\nh\n", i) {
			b.t.Errorf("start %d: /tmp, the workspace and the home held %q", i, out)
		}
		for range 2 {
			if err := b.Stop(ctx, "e7"); err != nil {
				b.t.Fatal(err)
			}
		}
		b.listed("e7", true, false)
	}
	if _, err := b.Start(ctx, "e7"); err != nil {
		b.t.Fatal(err)
	}
	for range 2 {
		if err := b.Delete(ctx, "e7"); err != nil {
			b.t.Fatal(err)
		}
	}
	b.listed("e7", false, false)
	for path, want := range map[string]string{filepath.Join(workspace, "d/f"): "w\nw\n", filepath.Join(home, "f"): "h\nh\n"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			b.t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}

// listed wants id to be among owner's environments or not, running or not.
func (b *bench) listed(id string, there, running bool) {
	b.t.Helper()
	list, err := b.List(b.t.Context(), owner)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, s := range list {
		if s.ID == id {
			if !there || s.Running != running {
				b.t.Errorf("%+v is listed", s)
			}
			return
		}
	}
	if there {
		b.t.Errorf("%s is not listed: %+v", id, list)
	}
}

func unprepared(b *bench) {
	wantCode(b.t, "the zero spec", b.Provision(context.Background(), runtime.PreparedSpec{}), nod.Invalid)
}

func builds(b *bench) {
	_, err := b.Build(b.t.Context(), "relative", "nod.test/relative:1")
	if b.c.Base == "" {
		wantCode(b.t, "a build", err, nod.Unsupported)
		var e *nod.Error
		if !errors.As(err, &e) || e.Hint == "" {
			b.t.Errorf("%v has no hint", err)
		}
		return
	}
	wantCode(b.t, "a relative directory", err, nod.Invalid)
	dir := b.c.TempDir(b.t)
	_, err = b.Build(b.t.Context(), dir, "a reference")
	wantCode(b.t, "a malformed reference", err, nod.Invalid)
	_, err = b.Build(b.t.Context(), dir, "nod.test/empty:1")
	wantCode(b.t, "a directory that says nothing", err, nod.Unavailable)
	var made []string
	for _, text := range []string{"one", "two"} {
		if err := os.WriteFile(filepath.Join(dir, "Containerfile"), []byte("FROM "+b.c.Base+"\nENV TEXT="+text+"\n"), 0o644); err != nil {
			b.t.Fatal(err)
		}
		digest, err := b.Build(b.t.Context(), dir, "nod.test/again:1")
		if err != nil || digest == "" || slices.Contains(made, digest) {
			b.t.Errorf("built %q after %q, %v", digest, made, err)
		}
		made = append(made, digest)
	}
}
