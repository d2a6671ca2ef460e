package runtimetest

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"nod"
)

// environmentsDoNotMeet is C27, between two owners and within one.
func environmentsDoNotMeet(b *bench) {
	third, _ := b.provision("e3", owner, nil)
	b.start("e3")
	defer b.gone("e3")
	for _, id := range []string{"e2", "e3"} {
		b.apart(id)
	}
	// The control: within one environment all of it is seen.
	p := b.exec("e1", b.guest("e1", roleListen))
	readUntil(b.t, p.Stdout(), "listening")
	if out, status := b.sh(unseen); status.Code == 0 {
		b.t.Errorf("what its own environment offers is not seen: %q", out)
	}
	if err := p.Kill(b.t.Context()); err != nil {
		b.t.Error(err)
	}
	b.sh("rm -f /dev/shm/nod-try /tmp/nod-try.sock")
	if err := os.WriteFile(filepath.Join(third, "third"), []byte("x"), 0o666); err != nil {
		b.t.Fatal(err)
	}
	if out, _ := b.sh("test -e /workspace/third && echo seen; cat /proc/self/mountinfo"); strings.Contains(out, "seen") || strings.Contains(out, "e3-workspace") {
		b.t.Errorf("the other's workspace is seen: %q", out)
	}
	listIsExact(b)
}

func listIsExact(b *bench) {
	for who, want := range map[string][]string{owner: {"e1", "e3"}, another: {"e2"}, "nobody": nil, "suit": nil, "suite2": nil, "": nil, "*": nil} {
		list, err := b.List(b.t.Context(), who)
		if err != nil && who != "" {
			b.t.Fatal(err)
		}
		var ids []string
		for _, s := range list {
			ids = append(ids, s.ID)
		}
		slices.Sort(ids)
		if !slices.Equal(ids, want) {
			b.t.Errorf("List(%q) = %v, want %v", who, ids, want)
		}
	}
}

const unseen = `test ! -e /dev/shm/nod-try && test ! -e /tmp/nod-try.sock && ! grep -q [n]od-try-listen /proc/[0-9]*/cmdline && ! grep -q @[n]od-try /proc/net/unix`

// apart has id offer itself in every way, to which e1 must be blind.
func (b *bench) apart(id string) {
	b.t.Helper()
	p := b.exec(id, b.guest(id, roleListen))
	readUntil(b.t, p.Stdout(), "listening")
	if out, status := b.sh(unseen); status.Code != 0 {
		b.t.Errorf("something of %s is seen: %q", id, out)
	}
	for _, o := range b.reach("C27", []string{"tcp|127.0.0.1:9999"}) {
		if !o.OK {
			b.t.Errorf("%s: %s", o.Name, o.Got)
		}
	}
	if err := p.Stdin().Close(); err != nil {
		b.t.Fatal(err)
	}
	if status, err := p.Wait(); err != nil || status.Code != 0 {
		b.t.Errorf("the listener ended with %+v, %v", status, err)
	}
}

// gone deletes an environment of this test.
func (b *bench) gone(id string) {
	b.t.Helper()
	if err := b.Delete(b.t.Context(), id); err != nil {
		b.t.Error(err)
	}
}

// secretsStay is C28: a value in one exec's environment, and one on its stdin, is
// found nowhere else.
func secretsStay(b *bench) {
	secret := "hunter2-" + mark()
	p := b.exec("e1", nod.Command{Argv: []string{"sh", "-c", `echo "have $TOKEN"; exec cat`}, Env: map[string]string{"TOKEN": secret}})
	if got := readUntil(b.t, p.Stdout(), "\n"); got != "have "+secret+"\n" { // the control
		b.t.Errorf("the command has %q", got)
	}
	if _, err := p.Stdin().Write([]byte(secret + "\n")); err != nil {
		b.t.Fatal(err)
	}
	readUntil(b.t, p.Stdout(), secret)
	for what, most := range map[string]int{"cmdline": 0, "environ": 1} { // the command's own
		files, err := filepath.Glob("/proc/[0-9]*/" + what)
		if err != nil {
			b.t.Fatal(err)
		}
		seen := 0
		for _, f := range files {
			// A process may end while it is looked at, or be another user's.
			if text, err := os.ReadFile(f); err == nil && strings.Contains(string(text), secret) {
				seen++
			}
		}
		if seen > most {
			b.t.Errorf("%s of %d processes shows the secret", what, seen)
		}
	}
	for _, dir := range []string{b.root, b.state} {
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			if strings.Contains(string(text), secret) {
				b.t.Errorf("%s holds the secret", path)
			}
			return err
		})
		if err != nil {
			b.t.Fatal(err)
		}
	}
	if out, _ := b.sh("env; cat /proc/1/environ 2>/dev/null"); strings.Contains(out, secret) {
		b.t.Error("another exec, or PID 1, has the secret")
	}
	if b.c.Told != nil {
		argument := b.exec("e1", nod.Command{Argv: []string{"sh", "-c", "cat #" + secret}})
		if text := b.c.Told(b.t, b.Driver, "e1"); text == "" || strings.Contains(text, secret) {
			b.t.Errorf("the engine tells the secret, or nothing: %d bytes", len(text))
		}
		if err := argument.Kill(b.t.Context()); err != nil {
			b.t.Error(err)
		}
	}
	if err := p.Kill(b.t.Context()); err != nil {
		b.t.Error(err)
	}
}
