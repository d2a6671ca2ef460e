package chromium_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"nod/notify/answer/answertest/chromium"
)

func TestAPageThatLoadsItselfAnewCanBeRead(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<!doctype html><link rel=icon href=data:><p id=here>here</p><script>setTimeout(() => location.reload(), 150)</script>`)
	}))
	defer web.Close()
	b := chromium.Start(t, chromium.Desk())
	b.Open(web.URL)
	for range 15 {
		if got := b.Text("#here"); got != "here" {
			t.Fatalf("read %q", got)
		}
		chromium.Eval[string](b, "location.href")
	}
}
