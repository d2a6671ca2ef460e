package answer_test

import (
	"encoding/json"
	"strings"
	"testing"

	"nod"
)

func TestActIsRecordedWithItsEvidence(t *testing.T) {
	w := newReal(t)
	task := w.task()
	ada := w.approver("ada's phone")
	if html := w.page_(ada, "/t/"+task.ID); !strings.Contains(html, `id="say"`) || !strings.Contains(html, `id="cancel"`) {
		t.Error("the task's page offers neither")
	}
	w.must(ada.Act(t.Context(), task.ID, nod.ActSay, "use <b>tabs</b>"))
	w.must(ada.Act(t.Context(), task.ID, nod.ActCancel, ""))
	wanted, err := w.WantedActs(t.Context())
	w.must(err)
	if len(wanted) != 2 || wanted[0].Words != "use <b>tabs</b>" || wanted[1].Kind != nod.ActCancel || wanted[1].By.Passkey != ada.Key.ID() {
		t.Fatalf("wanted: %+v", wanted)
	}
	w.must(w.FinishAct(t.Context(), wanted[0].ID, nod.ActDone, "handed to the agent"))
	if err := w.FinishAct(t.Context(), wanted[0].ID, nod.ActDone, "again"); nod.CodeOf(err) != nod.Conflict {
		t.Errorf("finished twice: %v", err)
	}
	html := w.page_(ada, "/t/"+task.ID)
	for _, want := range []string{"is told, for the agent", "use &lt;b&gt;tabs&lt;/b&gt;", "handed to the agent", "is told to cancel the task"} {
		if !strings.Contains(html, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	w.verified(2)
	raw, err := w.ExportTask(t.Context(), task.ID)
	w.must(err)
	if r := verifyExport(t, raw, ""); !r.Verified || r.Signatures != 2 {
		t.Errorf("the export: %+v", r)
	}
	forged := strings.ReplaceAll(string(raw), "tabs", "guns")
	if r := verifyExport(t, []byte(forged), ""); r.Verified {
		t.Error("changed words are not found")
	}
}

// TestSessionAloneDoesNothing: with a stolen cookie and another passkey, with a
// challenge that was for something else, or twice with one assertion, nothing is
// recorded.
func TestSessionAloneDoesNothing(t *testing.T) {
	w := newReal(t)
	task, other := w.task(), w.task()
	d := w.askBash(task.ID, "make")
	ada := w.approver("ada's phone")
	thief := w.approver("thief")
	w.must(w.RevokePasskey(t.Context(), thief.Key.ID(), nod.Actor{Kind: nod.ActorHost}))

	begin := func(task string) (challenge string, options json.RawMessage) {
		var b struct {
			Challenge string          `json:"challenge"`
			Options   json.RawMessage `json:"options"`
		}
		w.must(ada.Post(t.Context(), "/api/act/begin", map[string]string{"task": task, "act": "cancel"}, &b))
		return b.Challenge, b.Options
	}
	type finish struct {
		Challenge  string          `json:"challenge"`
		Credential json.RawMessage `json:"credential"`
	}
	refused := func(name, path string, in finish) {
		t.Helper()
		if err := ada.Post(t.Context(), path, in, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	id, options := begin(task.ID)
	stolen, err := thief.Key.Sign(w.url, []byte(strings.Replace(string(options), ada.Key.ID(), thief.Key.ID(), 1)))
	w.must(err)
	refused("signed by a revoked key", "/api/act/finish", finish{id, stolen})
	elsewhere, otherOptions := begin(other.ID)
	signed, err := ada.Key.Sign(w.url, otherOptions)
	w.must(err)
	refused("signed for another task", "/api/act/finish", finish{id, signed})
	refused("as an answer", "/api/answer/finish", finish{elsewhere, signed})
	if wanted, err := w.WantedActs(t.Context()); err != nil || len(wanted) > 0 {
		t.Fatalf("recorded %+v, %v", wanted, err)
	}
	w.must(ada.Post(t.Context(), "/api/act/finish", finish{elsewhere, signed}, nil))
	refused("the same assertion again", "/api/act/finish", finish{elsewhere, signed})
	if wanted, err := w.WantedActs(t.Context()); err != nil || len(wanted) != 1 || wanted[0].Task != other.ID {
		t.Errorf("recorded %+v, %v", wanted, err)
	}
	if got := w.state(d.ID); got.State != nod.DecisionOpen {
		t.Errorf("the decision is %s", got.State)
	}
}
