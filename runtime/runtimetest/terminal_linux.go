package runtimetest

import (
	"bufio"
	"io"
	"strings"
	"testing"

	"nod"
)

// Terminal holds a running environment's commands to what a terminal is: its size
// is known and changes, it echoes, its end of input is typed, it is none of the
// host's, and everything on it is killed with proof.
func Terminal(t *testing.T, d Driver, id string) {
	t.Helper()
	on := func(script string) (nod.Terminal, *bufio.Reader) {
		t.Helper()
		p, err := d.Exec(t.Context(), id, nod.Command{Argv: []string{"bash", "-c", script}, Terminal: &nod.Window{Rows: 24, Columns: 80}})
		if err != nil {
			t.Fatal(err)
		}
		return p.(nod.Terminal), bufio.NewReader(p.Stdout())
	}
	line := func(r *bufio.Reader, want string) {
		t.Helper()
		got, err := r.ReadString('\n')
		if strings.TrimRight(got, "\r\n") != want {
			t.Fatalf("the terminal says %q, %v; not %q", got, err, want)
		}
	}
	type typed interface{ Write([]byte) (int, error) }
	say := func(w typed, text string) {
		t.Helper()
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	p, out := on(`test -t 0 && test -t 1 && test -t 2 && echo "all $TERM"; stty size; case $(tty) in /dev/pts/*) echo own;; esac; read x; echo "got $x"; stty size; exec cat`)
	line(out, "all xterm-256color")
	line(out, "24 80")
	line(out, "own")
	if err := p.Resize(nod.Window{Rows: 50, Columns: 120}); err != nil {
		t.Fatal(err)
	}
	say(p.Stdin(), "hello\n")
	line(out, "hello") // the echo
	line(out, "got hello")
	line(out, "50 120")
	if err := p.Stdin().Close(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(out); err != nil {
		t.Errorf("after the end: %q, %v", rest, err)
	}
	if errs, err := io.ReadAll(p.Stderr()); len(errs) > 0 || err != nil {
		t.Errorf("stderr beside a terminal: %q, %v", errs, err)
	}
	if status, err := p.Wait(); err != nil || status.Code != 0 {
		t.Errorf("the end of input ended it with %+v, %v", status, err)
	}

	p, out = on(`trap '' HUP INT TERM; (trap '' HUP; setsid sleep 600) & echo up; sleep 600`)
	line(out, "up")
	say(p.Stdin(), "\x03") // ignored, as asked for
	if err := p.Kill(t.Context()); err != nil {
		t.Errorf("the kill of a command on a terminal: %v", err)
	}

	plain, err := d.Exec(t.Context(), id, nod.Command{Argv: []string{"bash", "-c", "test -t 0 || echo none; cat"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := plain.(nod.Terminal).Resize(nod.Window{Rows: 1, Columns: 1}); nod.CodeOf(err) != nod.Invalid {
		t.Errorf("a command without a terminal is resized: %v", err)
	}
	if err := plain.Stdin().Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(plain.Stdout()); err != nil || string(got) != "none\n" {
		t.Errorf("without a terminal: %q, %v", got, err)
	}
	if _, err := plain.Wait(); err != nil {
		t.Error(err)
	}
}
