//go:build linux

package scenarios

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"time"

	"nod"
	"nod/agent"
)

// lostPending: the program's input ends behind the session's back, as when the
// channel breaks, while it waits for an answer.
func lostPending(w *scene) {
	p := &tap{Executor: w.box}
	approve, asked, withdrawn := held()
	l := w.begin(p, "", approve, nil)
	within(w.t, "the prompt", asked)
	if err := p.cut(); err != nil {
		w.t.Fatal(err)
	}
	within(w.t, "the prompt to be withdrawn", withdrawn)
	_, _ = l.end()                  // some end their turn by themselves, some do not
	if w.model.MainRequests() < 2 { // the model has not said its last word of that turn
		w.goOn(l.ID(), "Done.")
	}
	w.file("lost.txt", "")
	w.resume(l.ID())
	w.file("lost.txt", "")
}

// lostRunning: the same while a tool runs; a stop still ends everything.
func lostRunning(w *scene) {
	risen := w.rises()
	p := &tap{Executor: w.box}
	l := w.begin(p, "", yes, nil)
	within(w.t, "the tool to run", risen)
	if err := p.cut(); err != nil {
		w.t.Fatal(err)
	}
	l.stop()
	if r, err := l.end(); r.OK {
		w.t.Errorf("%+v, %v", r, err)
	}
	w.file("done.txt", "")
	w.resume(l.ID())
}

func interruptRunning(w *scene) {
	risen := w.rises()
	l := w.begin(w.box, "", yes, nil)
	within(w.t, "the tool to run", risen)
	l.stop()
	r, err := l.end()
	if err != nil {
		w.t.Error(err)
	}
	w.ends(r, agent.ReasonInterrupted)
	w.file("done.txt", "")
	w.resume(l.ID())
	w.file("done.txt", "")
}

func interruptPending(w *scene) {
	approve, asked, withdrawn := held()
	l := w.begin(w.box, "", approve, nil)
	within(w.t, "the prompt", asked)
	l.stop()
	within(w.t, "the prompt to be withdrawn", withdrawn)
	r, err := l.end()
	if err != nil {
		w.t.Error(err)
	}
	w.ends(r, agent.ReasonInterrupted)
	if got := all[nod.ApprovalSettled](l, nod.EventApproval); len(got) != 1 || got[0].Outcome != nod.SettledWithdrawn {
		w.t.Errorf("settled %+v", got)
	}
	w.resume(l.ID())
	w.file("late.txt", "")
}

func interruptHanging(w *scene) {
	speaks := make(chan struct{})
	l := w.begin(w.box, "", yes, func(e nod.Event) {
		if e.Kind == nod.EventSession {
			close(speaks)
		}
	})
	within(w.t, "the session", speaks)
	for deadline := time.Now().Add(patience); w.model.MainRequests() == 0 && time.Now().Before(deadline); {
		within(w.t, "the model to be asked", tick())
	}
	l.stop()
	r, err := l.end()
	if err != nil {
		w.t.Error(err)
	}
	w.ends(r, agent.ReasonInterrupted)
	w.resume(l.ID())
}

// tick is closed after a moment.
func tick() chan struct{} {
	c := make(chan struct{})
	time.AfterFunc(20*time.Millisecond, func() { close(c) })
	return c
}

func killPending(w *scene) {
	approve, asked, withdrawn := held()
	l := w.begin(w.box, "", approve, nil)
	within(w.t, "the prompt", asked)
	w.kill()
	within(w.t, "the prompt to be withdrawn", withdrawn)
	if r, err := l.end(); err == nil || r.OK {
		w.t.Errorf("%+v, %v: a program that is killed has not done its turn", r, err)
	}
	w.resume(l.ID())
	w.file("late.txt", "")
}

func killRunning(w *scene) {
	risen := w.rises()
	l := w.begin(w.box, "", yes, nil)
	within(w.t, "the tool to run", risen)
	w.kill()
	if r, err := l.end(); err == nil || r.OK {
		w.t.Errorf("%+v, %v: a program that is killed has not done its turn", r, err)
	}
	w.file("done.txt", "")
	w.resume(l.ID())
}

// supervisorKilled: the process that drives the agent is killed. Everything that
// it started ends with it, and the next one resumes the session.
func supervisorKilled(w *scene) {
	w.t.Helper()
	risen := w.rises()
	raw, err := json.Marshal(w.place)
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), supervisorRole+"="+string(raw))
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = cmd.Process.Kill() }) // it has been, unless the test failed before
	said := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(out).ReadString('\n') // nothing at its end
		said <- line
	}()
	session := ""
	select {
	case line := <-said:
		session, _ = strings.CutPrefix(strings.TrimSpace(line), "asked ")
	case <-risen:
		session = w.sessionOnDisk()
	case <-time.After(patience):
	}
	if !agent.IsUUID(session) {
		w.t.Fatalf("the supervisor has no session: %q", session)
	}
	if len(running(w.t, w.Program)) == 0 {
		w.t.Error("the program does not run")
	}
	if err := cmd.Process.Kill(); err != nil {
		w.t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	for deadline := time.Now().Add(patience); len(running(w.t, w.Program)) > 0; {
		if time.Now().After(deadline) {
			w.t.Fatal("the program outlives its supervisor")
		}
		within(w.t, "a moment", tick())
	}
	w.box = newLab(w.t, w.State).box(w.t, w.place)
	w.empty()
	w.resume(session)
	w.file("late.txt", "")
	w.file("done.txt", "")
}

// sessionOnDisk is the session that the program keeps in its home.
func (w *scene) sessionOnDisk() string {
	w.t.Helper()
	found := sessions(w.Home)
	for deadline := time.Now().Add(patience); len(found) != 1; found = sessions(w.Home) { // it may write later than it works
		if time.Now().After(deadline) {
			w.t.Fatalf("sessions in the home: %v", found)
		}
		within(w.t, "a moment", tick())
	}
	return found[0]
}
