package agenttest_test

import (
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"nod"
	"nod/agent/agenttest"
)

func answer(allow bool) nod.Approver {
	return func(context.Context, nod.ApprovalRequest) nod.ApprovalAnswer {
		return nod.ApprovalAnswer{Allow: allow, Reason: "no"}
	}
}

func TestHostProcessesInheritNothing(t *testing.T) {
	t.Setenv("LEAK_ME", "secret")
	p, err := agenttest.Host{Dir: t.TempDir()}.Exec(t.Context(), nod.Command{Argv: []string{"env"}, Env: map[string]string{"PATH": os.Getenv("PATH"), "A": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(p.Stdout())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"LEAK_ME"} {
		if strings.Contains(string(out), want) {
			t.Errorf("%s is in the environment", want)
		}
	}
	if status, err := p.Wait(); err != nil || status.Code != 0 || !strings.Contains(string(out), "A=1\n") {
		t.Errorf("%+v, %v, %s", status, err, out)
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Errorf("killing what has ended: %v", err)
	}
}

func TestHostKillEndsWhatMadeItselfIndependent(t *testing.T) {
	dir := t.TempDir()
	p, err := agenttest.Host{Dir: dir}.Exec(t.Context(), nod.Command{Argv: []string{"sh", "-c",
		`setsid sh -c 'setsid tail -f /dev/null & exec tail -f /dev/null' & echo up; exec tail -f /dev/null`}, Env: map[string]string{"PATH": os.Getenv("PATH")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Stdout().Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, p.Stdout()); err != nil { // ends only when no holder of the pipe is left
		t.Fatal(err)
	}
	if status, err := p.Wait(); err != nil || status.Signal != 9 || status.Code != 137 {
		t.Errorf("%+v, %v", status, err)
	}
}
