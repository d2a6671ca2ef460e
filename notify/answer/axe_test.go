package answer_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"nod"
	"nod/notify/answer/answertest/chromium"
	"nod/runtime/runtimetest"
)

// axe is the accessibility checker, from the npm package axe-core in the
// directory that NOD_AXE names.
func axe(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("NOD_AXE")
	if dir == "" {
		runtimetest.Missing(t, "the npm package axe-core (NOD_AXE)")
	}
	script, err := os.ReadFile(filepath.Join(dir, "axe.min.js"))
	if err != nil {
		t.Fatal(err)
	}
	return string(script)
}

// violation is one rule that a page breaks.
type violation struct {
	ID     string `json:"id"`
	Impact string `json:"impact"`
	Help   string `json:"help"`
	Nodes  []struct {
		HTML    string `json:"html"`
		Summary string `json:"failureSummary"`
	} `json:"nodes"`
}

// serious has axe-core, which the page holds, judge the page as it is.
func serious(t *testing.T, b *chromium.Browser) []violation {
	t.Helper()
	chromium.Eval[bool](b, `document.documentElement.removeAttribute('data-judged'), axe.run(document, {resultTypes: ['violations']})
		.then((r) => { window.judged = JSON.stringify(r.violations); document.documentElement.setAttribute('data-judged', ''); }), true`)
	b.Wait("html[data-judged] main")
	var found []violation
	if err := json.Unmarshal([]byte(chromium.Eval[string](b, "window.judged")), &found); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(found, func(v violation) bool { return v.Impact != "serious" && v.Impact != "critical" })
}

// TestPagesAreAccessible lets axe-core judge every page, on a phone and on a desk,
// the phone light and dark: nothing serious or critical may be wrong.
func TestPagesAreAccessible(t *testing.T) {
	checker := axe(t)
	for _, size := range []chromium.Size{chromium.Phone(), chromium.Desk()} {
		t.Run(size.Name, func(t *testing.T) {
			w := newWorld(t)
			b := chromium.Start(t, size)
			judge := func(name, path, wait string) {
				t.Helper()
				if path != "" {
					b.Open(path)
				}
				b.Wait(wait)
				chromium.Eval[bool](b, checker+";true")
				for _, dark := range []bool{false, true} {
					if dark && !size.Phone {
						continue // the colours are the same
					}
					b.Dark(dark)
					for _, v := range serious(t, b) {
						t.Errorf("%s (dark %t): %s, %s: %s\n%s\n%s", name, dark, v.Impact, v.ID, v.Help, v.Nodes[0].HTML, v.Nodes[0].Summary)
					}
				}
				b.Dark(false)
			}
			judge("enrol", w.invite("ada's phone"), "#go")
			b.Click("#go")
			b.Wait("main[data-ceremony=signin]")
			judge("sign in", "", "#go")
			b.Click("#go")
			b.Wait("body[data-page=inbox]")
			judge("empty inbox", w.url+"/", "main")
			for _, screen := range w.screens() {
				judge(screen.name, w.url+screen.path, "main")
				if screen.name == "paused" {
					b.Click("#acts summary")
					judge("cancel", "", "#cancel")
				}
			}
			w.store.mu.Lock()
			for _, token := range []string{"one", "two"} {
				w.store.taps[nod.Digest([]byte(token))] = false
			}
			w.store.mu.Unlock()
			b.Open(w.url + "/tap/one")
			b.Until("document.querySelector('h1').textContent === 'It arrived'")
			judge("tapped", "", "main")
			b.Screenshot("tapped")
			b.Without("*://*:*/assets/nod.js*")
			judge("tap", w.url+"/tap/two", "#tap button")
			b.Screenshot("tap")
			b.Dark(true)
			b.Screenshot("tap-dark")
			chromium.Eval[bool](b, `document.documentElement.removeAttribute('lang'), true`)
			if len(serious(t, b)) == 0 {
				t.Error("a page without a language passes: the checker checks nothing")
			}
		})
	}
}
