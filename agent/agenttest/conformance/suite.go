// Package conformance is the suite that every agent adapter passes: with the
// scripted agent, and with the real program against a mock model. It owns the
// plans and what must hold; the caller brings the adapter, the place where its
// process runs, and a look at the workspace. It must never depend on which
// adapter it tests.
package conformance

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"nod"
	"nod/agent"
	"nod/agent/agenttest"
)

// patience bounds every wait of the suite. A conforming adapter needs a second or
// two for the slowest case.
const patience = 3 * time.Minute

// Subject is one fresh adapter with a fresh place to run in.
type Subject struct {
	Adapter  agent.Adapter
	Executor nod.Executor
	Dir      string // the workspace, as this process sees it
	// Heard reports whether the agent was told text in the middle of a turn.
	Heard func(events []nod.Event, text string) bool
	// Asks makes a Subject whose agent asks a person which colour: Blue or Red.
	Asks func(t *testing.T) Subject

	seen *agent.Capabilities // what the cases saw
}

// Run runs the suite. subject makes a Subject whose agent does what plan says;
// plans have only say, bash and together steps.
func Run(t *testing.T, subject func(t *testing.T, plan agenttest.Script) Subject) {
	declared, seen, ran := agent.Capabilities{}, agent.Capabilities{}, 0
	cases := []struct {
		name string
		plan agenttest.Script
		test func(t *testing.T, s Subject)
	}{
		{"AnAllowedCallRunsExactlyWhatWasAsked", bash("printf ok > allowed.txt"), allowed},
		{"ADeniedCallDoesNotRunAndTheAgentLearnsWhy", bash("printf no > denied.txt"), denied},
		{"EachOfTwoPromptsGetsItsOwnAnswer", agenttest.Script{Steps: []agenttest.Step{
			{Together: []agenttest.Step{{Bash: "printf 1 > one.txt"}, {Bash: "printf 2 > two.txt"}}}, {Say: "Both done."}}}, twoPrompts},
		{"StopWithAPromptPendingVoidsIt", bash("printf late > late.txt"), stopPending},
		{"StopInTheMiddleOfAToolLeavesNoProcess", bash(lingering), stopMidTool},
		{"ALostChannelDenies", bash("printf lost > lost.txt"), lostChannel},
		{"LinesThatNobodyKnowsEndNothing", bash("printf ok > allowed.txt"), unknownLines},
		{"ASessionIsResumed", agenttest.Script{Steps: []agenttest.Step{{Bash: "printf 1 > first.txt"}, {Say: "First done."}},
			Resume: []agenttest.Step{{Bash: "printf 2 > second.txt"}, {Say: "Second done."}}}, resumed},
		{"AnUnknownSessionIsRefused", bash("printf ok > allowed.txt"), unknownSession},
		{"AMessageReachesTheTurnUnderWay", agenttest.Script{Steps: []agenttest.Step{{Bash: "printf 1 > first.txt"},
			{Bash: "printf 2 > second.txt"}, {Say: "Done."}}}, injected},
		{"UsageAndCostAreReported", bash("printf ok > allowed.txt"), usage},
		{"AQuestionComesWithItsOptions", bash("true"), questions},
		{"NothingStartsWithoutAnApprover", bash("true"), noApprover},
		{"AMessageAfterTheEndIsRefused", bash("true"), afterTheEnd},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ran++
			s := subject(t, c.plan)
			s.seen, declared = &seen, s.Adapter.Capabilities()
			if unasked := unasking[c.name]; unasked != nil && !declared.HostApprovals {
				unasked(t, s)
				return
			}
			c.test(t, s)
		})
	}
	// A capability that nobody declared is as wrong as one that was not seen: what
	// goes around it would be dead. Login and quota need a real model's answer; package
	// scenarios proves those.
	seen.Auth, seen.Quota = declared.Auth, declared.Quota
	if ran == len(cases) && !t.Failed() && !reflect.DeepEqual(seen, declared) {
		t.Errorf("declared %+v\nwhat was seen %+v", declared, seen)
	}
}

// unasking is what holds in place of a case for an adapter that asks nobody, and says
// so: what the agent does is told, none of it is asked about, and nothing pretends
// that it could be.
var unasking = map[string]func(t *testing.T, s Subject){
	"AnAllowedCallRunsExactlyWhatWasAsked":      runsUnasked,
	"EachOfTwoPromptsGetsItsOwnAnswer":          runsUnasked,
	"AMessageReachesTheTurnUnderWay":            takesNoMessage,
	"ADeniedCallDoesNotRunAndTheAgentLearnsWhy": shown,
	"StopWithAPromptPendingVoidsIt":             shown,
	"ALostChannelDenies":                        shown,
	"AQuestionComesWithItsOptions":              shown,
}

// shown is for a case of which another one has shown that it cannot come about.
func shown(*testing.T, Subject) {}

func bash(command string) agenttest.Script {
	return agenttest.Script{Steps: []agenttest.Step{{Bash: command}, {Say: "Done."}}}
}

