package answer_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"nod"
	"nod/notify/answer"
	"nod/store"
)

// evidence is the export of a task that two passkeys answered, beside another
// task, and the head of the chain.
func evidence(t *testing.T) (raw []byte, head string) {
	w := newReal(t)
	task, other := w.task(), w.task()
	allowed, denied := w.askBash(task.ID, "make test"), w.askBash(task.ID, "make deploy")
	review := w.ask(task.ID, nod.Decision{Kind: nod.Review, Cause: nod.CauseReadyToPush, Subject: "1 commit into main", CommitSHA: headSHA}, "diff --git a/x b/x\n")
	elsewhere := w.askBash(other.ID, "cat secret-plans")
	ada, bo := w.approver("ada's phone"), w.approver("bo's laptop")
	// The page refuses a review whose revision it cannot show; the host does not need it.
	w.must(ada.Answer(w.Context(), allowed.ID, nod.Allow, ""))
	w.must(bo.Answer(w.Context(), denied.ID, nod.Deny, "not on a Friday"))
	w.must(ada.Answer(w.Context(), review.ID, nod.Deny, "see the comments"))
	w.must(bo.Answer(w.Context(), elsewhere.ID, nod.Deny, ""))
	raw, err := w.ExportTask(w.Context(), task.ID)
	w.must(err)
	report, err := w.VerifyChain(w.Context(), "")
	w.must(err)
	if !report.Verified || report.Signatures != 4 {
		t.Fatalf("the chain: %+v", report)
	}
	return raw, report.Head
}

func verifyExport(t *testing.T, raw []byte, head string) nod.ChainReport {
	t.Helper()
	report, err := store.VerifyExport(raw, head, verifySigned, answer.VerifyAct)
	if err != nil {
		return nod.ChainReport{Problem: err.Error()}
	}
	return report
}

func TestExportVerifiesWithoutTheDatabase(t *testing.T) {
	raw, head := evidence(t)
	if r := verifyExport(t, raw, head); !r.Verified || r.Signatures != 3 || r.Head != head {
		t.Errorf("as exported: %+v", r)
	}
	var spread bytes.Buffer
	if err := json.Indent(&spread, raw, "", "\t"); err != nil {
		t.Fatal(err)
	}
	if r := verifyExport(t, spread.Bytes(), head); !r.Verified {
		t.Errorf("indented: %+v", r)
	}
	if bytes.Contains(raw, []byte("secret-plans")) {
		t.Error("the export shows what another task asked")
	}
	if r := verifyExport(t, raw, strings.Repeat("0", 64)); r.Verified {
		t.Error("a head that is not in the chain is accepted")
	}
}

// TestEveryChangedByteOfAnExportIsFound flips a bit of each byte (of every
// eleventh, unless NOD_TEST_LONG is set), and cuts the file everywhere.
func TestEveryChangedByteOfAnExportIsFound(t *testing.T) {
	raw, head := evidence(t)
	raw = bytes.TrimSpace(raw)
	step := 11
	if os.Getenv("NOD_TEST_LONG") != "" {
		step = 1
	}
	for i := 0; i < len(raw); i += step {
		changed := bytes.Clone(raw)
		changed[i] ^= 1 << (i % 6)
		for _, expected := range []string{"", head} {
			if r := verifyExport(t, changed, expected); r.Verified {
				t.Fatalf("byte %d may be changed: …%s…", i, changed[max(0, i-40):min(len(changed), i+40)])
			}
		}
		if r := verifyExport(t, raw[:i], ""); r.Verified {
			t.Fatalf("the file may be cut at byte %d", i)
		}
	}
}

// parts is the hash that ARCHITECTURE.md describes, written anew.
func parts(values ...string) string {
	h := sha256.New()
	for _, v := range values {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(v))))
		h.Write([]byte(v))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// rewrite makes x a consistent chain again, as somebody who owns the machine
