package answer_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"nod"
)

func TestAnAllowIsRecordedWithItsProof(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	d := w.askBash("npm test")
	w.must(c.Answer(t.Context(), d.ID, nod.Allow, ""))
	got := w.decision(d.ID)
	if !got.Permits() || got.AnsweredBy.Kind != nod.ActorPasskey || got.AnsweredBy.Show() != "ada's phone" {
		t.Fatalf("decision is %+v", got)
	}
	if len(w.store.challenges) != 0 {
		t.Errorf("%d challenges are left", len(w.store.challenges))
	}
	page, err := c.Page(t.Context(), "/d/"+d.ID)
	w.must(err)
	if !strings.Contains(page, "Allowed by ada&#39;s phone") || strings.Contains(page, "data-answer") || strings.Contains(page, `id="ask"`) {
		t.Errorf("the page of an answered decision must say who and offer nothing:\n%s", page)
	}
}

func TestADenialCarriesItsReason(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	d := w.askBash("npm test")
	w.must(c.Answer(t.Context(), d.ID, nod.Deny, "use the lock file"))
	if got := w.decision(d.ID); got.Permits() || got.Answer != nod.Deny || got.Reason != "use the lock file" {
		t.Fatalf("decision is %+v", got)
	}
}

func TestAQuestionTakesItsOptionsAndFreeText(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	d := w.ask(nod.Decision{Kind: nod.Question, Cause: nod.CauseRunFailed, Subject: "run 2 failed", Options: []string{nod.Retry, nod.Cancel}}, "exit status 1")
	page, err := c.Page(t.Context(), "/d/"+d.ID)
	w.must(err)
	for _, want := range []string{`data-answer="retry"`, "Try again", `data-answer="cancel"`, "Cancel the task", "exit status 1"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	w.wantCode(c.Answer(t.Context(), d.ID, "something else", ""), nod.Invalid)
	w.must(c.Answer(t.Context(), d.ID, nod.Retry, ""))

	free := w.ask(nod.Decision{Kind: nod.Question, Cause: nod.CauseAgentQuestion, Subject: "Which database?", FreeText: true}, "Which database?")
	w.must(c.Answer(t.Context(), free.ID, "SQLite, please", ""))
	if got := w.decision(free.ID).Answer; got != "SQLite, please" {
		t.Errorf("the answer is %q", got)
	}
}

func TestTheFirstWriterWinsAndTheSecondLearnsWho(t *testing.T) {
	w := newWorld(t)
	first, second := w.owner(), w.owner()
	d := w.askBash("npm test")
	w.must(first.Answer(t.Context(), d.ID, nod.Deny, ""))
	err := second.Answer(t.Context(), d.ID, nod.Allow, "")
	w.wantCode(err, nod.Conflict)
	if !strings.Contains(err.Error(), "ada's phone") {
		t.Errorf("the conflict does not say who answered: %v", err)
	}
	if w.decision(d.ID).Permits() {
		t.Error("the second answer won")
	}
}

func TestTheInboxListsWhatWaitsBlockingFirst(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	page, err := c.Page(t.Context(), "/")
	w.must(err)
	if !strings.Contains(page, "Nothing needs you") {
		t.Error("an empty inbox must say so")
	}
	w.ask(nod.Decision{Kind: nod.Question, Cause: nod.CauseQuotaExhausted, Subject: "resets at 14:00", Options: []string{nod.Retry}}, "quota")
	w.pass(time.Second)
	w.askBash("npm test")
	page, err = c.Page(t.Context(), "/")
	w.must(err)
	bash, quota := strings.Index(page, "Allow this command?"), strings.Index(page, "The agent’s quota is used up")
	if !strings.Contains(page, "Two things need you") || bash < 0 || quota < 0 || bash > quota {
		t.Errorf("the inbox is wrong:\n%s", page)
	}
	if !strings.Contains(page, "Cart total ignores the coupon") {
		t.Error("the task under way is not listed")
	}
}

func TestLongInputIsPagedAndNothingIsLeftOut(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	var long strings.Builder
	for i := range 3000 {
		long.WriteString("line " + strings.Repeat("x", i%40) + " <&>\n")
	}
	long.WriteString("the very last line")
	d := w.askBash(long.String())
	var all strings.Builder
	pages := 0
	for n := 1; ; n++ {
		path := "/d/" + d.ID + "?page=" + string(rune('0'+n))
		page, err := c.Page(t.Context(), path)
		w.must(err)
		if total := len(page) + w.assetBytes(); total > 60_000 {
			t.Errorf("page %d comes to %d bytes", n, total)
		}
		pages++
		_, pre, _ := strings.Cut(page, `<pre class="logical first">`)
		pre, _, _ = strings.Cut(pre, "</pre>")
		all.WriteString(pre)
		more := strings.Contains(page, ">Next</a>")
		if more == strings.Contains(page, `data-answer="allow"`) {
			t.Errorf("page %d: the button that allows belongs on the last page and only there", n)
		}
		if !more {
			break
		}
	}
	unescape := strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")
	if got := unescape.Replace(all.String()); pages < 3 || got != long.String() {
		t.Errorf("%d pages hold %d of %d bytes", pages, len(got), long.Len())
	}
}

func TestWhatCannotBeProvenCannotBeAllowed(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	for _, test := range []struct {
		name  string
		ask   func() nod.Decision
		spoil func(d nod.Decision)
	}{
		{"input gone", func() nod.Decision { return w.askBash("npm test 1") }, func(d nod.Decision) { delete(w.store.blobs, d.InputDigest) }},
		{"input changed", func() nod.Decision { return w.askBash("npm test 2") }, func(d nod.Decision) {
			w.store.blobs[d.InputDigest] = []byte(`{"command":"ls"}`)
		}},
		{"diff changed", func() nod.Decision { return w.askReview(sampleDiff) }, func(d nod.Decision) {
			w.store.blobs[w.store.cases[d.Task].Revision.DiffDigest] = []byte("")
		}},
		{"another revision", func() nod.Decision { return w.askReview(sampleDiff + "\n") }, func(d nod.Decision) {
			c := w.store.cases[d.Task]
			r := *c.Revision
			r.SHA = strings.Repeat("1", 40)
			c.Revision = &r
			w.store.cases[d.Task] = c
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := test.ask()
			w.store.mu.Lock()
			test.spoil(d)
			w.store.mu.Unlock()
			page, err := c.Page(t.Context(), "/d/"+d.ID)
			w.must(err)
			if !strings.Contains(page, "Nothing can be allowed here") || strings.Contains(page, `data-answer="allow"`) {
				t.Error("the page still offers to allow it")
			}
			w.wantCode(c.Answer(t.Context(), d.ID, nod.Allow, ""), nod.Conflict)
			w.must(c.Answer(t.Context(), d.ID, nod.Deny, ""))
		})
	}
}

func TestAReviewShowsEveryFileTheCheckAndTheCommit(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	d := w.askReview(sampleDiff)
	page, err := c.Page(t.Context(), "/d/"+d.ID)
	w.must(err)
	for _, want := range []string{"Ready to push?", "Push 77be210 with passkey", "2 commits, 5 files", "passed", "npm test", headSHA, "src/cart/total.ts",
		"package-lock.json: lock file", ".github/workflows/ci.yml: workflow", "logo.png: binary", "an executable file", "fix(cart): apply coupon before tax"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if total := len(page) + w.assetBytes(); total > 60_000 {
		t.Errorf("the page comes to %d bytes", total)
	}
	w.must(c.Answer(t.Context(), d.ID, nod.Allow, ""))
}

func TestAFailedCheckIsSaid(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	for _, test := range []struct {
		receipt nod.CheckReceipt
		want    string
	}{
		{nod.CheckReceipt{SHA: headSHA, Command: []string{"make"}, ExitCode: 2}, "failed</span> make · 0s · exit 2"},
		{nod.CheckReceipt{SHA: "other", Command: []string{"make"}}, "not for this commit"},
		{nod.CheckReceipt{}, "no check is configured"},
	} {
		d := w.askReview(sampleDiff)
		w.store.mu.Lock()
		w.store.cases[d.Task].Revision.Check = test.receipt
		w.store.mu.Unlock()
		page, err := c.Page(t.Context(), "/d/"+d.ID)
		w.must(err)
		if !strings.Contains(page, test.want) {
			t.Errorf("the page lacks %q", test.want)
		}
	}
}

func TestAnUntrustedStartIsAnAllowOrDeny(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	who := func(login string, tier nod.Tier) nod.Standing {
		return nod.Standing{Actor: nod.Actor{Kind: nod.ActorGitHub, Login: login}, Tier: tier, Reason: "no permission"}
	}
	frozen, err := json.Marshal(nod.Snapshot{Repo: nod.Repo{Host: "github.com", Owner: "acme", Name: "web"}, Issue: 412, Title: "Export\u200b fails", Body: outsidersIssue,
		Author: who("first-timer", nod.Outsider), Comments: []nod.Comment{{Body: "same <!-- psst -->here", Author: who("passer-by", nod.Outsider)}}})
	w.must(err)
	d := w.ask(nod.Decision{Kind: nod.Question, Cause: nod.CauseUntrustedStart, Blocking: true, Subject: "acme/web#412", Options: []string{nod.Allow, nod.Deny}}, string(frozen))
	page, err := c.Page(t.Context(), "/d/"+d.ID)
	w.must(err)
	for _, want := range []string{"Start the agent", "Decline…", "body by first-timer, outsider", "comment by passer-by, outsider", "2 passages are hidden on GitHub", "1 character that cannot be seen",
		`<mark class="hid">&lt;!-- psst --&gt;</mark>`, `id="reason"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	w.must(c.Answer(t.Context(), d.ID, nod.Deny, "spam"))
	if got := w.decision(d.ID); got.Answer != nod.Deny || got.Reason != "spam" {
		t.Errorf("decision is %+v", got)
	}
}

func TestGivingUpNeedsNoProofButAnAgentsOptionsDo(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	failed := w.ask(nod.Decision{Kind: nod.Question, Cause: nod.CauseRunFailed, Subject: "failed", Options: []string{nod.Retry, nod.Cancel}}, "token [redacted]")
	asked := w.ask(nod.Decision{Kind: nod.Question, Cause: nod.CauseAgentQuestion, Subject: "May I?", Options: []string{nod.Deny, nod.Cancel}, FreeText: true}, "token too")
	w.store.mu.Lock()
	for _, d := range []nod.Decision{failed, asked} {
		w.store.blobs[d.InputDigest] = []byte("something else")
	}
	w.store.mu.Unlock()
	w.wantCode(c.Answer(t.Context(), failed.ID, nod.Retry, ""), nod.Conflict)
	w.must(c.Answer(t.Context(), failed.ID, nod.Cancel, ""))
	for _, answer := range []string{nod.Deny, nod.Cancel, "words"} {
		w.wantCode(c.Answer(t.Context(), asked.ID, answer, ""), nod.Conflict)
	}
}

func TestTheTaskPageEndsWithTheNewestEvents(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	task := w.task("t00000000000000aa", "Flaky login test")
	for i := range 150 {
		w.store.commit(nod.NewEvent(task.ID, nod.Transcript, nod.EventMessage, nod.Actor{Kind: nod.ActorAgent}, nod.Message{Text: "message number " + string(rune('A'+i/26)) + string(rune('A'+i%26)) + "."}))
	}
	page, err := c.Page(t.Context(), "/t/"+task.ID)
	w.must(err)
	if !strings.Contains(page, "message number FT.") || strings.Contains(page, "message number AA.") || !strings.Contains(page, `data-after="150"`) {
		t.Error("the page does not end with the newest events")
	}
	page, err = c.Page(t.Context(), "/t/"+task.ID+"?before=31")
	w.must(err)
	if !strings.Contains(page, "message number AA.") || !strings.Contains(page, "message number BD.") || strings.Contains(page, "message number BE.") {
		t.Error("paging back does not show the earlier events")
	}
}

// assetBytes is what a first visit loads besides the page.
func (w *world) assetBytes() (n int) {
	for _, name := range []string{"nod.css", "nod.js", "mark.svg"} {
		_, body := w.do(http.MethodGet, "/assets/"+name, nil, "")
		n += len(body)
	}
	return n
}

func TestALongDiffIsPagedAndEveryPageIsSmall(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	var diff strings.Builder
	for f := range 40 {
		fmt.Fprintf(&diff, "diff --git a/f%d b/f%d\n--- a/f%d\n+++ b/f%d\n@@ -0,0 +1,50 @@\n", f, f, f, f)
		for i := range 50 {
			fmt.Fprintf(&diff, "+<line %d of %d>\n", i, f)
		}
	}
	commits := make([]nod.Commit, 120)
	for i := range commits {
		commits[i] = nod.Commit{SHA: headSHA, Subject: fmt.Sprintf("commit %d", i), Message: fmt.Sprintf("commit %d\n\nbody <%d>", i, i)}
	}
	d := w.askReview(diff.String(), commits...)
	var all strings.Builder
	for n := 1; ; n++ {
		page, err := c.Page(t.Context(), fmt.Sprintf("/d/%s?page=%d", d.ID, n))
		w.must(err)
		if total := len(page) + w.assetBytes(); total > 60_000 {
			t.Errorf("page %d comes to %d bytes", n, total)
		}
		all.WriteString(page)
		if !strings.Contains(page, ">Next</a>") {
			break
		}
	}
	for f := range 40 {
		for i := range 50 {
			if want := fmt.Sprintf("&#43;&lt;line %d of %d&gt;", i, f); strings.Count(all.String(), want) != 1 {
				t.Fatalf("%q is shown %d times", want, strings.Count(all.String(), want))
			}
		}
	}
	for i := range commits {
		if !strings.Contains(all.String(), fmt.Sprintf("body &lt;%d&gt;", i)) {
			t.Errorf("commit %d is not shown", i)
		}
	}
}

func TestAssetsAreServedWithTheirTypes(t *testing.T) {
	w := newWorld(t)
	for name, kind := range map[string]string{"nod.css": "text/css; charset=utf-8", "nod.js": "text/javascript; charset=utf-8", "mark.svg": "image/svg+xml"} {
		resp, body := w.do(http.MethodGet, "/assets/"+name, nil, "")
		if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != kind || body == "" {
			t.Errorf("%s: %s %s", name, resp.Status, resp.Header.Get("Content-Type"))
		}
	}
	if resp, _ := w.do(http.MethodGet, "/assets/nod.go", nil, ""); resp.StatusCode != http.StatusNotFound {
		t.Errorf("an unknown asset is %s", resp.Status)
	}
}

func TestSigningOutEndsTheSession(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	if _, err := c.Page(t.Context(), "/"); err != nil {
		t.Fatal(err)
	}
	w.must(c.Post(t.Context(), "/signout", struct{}{}, nil))
	_, err := c.Page(t.Context(), "/")
	w.wantCode(err, nod.Unauthenticated)
	if len(w.store.sessions) != 0 {
		t.Error("the session is still stored")
	}
}

func TestASessionEndsByItself(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	w.pass(25 * time.Hour)
	_, err := c.Page(t.Context(), "/")
	w.wantCode(err, nod.Unauthenticated)
}

func TestUnknownThingsAreNotFound(t *testing.T) {
	w := newWorld(t)
	c := w.owner()
	for _, path := range []string{"/d/d0", "/t/t0", "/t/t0/events", "/nothing"} {
		if _, err := c.Page(t.Context(), path); nod.CodeOf(err) != nod.NotFound {
			t.Errorf("%s: %v", path, err)
		}
	}
	resp, _ := w.do(http.MethodPost, "/d/d0", http.Header{"Origin": {w.url}}, "")
	if resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST to a page is %s", resp.Status)
	}
}

const sampleDiff = `diff --git a/src/cart/total.ts b/src/cart/total.ts
index 1111111..2222222 100644
--- a/src/cart/total.ts
+++ b/src/cart/total.ts
@@ -31,4 +31,5 @@ import { Money } from './money'
 export function total(cart: Cart, coupon?: Coupon): Money {
-  const taxed = withTax(sum(cart.lines), cart.region)
-  return coupon ? taxed.minus(coupon.value) : taxed
+  const net = sum(cart.lines)
+  const reduced = coupon ? net.minus(coupon.valueFor(net)).max(ZERO) : net
+  return withTax(reduced, cart.region)
 }
diff --git a/package-lock.json b/package-lock.json
index 3333333..4444444 100644
--- a/package-lock.json
+++ b/package-lock.json
@@ -10,2 +10,3 @@
   "lockfileVersion": 3,
+  "vitest": "3.2.4",
   "requires": true
diff --git a/.github/workflows/ci.yml b/.github/workflows/ci.yml
new file mode 100644
index 0000000..5555555
--- /dev/null
+++ b/.github/workflows/ci.yml
@@ -0,0 +1,2 @@
+on: push
+jobs: {}
diff --git a/logo.png b/logo.png
index 6666666..7777777 100644
Binary files a/logo.png and b/logo.png differ
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
`
