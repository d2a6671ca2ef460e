package store_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"nod"
	"nod/store"
)

// childPath tells a re-executed test binary to be the child of the kill test.
const childPath = "NOD_STORE_CRASH_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		if err := child(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child accepts deliveries and applies changes until it is killed, and prints a
// line for each that was acknowledged.
func child(path string) error {
	ctx := context.Background()
	s, err := store.Open(ctx, store.Config{Path: path})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	failed := make(chan error, 2)
	run := strconv.FormatInt(time.Now().UnixNano(), 36)
	go func() {
		for i := 0; ; i++ {
			guid := fmt.Sprintf("g-%s-%d", run, i)
			if _, err := s.AcceptDelivery(ctx, nod.Delivery{GUID: guid, Event: "issues", SemanticKey: guid, Order: strconv.Itoa(i % 3), Payload: []byte(`{"n":1}`)}); err != nil {
				failed <- err
				return
			}
			say("delivery %s", guid)
		}
	}()
	go func() {
		for i := 0; ; i++ {
			if err := childTask(ctx, s, fmt.Sprintf("t-%s-%d", run, i), say); err != nil {
				failed <- err
				return
			}
		}
	}()
	return <-failed
}

// childTask takes one task from its label to an answered question, leasing the
// delivery that asked for it.
func childTask(ctx context.Context, s *store.Store, id string, say func(string, ...any)) error {
	by := nod.Supervisor()
	t := &nod.Task{ID: id, Repo: nod.Repo{Host: "h", Owner: "o", Name: id}, Issue: 1, State: nod.TaskQueued, Approved: true}
	e := &nod.Effect{Key: "k-" + id, Task: id, Repo: "r", Kind: nod.EffectStatusComment, Intent: json.RawMessage(`{}`), State: nod.EffectIntended}
	c := &nod.Change{By: by, Tasks: []*nod.Task{t}, Effects: []*nod.Effect{e}}
	d, err := s.LeaseDelivery(ctx, time.Hour)
	if err == nil {
		d.State = nod.DeliveryDone
		c.Deliveries = append(c.Deliveries, &d)
	} else if nod.CodeOf(err) != nod.NotFound {
		return err
	}
	if err := s.Apply(ctx, c); err != nil {
		return err
	}
	say("task %s %d", id, t.Version)
	if d.GUID != "" {
		say("done %s %s", d.GUID, id)
	}
	if err := s.BeginEffect(ctx, e); err != nil {
		return err
	}
	say("effect %s %d", e.Key, e.Attempt)
	q := &nod.Decision{ID: "d-" + id, Task: id, Kind: nod.Approval, Cause: nod.CauseTool, Blocking: true, State: nod.DecisionOpen, Deadline: time.Now().Add(time.Hour)}
	q.SetInput("make " + id)
	t.State = nod.TaskRunning
	if err := s.Apply(ctx, &nod.Change{By: by, Tasks: []*nod.Task{t}}); err != nil {
		return err
	}
	t.State = nod.TaskAwaitingGuidance
	said := nod.NewEvent(id, nod.Transcript, nod.EventMessage, by, nod.Message{Text: "asking"})
	if err := s.Apply(ctx, &nod.Change{By: by, Tasks: []*nod.Task{t}, Decisions: []*nod.Decision{q}, Events: []*nod.Event{&said}}); err != nil {
		return err
	}
	say("task %s %d", id, t.Version)
	if _, err := s.RecordAnswer(ctx, nod.Answer{Decision: q.ID, Answer: nod.Allow, By: nod.Actor{Kind: nod.ActorHost}}); err != nil {
		return err
	}
	say("answer %s", q.ID)
	return nil
}

// TestAcknowledgedSurvivesKill kills a working process again and again, on one
// file, and finds each time that all it had acknowledged is there, nothing is
// there twice or by half, and the audit chain verifies.
func TestAcknowledgedSurvivesKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nod.db")
	var acknowledged []string
	killed := 0
	for round := range 12 {
		lines, signalled := killAfter(t, path, 1+rand.IntN(40))
		acknowledged = append(acknowledged, lines...)
		if signalled {
			killed++
		}
		checkAcknowledged(t, path, lines)
		if t.Failed() {
			t.Fatalf("after kill %d", round)
		}
	}
	checkAcknowledged(t, path, acknowledged)
	if killed < 10 {
		t.Errorf("only %d processes were killed", killed)
	}
}

