//go:build linux

package scenarios

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"time"

	"nod"
	"nod/agent/hook"
)

// terminals are the scenarios of a program that a person runs in a terminal, whose
// prompts reach the supervisor by a hook.
func terminals() []scenario {
	return []scenario{
		{name: "TerminalAllow", steps: once("printf ok > allowed.txt"), play: terminalAllow},
		{name: "TerminalDeny", steps: once("printf no > denied.txt"), play: terminalDeny},
		{name: "TerminalAnsweredThere", steps: once("printf ok > there.txt"), play: terminalThere},
		{name: "TerminalRefusedThere", steps: once("printf no > refused.txt"), play: terminalRefused},
		{name: "TerminalChannelLost", steps: once("printf ok > alone.txt"), play: terminalLost},
	}
}

// terminal is a program in a terminal of its own.
type terminal struct {
	w       *scene
	channel *hook.Channel
	proc    nod.Process
	mu      sync.Mutex
	screen  bytes.Buffer
	settled chan nod.ApprovalSettled
}

func (p *terminal) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.screen.Write(b)
}

// sit opens the channel and starts the program in a terminal.
func (w *scene) sit(approve nod.Approver) *terminal {
	w.t.Helper()
	c, err := hook.Open(w.t.Context(), w.box, hook.Config{Approve: approve, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	p := &terminal{w: w, channel: c, settled: make(chan nod.ApprovalSettled, 16)}
	go func() {
		for e := range c.Events() {
			if e.Kind == nod.EventApproval {
				l := &life{w: w, events: []nod.Event{e}}
				p.settled <- all[nod.ApprovalSettled](l, nod.EventApproval)[0]
			}
		}
	}()
	settings, err := c.Settings()
	if err != nil {
		w.t.Fatal(err)
	}
	command, err := w.program.Terminal(w.t.Context(), w.box, w.options, settings)
	if err != nil {
		w.t.Fatal(err)
	}
	if p.proc, err = w.Exec(w.t.Context(), command); err != nil {
		w.t.Fatal(err)
	}
	go func() { _, _ = io.Copy(p, p.proc.Stdout()) }()
	go func() { _, _ = io.Copy(p, p.proc.Stderr()) }()
	w.t.Cleanup(p.leave)
	return p
}

// leave ends the terminal and the channel; nothing is left.
func (p *terminal) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.proc.Kill(ctx); err != nil {
		p.w.t.Error(err)
	}
	if err := p.channel.Stop(ctx); err != nil {
		p.w.t.Error(err)
	}
	p.w.empty()
	if p.w.t.Failed() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.w.t.Logf("the screen: %q", p.screen.String()[max(0, p.screen.Len()-1500):])
	}
}

// types writes to the terminal.
func (p *terminal) types(keys string) {
	p.w.t.Helper()
	if _, err := io.WriteString(p.proc.Stdin(), keys); err != nil {
		p.w.t.Error(err)
	}
}

// control is what moves the cursor and colours, and the spaces, for which many programs
// move the cursor instead.
var control = regexp.MustCompile(`\x1b\[[0-9;?<>=]*[A-Za-z]|\x1b\][^\x07]*\x07|[\r ]`)

// shows waits until the screen holds words.
func (p *terminal) shows(words string) {
	p.w.t.Helper()
	p.w.until(fmt.Sprintf("the terminal to show %q", words), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return strings.Contains(control.ReplaceAllString(p.screen.String(), ""), strings.ReplaceAll(words, " ", ""))
	})
}

// settles waits for what comes of the prompt.
func (p *terminal) settles(want string) {
	p.w.t.Helper()
	select {
	case got := <-p.settled:
		if got.Outcome != want {
			p.w.t.Errorf("the prompt is %+v, wants %s", got, want)
		}
	case <-time.After(patience):
		p.w.t.Fatalf("the prompt was not settled, wants %s", want)
	}
}

func (w *scene) until(what string, holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !holds(); {
		if time.Now().After(end) {
			w.t.Fatalf("waited too long for %s", what)
		}
		within(w.t, "a moment", tick())
	}
}

func (w *scene) turns(n int) {
	w.t.Helper()
	w.until("the model to hear the result", func() bool { return w.model.MainRequests() >= n })
}

func terminalAllow(w *scene) {
	p := w.sit(func(_ context.Context, r nod.ApprovalRequest) nod.ApprovalAnswer {
		if r.Tool != "Bash" || !strings.Contains(string(r.Input), "printf ok > allowed.txt") {
			w.t.Errorf("asked %+v", r)
		}
		return nod.ApprovalAnswer{Allow: true}
	})
	p.settles(nod.SettledAllowed)
	w.turns(2)
	w.file("allowed.txt", "ok")
}

func terminalDeny(w *scene) {
	p := w.sit(func(context.Context, nod.ApprovalRequest) nod.ApprovalAnswer {
		return nod.ApprovalAnswer{Reason: reason}
	})
	p.settles(nod.SettledDenied)
	w.turns(2)
	if told, _ := w.heard(reason); !told {
		w.t.Error("the model was not told why")
	}
	w.file("denied.txt", "")
}

// pending is an approver that waits until its prompt is withdrawn and then would
// allow it.
func pending() (approve nod.Approver, asked chan struct{}) {
	asked = make(chan struct{}, 16)
	return func(ctx context.Context, _ nod.ApprovalRequest) nod.ApprovalAnswer {
		asked <- struct{}{}
		<-ctx.Done()
		return nod.ApprovalAnswer{Allow: true}
	}, asked
}

// terminalThere: whoever sits at the terminal is faster.
func terminalThere(w *scene) {
	approve, asked := pending()
	p := w.sit(approve)
	within(w.t, "the prompt", asked)
	p.shows("Do you want") // its prompt, which takes keys then
	p.types("\r")
	p.settles(nod.SettledWithdrawn)
	w.turns(2)
	w.file("there.txt", "ok")
}

// terminalRefused: the person there says no, and the turn ends.
func terminalRefused(w *scene) {
	approve, asked := pending()
	p := w.sit(approve)
	within(w.t, "the prompt", asked)
	p.shows("Do you want") // its prompt, which takes keys then
	p.types("\x1b")
	p.settles(nod.SettledWithdrawn)
	w.file("refused.txt", "")
}

// terminalLost: the channel ends while a prompt waits. It is withdrawn, and the
// terminal still asks.
func terminalLost(w *scene) {
	approve, asked := pending()
	p := w.sit(approve)
	within(w.t, "the prompt", asked)
	p.shows("Do you want") // its prompt, which takes keys then
	w.killAll(nod.GuestPath + "\x00hooks")
	p.settles(nod.SettledWithdrawn)
	if _, err := p.channel.Wait(); err == nil {
		w.t.Error("the channel is lost and that is no error")
	}
	w.file("alone.txt", "")
	p.types("\r")
	w.turns(2)
	w.file("alone.txt", "ok")
}