// would: every hash anew, and what the file repeats.
func rewrite(t *testing.T, x *store.Export) []byte {
	t.Helper()
	previous := ""
	x.Keys, x.Decisions = []nod.Passkey{}, []store.Closed{}
	for i := range x.Chain {
		in := &x.Chain[i]
		if e := in.Event; e != nil {
			in.Content = parts("nod.audit.event.v1", string(e.Tier), string(e.Kind), e.Actor, strconv.FormatInt(e.At, 10), e.Data, e.Commit)
			switch e.Kind {
			case nod.EventPasskeyEnrolled:
				x.Keys = append(x.Keys, read[nod.Passkey](t, e.Data))
			case nod.EventDecisionClosed:
				x.Decisions = append(x.Decisions, read[store.Closed](t, e.Data))
			}
		}
		in.Hash = parts("nod.audit.v1", previous, strconv.FormatInt(in.ID, 10), in.Stream, strconv.FormatInt(in.Seq, 10), in.Content)
		previous = in.Hash
	}
	x.Head = previous
	raw, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func read[T any](t *testing.T, raw string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestRewrittenEvidenceIsFound forges with every hash made anew. What a passkey
// signed is found by its signature; when and in which order it happened, by a head
// that was written down.
func TestRewrittenEvidenceIsFound(t *testing.T) {
	raw, head := evidence(t)
	answered := func(x *store.Export, change func(*store.Closed)) {
		for _, in := range x.Chain {
			if in.Event != nil && in.Event.Kind == nod.EventDecisionClosed {
				c := read[store.Closed](t, in.Event.Data)
				change(&c)
				data, err := json.Marshal(c)
				if err != nil {
					t.Fatal(err)
				}
				in.Event.Data = string(data)
			}
		}
	}
	replace := func(x *store.Export, old, new string) {
		for _, in := range x.Chain {
			if in.Event != nil {
				in.Event.Data = strings.ReplaceAll(in.Event.Data, old, new)
				in.Event.Commit = strings.ReplaceAll(in.Event.Commit, old, new)
			}
		}
	}
	index := func(x *store.Export, kind nod.EventKind) int {
		return slices.IndexFunc(x.Chain, func(in store.ExportedEntry) bool { return in.Event != nil && in.Event.Kind == kind })
	}
	for name, c := range map[string]struct {
		forge    func(x *store.Export)
		onlyHead bool // found by the head that was written down and by nothing else
	}{
		"answer": {forge: func(x *store.Export) {
			answered(x, func(c *store.Closed) {
				if c.Answer.Answer == nod.Deny {
					c.Answer.Answer, c.Decision.Answer = nod.Allow, nod.Allow
				}
			})
		}},
		"reason": {forge: func(x *store.Export) { replace(x, "not on a Friday", "not on a Sunday") }},
		"input digest": {forge: func(x *store.Export) {
			replace(x, x.Inputs[0].Digest, nod.Digest([]byte("rm -rf /")))
			x.Inputs = x.Inputs[1:]
		}},
		"commit":   {forge: func(x *store.Export) { replace(x, headSHA, strings.Repeat("a", 40)) }},
		"decision": {forge: func(x *store.Export) { replace(x, x.Decisions[0].Decision.ID, "d"+strings.Repeat("e", 32)) }},
		"nonce": {forge: func(x *store.Export) {
			answered(x, func(c *store.Closed) { c.Answer.Assertion.Nonce = strings.Repeat("0", 64) })
		}},
		"signature": {forge: func(x *store.Export) { answered(x, func(c *store.Closed) { c.Answer.Assertion.Signature[9] ^= 1 }) }},
		"counter":   {forge: func(x *store.Export) { answered(x, func(c *store.Closed) { c.Answer.Assertion.SignCount++ }) }},
		"who": {forge: func(x *store.Export) {
			a, b := x.Decisions[0].Answer.By.Passkey, x.Decisions[1].Answer.By.Passkey
			answered(x, func(c *store.Closed) {
				to := map[string]string{a: b, b: a}[c.Answer.By.Passkey]
				c.Answer.By.Passkey, c.Decision.AnsweredBy.Passkey, c.Answer.Assertion.Credential = to, to, to
			})
		}},
		"taken from the host": {forge: func(x *store.Export) {
			answered(x, func(c *store.Closed) { c.Answer.Assertion = nil })
		}},
		"key never enrolled": {forge: func(x *store.Export) {
			i := index(x, nod.EventPasskeyEnrolled)
			x.Chain = slices.Delete(x.Chain, i, i+1)
		}},
		"question":          {forge: func(x *store.Export) { x.Chain[index(x, nod.EventDecisionOpened)].Event.Data = `{}` }},
		"event hidden":      {forge: func(x *store.Export) { x.Chain[index(x, nod.EventDecisionClosed)].Event = nil }},
		"start cut off":     {forge: func(x *store.Export) { i := index(x, nod.EventTaskCreated); x.Chain = slices.Delete(x.Chain, i, i+1) }},
		"time of one event": {forge: func(x *store.Export) { x.Chain[index(x, nod.EventDecisionClosed)].Event.At++ }},
		"answered too late": {forge: func(x *store.Export) {
			replace(x, x.Decisions[0].Decision.Deadline.Format(time.RFC3339Nano), x.Decisions[0].Decision.CreatedAt.Format(time.RFC3339Nano))
		}},
		"time of the task's start": {onlyHead: true, forge: func(x *store.Export) { x.Chain[index(x, nod.EventTaskCreated)].Event.At++ }},
		"end cut off":              {onlyHead: true, forge: func(x *store.Export) { x.Chain = x.Chain[:len(x.Chain)-1] }},
		"order": {onlyHead: true, forge: func(x *store.Export) {
			n := len(x.Chain)
			a, b := &x.Chain[n-1], &x.Chain[n-2]
			*a, *b = *b, *a
		}},
	} {
		t.Run(name, func(t *testing.T) {
			x := read[store.Export](t, string(raw))
			c.forge(&x)
			forged := rewrite(t, &x)
			if r := verifyExport(t, forged, head); r.Verified {
				t.Error("not found with the head")
			}
			if r := verifyExport(t, forged, ""); r.Verified != c.onlyHead {
				t.Errorf("without the head: %+v", r)
			}
		})
	}
	x := read[store.Export](t, string(raw))
	if again := rewrite(t, &x); !bytes.Equal(again, bytes.TrimSpace(raw)) {
		t.Error("the hashes are not made as ARCHITECTURE.md says")
	}
}

func FuzzVerifyExport(f *testing.F) {
	f.Add([]byte(`{"format":"nod.audit.export.v1","task":"t1","head":"","keys":[],"decisions":[],"inputs":[],"chain":[]}`))
	f.Add([]byte(`{"format":"nod.audit.export.v1","task":"t1","chain":[{"id":1,"stream":"t1","seq":1,"event":{"raw":""}}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r, err := store.VerifyExport(raw, "", func(d nod.Decision, a nod.Answer, as nod.Assertion) error {
			a.Assertion = &as
			return answer.VerifyAssertion(d, a)
		}, answer.VerifyAct)
		if err == nil && r.Signatures > 0 {
			t.Error("a signature that nobody made holds")
		}
	})
}