// killAfter runs the child until it has printed n lines, kills it at a random
// moment soon after, and returns all it printed whole.
func killAfter(t *testing.T, path string, n int) (lines []string, signalled bool) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), childPath+"="+path)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	watchdog := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer watchdog.Stop()
	read := bufio.NewReader(out)
	for {
		line, err := read.ReadString('\n')
		if err != nil { // a line cut short was not acknowledged
			if err != io.EOF {
				t.Fatal(err)
			}
			break
		}
		lines = append(lines, strings.TrimSpace(line))
		if len(lines) == n {
			time.AfterFunc(time.Duration(rand.IntN(5000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
		}
	}
	err = cmd.Wait()
	if errs.Len() > 0 {
		t.Fatalf("child: %s", errs.String())
	}
	return lines, err != nil && cmd.ProcessState.ExitCode() == -1
}

// checkAcknowledged opens the file and looks for what lines tell of.
func checkAcknowledged(t *testing.T, path string, lines []string) {
	t.Helper()
	ctx := t.Context()
	s, err := store.Open(ctx, store.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if r, err := s.VerifyChain(ctx, ""); err != nil || !r.Verified {
		t.Errorf("chain: %+v, %v", r, err)
	}
	if err := s.Check(ctx); err != nil {
		t.Errorf("file: %v", err)
	}
	for _, line := range lines {
		words := strings.Fields(line)
		switch words[0] {
		case "delivery":
			if known, err := s.Known(ctx, words[1]); err != nil || !known[words[1]] {
				t.Errorf("%s was acknowledged and is lost (%v)", line, err)
			}
		case "done":
			if _, err := s.Case(ctx, words[2]); err != nil {
				t.Errorf("%s: the task is lost: %v", line, err)
			}
		case "task":
			c, err := s.Case(ctx, words[1])
			if err != nil || strconv.FormatInt(c.Task.Version, 10) < words[2] {
				t.Errorf("%s: stored is version %d, %v", line, c.Task.Version, err)
			}
			if len(c.Effects) != 1 || c.Task.State == nod.TaskAwaitingGuidance != (len(c.Decisions) == 1) {
				t.Errorf("%s: half a change is stored: %+v", line, c)
			}
		case "effect":
			c, err := s.Case(ctx, strings.TrimPrefix(words[1], "k-"))
			if err != nil || strconv.Itoa(c.Effects[0].Attempt) != words[2] {
				t.Errorf("%s: stored is %+v, %v", line, c.Effects, err)
			}
		case "answer":
			if d, err := s.Decision(ctx, words[1]); err != nil || !d.Permits() {
				t.Errorf("%s: stored is %s, %v", line, d.State, err)
			}
		default:
			t.Errorf("the child said %q", line)
		}
	}
}

// TestTornLogIsAPrefix cuts the write-ahead log at random places, as a power cut
// may, and finds a whole prefix of what was done, with a chain that verifies.
func TestTornLogIsAPrefix(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "nod.db")
	s, err := store.Open(t.Context(), store.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		if err := childTask(t.Context(), s, fmt.Sprintf("t%d", i), func(string, ...any) {}); err != nil {
			t.Fatal(err)
		}
	}
	db, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wal, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	last := 0
	for i := range 20 {
		cut := len(wal) * (i + 1) / 20
		if i < 19 {
			cut -= rand.IntN(4000)
		}
		torn := filepath.Join(dir, fmt.Sprintf("torn-%d.db", i))
		if err := os.WriteFile(torn, db, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(torn+"-wal", wal[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(t.Context(), store.Config{Path: torn})
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		r, err := s.VerifyChain(t.Context(), "")
		if err != nil || !r.Verified {
			t.Errorf("cut at %d: %+v, %v", cut, r, err)
		}
		tasks, err := s.Tasks(t.Context())
		if err != nil || len(tasks) < last {
			t.Errorf("cut at %d: %d tasks after %d, %v", cut, len(tasks), last, err)
		}
		for n, task := range tasks {
			if task.ID != fmt.Sprintf("t%d", n) {
				t.Errorf("cut at %d: task %d is %s", cut, n, task.ID)
			}
		}
		last = len(tasks)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if last != 30 {
		t.Errorf("the whole log holds %d tasks, want 30", last)
	}
}
