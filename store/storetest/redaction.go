package storetest

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"nod"
)

func redaction(t *testing.T, open Open) {
	const secret = `s3cr3t/"quoted"&<long>+value`
	token := "ghp_" + strings.Repeat("Ab1", 12)
	quoted, err := json.Marshal(secret)
	must(t, err)
	// needles are what must not be found anywhere in what a store gives back.
	needles := []string{secret, string(quoted[1 : len(quoted)-1]), url.QueryEscape(secret), token, base64.StdEncoding.EncodeToString([]byte(secret))}
	dirty := strings.Join(needles, "\n") + "\n" + base64.URLEncoding.EncodeToString([]byte("user:"+secret))
	clean := func(t *testing.T, where, s string) {
		t.Helper()
		for _, n := range append(needles, base64.RawStdEncoding.EncodeToString([]byte(secret))[2:20]) {
			if strings.Contains(s, n) {
				t.Errorf("%s still holds %q", where, n)
			}
		}
		if !strings.Contains(s, "[redacted]") {
			t.Errorf("%s does not say that something was taken out: %q", where, s)
		}
	}
	t.Run("NoSecretIsWritten", func(t *testing.T) {
		f := newFixture(t, open, Setup{Secrets: []nod.Secret{nod.NewSecret(secret), {}}})
		task, _, run := f.running()
		task.Title, task.Briefing, task.Reason = dirty, dirty, dirty
		run.State, run.Reason = nod.RunStopped, dirty
		f.apply(nod.Change{Tasks: []*nod.Task{task}, Runs: []*nod.Run{run}})
		d := f.approval(task, run.ID)
		d.Subject = dirty
		d.SetInput(dirty)
		digest := d.InputDigest
		e := &nod.Effect{Key: "k", Task: task.ID, Kind: nod.EffectStatusComment, Intent: text(t, dirty), State: nod.EffectIntended}
		rev := &nod.Revision{SHA: "abc", Task: task.ID, Run: run.ID, State: nod.RevisionPrepared,
			Commits: []nod.Commit{{Subject: dirty, Message: dirty}}, Files: []nod.FileChange{{Path: dirty}}, Check: nod.CheckReceipt{Tail: dirty}}
		said := nod.NewEvent(task.ID, nod.Transcript, nod.EventMessage, by, nod.Message{Text: dirty})
		f.apply(nod.Change{Decisions: []*nod.Decision{d}, Effects: []*nod.Effect{e}, Revisions: []*nod.Revision{rev},
			Events: []*nod.Event{&said}, Blobs: [][]byte{[]byte(dirty)}})
		must(t, f.BeginEffect(f.ctx, e))
		e.State, e.Outcome, e.Error = nod.EffectRefused, text(t, dirty), dirty
		f.apply(nod.Change{Effects: []*nod.Effect{e}})

		c := f.caseOf(task.ID)
		for where, s := range map[string]string{"title": c.Task.Title, "briefing": c.Task.Briefing, "task reason": c.Task.Reason, "run reason": c.Run.Reason,
			"subject": c.Decisions[0].Subject, "input": c.Decisions[0].Input, "intent": string(c.Effects[0].Intent), "outcome": string(c.Effects[0].Outcome),
			"error": c.Effects[0].Error, "commit": c.Revision.Commits[0].Message + c.Revision.Commits[0].Subject, "path": c.Revision.Files[0].Path,
			"check": c.Revision.Check.Tail} {
			clean(t, where, s)
		}
		if c.Decisions[0].InputDigest != digest {
			t.Error("the digest of what was asked changed")
		}
		b, err := f.Blob(f.ctx, digest)
		must(t, err)
		clean(t, "blob", string(b))
		events, err := f.Events(f.ctx, task.ID, 0, 1000)
		must(t, err)
		for _, e := range events {
			if strings.Contains(string(e.Data), token) || strings.Contains(string(e.Data), "s3cr3t") || !json.Valid(e.Data) {
				t.Errorf("event %s holds %s", e.Kind, e.Data)
			}
		}
	})
	t.Run("CapLeavesNoHalfOfASecret", func(t *testing.T) {
		f := newFixture(t, open, Setup{Secrets: []nod.Secret{nod.NewSecret("correct-horse-battery-staple")}})
		long := strings.Repeat("x", nod.InputCap-10) + "correct-horse-battery-staple" + strings.Repeat("y", 100)
		d := f.approval(f.task(), "")
		d.SetInput(long)
		f.apply(nod.Change{Decisions: []*nod.Decision{d}, Blobs: [][]byte{[]byte(long)}})
		got, err := f.Decision(f.ctx, d.ID)
		if err != nil || strings.Contains(got.Input, "correct") || !strings.HasSuffix(got.Input, "[redacted]") {
			t.Errorf("input ends in %q, %v", got.Input[len(got.Input)-20:], err)
		}
	})
	t.Run("DeliveriesLoseRegisteredSecretsAndStayJSON", func(t *testing.T) {
		f := newFixture(t, open, Setup{Secrets: []nod.Secret{nod.NewSecret(secret)}})
		_, err := f.AcceptDelivery(f.ctx, nod.Delivery{GUID: "g", Event: "issues", Payload: text(t, dirty)})
		must(t, err)
		d, err := f.LeaseDelivery(f.ctx, time.Minute)
		must(t, err)
		if !json.Valid(d.Payload) || strings.Contains(string(d.Payload), "s3cr3t") || !strings.Contains(string(d.Payload), "[redacted]") {
			t.Errorf("payload: %s", d.Payload)
		}
		d.State, d.Note = nod.DeliveryDead, dirty
		f.apply(nod.Change{Deliveries: []*nod.Delivery{&d}})
		clean(t, "note", d.Note)
	})
	t.Run("AnswerThatHoldsASecretIsRefused", func(t *testing.T) {
		f := newFixture(t, open, Setup{Secrets: []nod.Secret{nod.NewSecret(secret)}})
		d := f.opened()
		_, err := f.RecordAnswer(f.ctx, nod.Answer{Decision: d.ID, Answer: nod.Allow, Reason: "because " + token, By: host})
		wants(t, "a token as the reason", err, nod.Invalid)
		wants(t, "a challenge over a secret", f.SaveChallenge(f.ctx, nod.Challenge{ID: "c", Kind: nod.ChallengeAnswer, Bytes: make([]byte, 32), Nonce: "n",
			Decision: d.ID, Answer: nod.Allow, Reason: secret, ExpiresAt: f.now().Add(time.Minute)}), nod.Invalid)
	})
}

// text is a JSON object that holds s.
func text(t testing.TB, s string) []byte {
	raw, err := json.Marshal(map[string]any{"text": s, "n": 1})
	must(t, err)
	return raw
}