// live is a session under test with a goroutine that drains its events.
type live struct {
	nod.AgentSession
	mu      sync.Mutex
	events  []nod.Event
	drained chan struct{}
}

func start(t *testing.T, s Subject, session string, approve nod.Approver) *live {
	t.Helper()
	return startIn(t, s, s.Executor, session, approve)
}

func startIn(t *testing.T, s Subject, ex nod.Executor, session string, approve nod.Approver) *live {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	as, err := s.Adapter.Start(ctx, ex, nod.AgentSpec{Prompt: "Please do it.", Session: session, Approve: approve})
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	l := &live{AgentSession: as, drained: make(chan struct{})}
	go func() {
		defer close(l.drained)
		for e := range as.Events() {
			l.mu.Lock()
			l.events = append(l.events, e)
			l.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := as.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return l
}

// end waits for the session to end.
func (l *live) end(t *testing.T) (nod.Result, error) {
	t.Helper()
	within(t, "the events to end", l.drained)
	r, err := l.Wait()
	t.Logf("result %+v, err %v", r, err)
	return r, err
}

func (l *live) stop(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := l.Stop(ctx); err != nil {
		t.Errorf("stop: %v", err)
	}
}

func within(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		t.Fatalf("waited too long for %s", what)
	}
}

// of decodes the events of one kind.
func of[T any](t *testing.T, l *live, kind nod.EventKind) []T {
	t.Helper()
	var out []T
	for _, e := range l.events {
		if e.Kind != kind {
			continue
		}
		var v T
		if err := json.Unmarshal(e.Data, &v); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		out = append(out, v)
	}
	return out
}

func exists(t *testing.T, s Subject, name string) bool {
	t.Helper()
	_, err := os.Stat(filepath.Join(s.Dir, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return err == nil
}

func allowAll(context.Context, nod.ApprovalRequest) nod.ApprovalAnswer {
	return nod.ApprovalAnswer{Allow: true}
}

// blocked is an approver that says when it was asked and answers allow only once
// its prompt was withdrawn.
func blocked() (approve nod.Approver, asked, withdrawn chan struct{}) {
	asked, withdrawn = make(chan struct{}), make(chan struct{})
	var once sync.Once
	return func(ctx context.Context, _ nod.ApprovalRequest) nod.ApprovalAnswer {
		first := false
		once.Do(func() { first = true; close(asked) })
		<-ctx.Done()
		if first {
			close(withdrawn)
		}
		return nod.ApprovalAnswer{Allow: true}
	}, asked, withdrawn
}

func kinds(events []nod.Event) []nod.EventKind {
	var out []nod.EventKind
	for _, e := range events {
		out = append(out, e.Kind)
	}
	return out
}

// inOrder reports whether want is a subsequence of got.
func inOrder(got []nod.EventKind, want ...nod.EventKind) bool {
	for _, k := range got {
		if len(want) > 0 && k == want[0] {
			want = want[1:]
		}
	}
	return len(want) == 0
}

// lingering starts a child that makes itself independent, says that it is up, and
// then does not end.
const lingering = `setsid sh -c 'echo $$ > daemon.pid; exec tail -f /dev/null' > /dev/null 2>&1 < /dev/null &
echo $$ > tool.pid; while [ ! -s daemon.pid ]; do :; done; echo up > up.fifo; tail -f /dev/null`

// awaitFIFO makes a FIFO in the workspace and waits until something is written.
func awaitFIFO(t *testing.T, s Subject, name string) (up chan struct{}) {
	t.Helper()
	path := filepath.Join(s.Dir, name)
	if err := syscall.Mkfifo(path, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	up = make(chan struct{})
	go func() {
		if raw, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(raw)) == "up" {
			close(up)
		}
	}()
	return up
}

// gone runs a look for the process whose id is in file, where that id means
// something.
func gone(t *testing.T, s Subject, file string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	p, err := s.Executor.Exec(ctx, nod.Command{Env: map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin"}, Argv: []string{"sh", "-c",
		`s=$(sed 's/.*) //; s/ .*//' "/proc/$(cat ` + file + `)/stat" 2> /dev/null); [ -z "$s" ] || [ "$s" = Z ] || [ "$s" = X ]`}})
	if err != nil {
		t.Fatal(err)
	}
	var drained sync.WaitGroup
	for _, r := range []interface{ Read([]byte) (int, error) }{p.Stdout(), p.Stderr()} {
		drained.Go(func() {
			for buf := make([]byte, 512); ; {
				if _, err := r.Read(buf); err != nil {
					return
				}
			}
		})
	}
	_ = p.Stdin().Close() // it reads nothing
	drained.Wait()
	if status, err := p.Wait(); err != nil || status.Code != 0 {
		t.Errorf("the process in %s is alive after the stop (%+v, %v)", file, status, err)
	}
}

func hasReason(results []nod.ToolResult, reason string) bool {
	return slices.ContainsFunc(results, func(r nod.ToolResult) bool { return r.IsError && strings.Contains(r.Text, reason) })
}
