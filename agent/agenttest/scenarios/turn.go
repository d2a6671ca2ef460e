//go:build linux

package scenarios

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"nod"
	"nod/agent"
)

var uuid = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\.jsonl$`)

// sessions are the ids in the names of the transcripts below home.
func sessions(home string) []string {
	var out []string
	_ = filepath.WalkDir(home, func(_ string, d fs.DirEntry, err error) error { // what cannot be read holds none
		if err == nil {
			if name := uuid.FindString(d.Name()); name != "" {
				out = append(out, strings.TrimSuffix(name, ".jsonl"))
			}
		}
		return nil
	})
	return out
}

func question(w *scene) {
	l, r := w.play(func(_ context.Context, _ int, q nod.ApprovalRequest) nod.ApprovalAnswer {
		if q.Kind != nod.RequestQuestion || len(q.Questions) != 1 || !strings.Contains(q.Questions[0].Text, "colour") || len(q.Questions[0].Options) != 2 ||
			q.Questions[0].Options[1].Label != "Red" {
			w.t.Errorf("asked %+v", q)
			return nod.ApprovalAnswer{}
		}
		return nod.ApprovalAnswer{Allow: true, Answers: map[string]string{q.Questions[0].ID: "Blue, but dark: grün"}}
	})
	w.ends(r, "")
	if told, n := w.heard("Blue, but dark: grün"); !told || n != 2 || len(l.asked) != 1 {
		w.t.Errorf("the model was told: %v, in %d requests, asked %d times", told, n, len(l.asked))
	}
}

func unanswered(w *scene) {
	l, r := w.play(func(context.Context, int, nod.ApprovalRequest) nod.ApprovalAnswer {
		return nod.ApprovalAnswer{Reason: reason}
	})
	w.ends(r, "")
	if told, _ := w.heard(reason); !told || len(l.asked) != 1 {
		w.t.Errorf("the model was told why: %v, asked %d times", told, len(l.asked))
	}
}

// plan: the first plan is refused with a reason, the second is taken.
func plan(w *scene) {
	plans := 0
	l, r := w.play(func(_ context.Context, _ int, q nod.ApprovalRequest) nod.ApprovalAnswer {
		if q.Kind != nod.RequestPlan {
			return nod.ApprovalAnswer{Allow: true}
		}
		plans++
		return nod.ApprovalAnswer{Allow: strings.Contains(q.Plan, "2. Stop"), Reason: reason}
	})
	w.ends(r, "")
	if told, _ := w.heard(reason); !told || plans != 2 {
		w.t.Errorf("the model was told why: %v, %d plans of %d requests", told, plans, len(l.asked))
	}
	w.file("plan.txt", "ok")
}

func background(w *scene) {
	over := false
	l := w.begin(w.box, "", yes, func(e nod.Event) {
		if e.Kind == nod.EventResult && !over {
			over = true
			if err := os.WriteFile(filepath.Join(w.Workspace, "go.fifo"), []byte("x"), 0); err != nil { // only now may the command end
				w.t.Error(err)
			}
		}
	})
	r, err := l.end()
	if err != nil || !r.OK {
		w.t.Errorf("%+v, %v", r, err)
	}
	w.file("background.txt", "ok")
}

// budget: what the budget allowed ran, and nothing after it.
func budget(w *scene) {
	if w.program.OwnBudget {
		w.options.Budget = 0.001
	}
	stopping := make(chan struct{})
	l := w.begin(w.box, "", func(ctx context.Context, n int, r nod.ApprovalRequest) nod.ApprovalAnswer {
		switch {
		case n == 0 && strings.Contains(string(r.Input), "first.txt"):
			return nod.ApprovalAnswer{Allow: true}
		case !w.program.OwnBudget:
			close(stopping) // the supervisor has counted enough
		}
		<-ctx.Done()
		return nod.ApprovalAnswer{Allow: true}
	}, nil)
	if !w.program.OwnBudget {
		within(w.t, "the second prompt", stopping)
		l.stop()
	}
	r, err := l.end()
	if err != nil {
		w.t.Error(err)
	}
	want := agent.ReasonInterrupted
	if w.program.OwnBudget {
		want = agent.ReasonMaxBudget
	}
	w.ends(r, want)
	w.file("first.txt", "1")
	w.file("second.txt", "")
	w.file("third.txt", "")
}

// ended is a turn that ends for a reason, which an event tells.
func ended(reason string, kind nod.EventKind) func(w *scene) {
	return func(w *scene) {
		l, r := w.play(yes)
		w.ends(r, reason)
		told := 0
		for _, e := range l.events {
			if e.Kind == kind {
				told++
			}
			if strings.Contains(string(e.Data), w.program.Key) {
				w.t.Errorf("the key is told: %s", e.Kind)
			}
		}
		if told == 0 || r.Text == "" {
			w.t.Errorf("%d events of kind %s, %+v", told, kind, r)
		}
	}
}

func quota(w *scene) {
	can := w.adapter().Capabilities()
	if can.Quota != w.program.Resets {
		w.t.Errorf("declared is %v, told is %v", can.Quota, w.program.Resets)
	}
	w.options.SignedIn = slices.Contains(can.Auth, agent.AuthLogin) // which proves that too
	l, r := w.play(yes)
	w.ends(r, agent.ReasonQuotaExhausted)
	got := all[nod.Trouble](l, nod.EventQuota)
	if len(got) != 1 || w.program.Resets && (!got[0].ResetsAt.Equal(reset) || !r.ResetsAt.Equal(reset)) {
		w.t.Errorf("%+v, %+v: the quota is there again at %v", got, r, reset)
	}
}

func cutOnce(w *scene) {
	_, r := w.play(yes)
	w.ends(r, "")
	w.file("whole.txt", "ok")
}

func big(w *scene) {
	want := w.bigText()
	l, r := w.play(yes)
	w.ends(r, "")
	if len(l.asked) != 1 || l.asked[0].Tool != w.program.File || len(l.asked[0].Input) < len(want) {
		w.t.Errorf("asked %d times", len(l.asked))
	}
	if got := w.read("big.txt"); got != want {
		w.t.Errorf("%d bytes written", len(got))
	}
	if changed := all[nod.Diff](l, nod.EventDiff); len(changed) != 1 || len(changed[0].Text) > agent.DiffCap+100 {
		w.t.Errorf("%d changes", len(changed))
	}
}

func (w *scene) bigText() string { return strings.Repeat("0123456789abcde\n", 3<<16) }

func unicodeNames(w *scene) {
	l, r := w.play(yes)
	w.ends(r, "")
	if r.Text != "Fertig: 🌍 \u202e" {
		w.t.Errorf("said %q", r.Text)
	}
	w.file(odd, oddText)
	w.file("ü 🌍.txt", "grüße 🌍 \u202ex")
	if len(l.asked) != 2 || !strings.Contains(string(l.asked[1].Input), "grüße 🌍") {
		w.t.Errorf("asked %+v", l.asked)
	}
}

func message(w *scene) {
	const words = "please mind the gap"
	var l *life
	ready := make(chan struct{})
	l = w.begin(w.box, "", func(ctx context.Context, n int, _ nod.ApprovalRequest) nod.ApprovalAnswer {
		<-ready
		if n == 0 {
			if err := l.Instruct(ctx, words); err != nil {
				w.t.Error(err)
			}
		}
		return nod.ApprovalAnswer{Allow: true}
	}, nil)
	close(ready)
	r, err := l.end()
	if err != nil {
		w.t.Error(err)
	}
	w.ends(r, "")
	if told, _ := w.heard(words); !told || len(all[nod.Result](l, nod.EventResult)) != 1 {
		w.t.Errorf("the model was told: %v", told)
	}
	w.file("second.txt", "2")
}
